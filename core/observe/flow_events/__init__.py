"""Flow events: records of when which link, session or stage waited and why, kept in rings and written as messages.

Begin reading with ``schema.py``, which declares the records; docs/flow-events.md describes them.
"""
