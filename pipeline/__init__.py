"""The data pipeline on Spark: tables made from flow events, and reports made from the tables.

It reads and writes messages with the connector in ``pyspark_amqp10``. It imports nothing of the broker: it could read
another broker's flow events as well. Begin reading with ``tables``.
"""
