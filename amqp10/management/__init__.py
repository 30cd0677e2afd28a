"""The ``/management`` node, where clients declare queues, and the ``/headgate`` requests of operators.

It imports ``amqp10.wire``, ``amqp10.addresses`` and the interface of the engine. Begin reading with ``node.py``.
"""
