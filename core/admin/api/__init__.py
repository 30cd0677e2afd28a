"""The HTTP API: Headgate's own operations, and those of RabbitMQ's management plugin that clients and tools use.

Begin reading with ``operations.py``, which says what an operation is; ``headgate.py`` and ``rabbitmq.py`` list them.
"""
