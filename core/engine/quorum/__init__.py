"""Quorum queues: a log of commands, the state machine over it, and what of it is in memory.

It imports ``ready`` of the engine, and the store. Begin reading with ``machine.py``, then ``backing.py``.
"""
