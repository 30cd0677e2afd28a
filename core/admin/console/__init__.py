"""The console: a page about the broker, for people, in the folder ``page``, and what serves it.

Begin reading with ``page/main.js``.
"""
