"""AMQP 1.0 values to and from bytes [part 1].

It imports ``amqp10.wire.types`` and ``amqp10.errors``. Begin reading with ``decode.py``.
"""
