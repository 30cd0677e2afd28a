"""AMQP 1.0 as a source and a sink of Spark: ``spark.read.format("amqp10")``.

The connector imports ``amqp10.blocking``, ``amqp10.client_core`` and ``amqp10.wire``. It imports
neither Trio nor anything of the broker or the pipeline. Begin reading with ``data_source``.

Spark finds ``format("amqp10")`` without a registration: it looks for the name ``DefaultSource`` in every top-level
module whose name begins with ``pyspark_``.
"""

from pyspark_amqp10.data_source import Amqp10DataSource as DefaultSource

__all__ = ["DefaultSource"]
