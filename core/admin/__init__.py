"""The admin server: an HTTP application on a port of its own, for metrics, health, the API and the console.

It does all longer work in slices between turns of the event loop. It imports ``core.observe`` and reads rows; it knows
nothing of the engine's inside. Begin reading with ``application.py``.
"""
