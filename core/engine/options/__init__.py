"""What queues and exchanges were asked to be: arguments of declarations, policies, and the options that follow.

It imports nothing else of the engine. Begin reading with ``in_force.py``.
"""
