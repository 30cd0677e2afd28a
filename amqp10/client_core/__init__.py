"""What any AMQP 1.0 client knows, without input and output: URL and login, errors, messages, outcomes, links, requests.

Two clients are built on it: ``amqp10.client``, which awaits, and ``amqp10.blocking``, which blocks on
a socket. The room imports ``amqp10.wire``, ``amqp10.flow`` and ``amqp10.protocol``. It must not import anyio, and it
reads neither a socket nor a clock. Begin reading with ``events.py``.
"""
