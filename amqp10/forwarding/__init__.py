"""Connections to other nodes: a queue that another node leads is a pair of AMQP 1.0 links to it.

It imports ``protocol``, ``frontend`` (headers, outcomes), ``conversion``, and ``core.engine.forwarding``, whose
protocols it provides. Begin reading with ``node_connection.py``.
"""
