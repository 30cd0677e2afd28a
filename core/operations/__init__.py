"""One table of everything that an operator can ask of the broker, for every protocol that an operator may use.

It may import the engine, the store, the observers, the server and ``core.control_plane``; it knows neither AMQP nor
HTTP. Begin reading with ``operation.py``, which says what an entry of the table is; ``all_operations.py`` has all.
"""
