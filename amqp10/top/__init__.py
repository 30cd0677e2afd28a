"""``headgate top``: a screen with the links of a broker, those that wait first.

It runs in a process of its own and asks the HTTP API of the admin server. :mod:`amqp10.top.admin` makes the requests,
:mod:`amqp10.top.rows` makes texts of the answers, and only :mod:`amqp10.top.app` imports textual. Nothing here imports
``core``. Begin reading with ``rows.py``.
"""
