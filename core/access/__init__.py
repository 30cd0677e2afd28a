"""Users, passwords and login attempts, and the server's side of the SASL mechanisms.

It knows nothing of AMQP. Begin reading with ``login.py``.
"""
