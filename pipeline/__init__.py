"""The data pipeline on Spark: AMQP 1.0 as a source and a sink, and the telemetry of flow from events to answers.

It imports the sans-IO engine of ``amqp10`` and nothing else of the broker: it could read another one's events as well.
"""
