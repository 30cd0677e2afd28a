"""Load over AMQP 0.9.1: the same publisher, consumer and ledger in the other protocol, again without broker code.

Begin reading with ``endpoint.py``.
"""
