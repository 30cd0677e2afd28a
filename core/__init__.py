"""The broker without AMQP 1.0: engine, store, server, admin server, and the front end of AMQP 0.9.1.

It never imports ``amqp10``. Begin reading with ``interface.py``: it declares what a front end asks of the engine and is
told by it.
"""
