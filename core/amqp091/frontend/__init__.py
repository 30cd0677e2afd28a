"""The broker's side of AMQP 0.9.1: one front end for each connection, and in it one stage for each channel.

It imports the protocol engine and :mod:`core.interface`, never the engine behind that. Begin reading with
``front_end.py``, then ``channel.py``.
"""
