"""Load for any broker of AMQP 1.0 or 0.9.1, which shares no code with the broker: for ``headgate bench``, and for the
project's own benchmarks.

It imports nothing of ``amqp10`` or ``core``, so that a mistake of theirs cannot hide itself. Begin reading with
``plan.py``.
"""
