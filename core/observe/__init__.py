"""What operators see: the log, the ledger of stalls, metrics, time lines, ``why`` and flow events.

It is made of plain rows and counters, and imports no protocol and no server. Begin reading with ``stalls.py`` and
``why.py``.
"""
