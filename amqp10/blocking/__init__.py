"""A client of AMQP 1.0 that blocks: for commands, which ask a broker once and end, and for the connector for Spark.

It imports ``amqp10.wire``, ``amqp10.flow``, ``amqp10.protocol`` and ``amqp10.client_core``, and no Trio. Begin reading
with ``connection.py``.
"""
