"""What all connections of one protocol have done since the start.

Front ends and the server count; snapshots and metrics read. Begin reading with ``traffic.py``.
"""
