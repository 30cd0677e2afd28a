"""The room of the broker that awaits: sockets, tasks, timers, worker threads, and the orderly stop.

It imports the interface and no protocol: front ends are handed in. Begin reading with ``run.py``, then ``peer.py`` and
``pump.py``.
"""
