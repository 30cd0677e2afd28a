"""Classic queues that are durable or large: states alpha to delta, paging to disk, and the queue index.

It imports ``ready`` of the engine, and the store. Begin reading with ``variable_queue.py``.
"""
