"""Stage credit: how many messages a stage may send to the next one, and which stage holds a connection up.

It imports nothing of the broker but the clock. Begin reading with ``flow.py``; docs/stage-credit.md has the algorithm.
"""
