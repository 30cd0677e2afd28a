"""Flow-control arithmetic of AMQP 1.0: the session window, link credit, and the ledger of unsettled deliveries.

It imports ``amqp10.wire`` and ``amqp10.errors``; no frame is made here. Begin reading with ``link_credit.py``.
"""
