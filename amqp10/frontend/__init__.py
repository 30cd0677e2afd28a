"""The broker's side of AMQP 1.0: joins the protocol engine of one connection with the broker's engine.

It imports ``amqp10.protocol``, ``amqp10.management`` and :mod:`core.interface`, never the engine behind that. Begin
reading with ``front_end.py``, at ``Amqp10FrontEnd.receive_data``.
"""
