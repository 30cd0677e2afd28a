"""The sans-IO engine of AMQP 1.0: handshake, SASL, connections, sessions, links. Bytes go in, events and bytes out.

It imports ``amqp10.wire`` and ``amqp10.flow``. Begin reading with ``connection.py``, at ``Connection.receive_data``.
"""
