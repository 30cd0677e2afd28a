"""The ``headgate`` command: a table of all commands, and a module for each that does more than one request.

Most commands ask a running broker over AMQP, with the client in ``amqp10.blocking``. ``store``, ``config`` and ``check
store`` read files. A command imports what it needs when it runs. Begin reading with ``main.py``.
"""
