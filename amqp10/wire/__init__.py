"""The bytes of AMQP 1.0: types, frames, performatives, message sections, serial numbers, and faster paths for runs.

It imports nothing but ``amqp10.errors``. Begin reading with ``performatives.py``: it declares every frame body.
"""
