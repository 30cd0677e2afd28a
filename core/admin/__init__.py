"""The admin server: an HTTP application on a port of its own, for metrics, health, the API and the console.

Work that takes long is done in slices, and other tasks of the event loop run between two slices. This package may
import ``core.observe`` and read rows of plain values; only ``api`` uses the control plane and the engine behind it.
Begin reading with ``application.py``.
"""
