"""The ``headgate`` command: a module for each subcommand, and the modules that several subcommands use.

Most commands ask a running broker over AMQP, with the client in ``amqp10.blocking``. ``store``, ``config`` and ``check
store`` read files. A command imports what it needs when it runs. Begin reading with ``main.py``.
"""
