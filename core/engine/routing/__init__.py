"""Exchanges, bindings and queues by name, and which queues a message goes to.

It imports ``queue`` and ``options`` of the engine. Begin reading with ``exchanges.py``.
"""
