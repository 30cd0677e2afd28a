"""The ``headgate`` command: a module for each subcommand, and what they share.

Most commands ask a running broker over AMQP, by :mod:`amqp10.client`; ``store``, ``config`` and ``check`` read files. A
command imports what it needs when it runs. Begin reading with ``main.py``.
"""
