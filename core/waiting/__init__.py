"""How long things wait: the seconds that like things have been blocked in all, and when the thing of a number came.

Each part of the broker that measures waiting measures it with these. Begin reading with ``blocked_time.py``.
"""
