"""AMQP 0.9.1: the sans-IO protocol engine, and in ``frontend`` what joins it with the broker's engine.

It imports nothing of ``amqp10``. Begin reading with ``connection.py``, at ``Amqp091Connection.receive_data``.
"""
