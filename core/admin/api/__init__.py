"""The HTTP API: Headgate's own operations, and those of RabbitMQ's management plugin that clients and tools use.

Begin reading with ``application.py``. Headgate's operations are those of ``core.operations``; ``rabbitmq.py`` and
``rabbitmq_writes.py`` list RabbitMQ's.
"""
