"""Exchanges, queues, consumers, confirms, policies and dead letters, in memory and over the store.

It knows no protocol, no socket and no clock; it imports ``core.store``, ``core.credit_flow`` and ``core.alarms``. Begin
reading with ``broker.py``, at ``Broker.publish`` and ``Broker.turn``, then ``queue/queue.py``.
"""
