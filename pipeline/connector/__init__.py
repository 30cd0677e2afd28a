"""AMQP 1.0 as a source and a sink of Spark: `spark.read.format("amqp10")`, on this project's own protocol engine."""
