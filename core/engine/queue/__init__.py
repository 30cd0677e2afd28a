"""One queue of any kind and what happens in it: publishers admitted, consumers served, limits, expiry, dead letters.

It imports ``ready``, ``options`` and ``confirms`` of the engine. Begin reading with ``queue.py``, at ``Queue.admit``.
"""
