"""The data pipeline on Spark: AMQP 1.0 as a source and a sink, and tables made from flow events.

It imports only the sans-IO engine of ``amqp10`` from the broker: it could read another broker's flow events as well.
Begin reading with ``connector`` for messages, and with ``tables`` for flow events.
"""
