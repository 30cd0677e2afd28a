"""The name by which Spark finds the connector: ``format("amqp10")`` needs no registration.

Spark looks for a ``DefaultSource`` in every top-level module whose name begins with ``pyspark_``.
"""

from pipeline.connector.data_source import Amqp10DataSource as DefaultSource

__all__ = ["DefaultSource"]
