"""``headgate top``: the links of a broker in a terminal, those first that wait, over the HTTP API of its admin server.

A process of its own beside the broker. Only :mod:`amqp10.top.app` knows textual; what is shown is made in
:mod:`amqp10.top.rows` and fetched in :mod:`amqp10.top.admin`. Begin reading with ``rows.py``.
"""
