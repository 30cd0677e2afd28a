"""Streams: every consumer reads every message, from an offset of its own.

It imports ``queue``, ``ready`` and ``options`` of the engine, and the store. Begin reading with ``stream_queue.py``.
"""
