"""Where a queue keeps messages: ready ones, returned ones, and those that consumers hold.

It imports nothing else of the engine. Begin reading with ``backing.py``.
"""
