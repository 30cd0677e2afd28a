"""Records on disk: lanes, queue indexes, the message store, command and stream logs, definitions, and recovery.

Only ``disk.py`` and the files of definitions touch the file system, and no module starts a thread. It imports nothing
of the engine. Begin reading with ``lane.py``, then ``record.py``.
"""
