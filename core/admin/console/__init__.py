"""The console: a web page that shows the broker to people (the folder ``page``), and the routes that serve it.

Begin reading with ``page/main.js``.
"""
