"""Queues that another node leads: what is published to them is sent there, and what consumers get comes from there.

It imports ``queue``, ``ready`` and ``options`` of the engine. Begin reading with ``remote_queue.py``; what it asks of
the connection to the other node is in ``nodes.py``.
"""
