"""Messages of AMQP 1.0 as messages of AMQP 0.9.1 and back, and what the store keeps of either.

It imports ``amqp10.wire`` and ``amqp10.addresses``. Begin reading with ``convert_091.py``.
"""
