"""A simulation of publishers at distances in front of one queue, with the product's own arithmetic of link credit.

``model.py`` has publishers, their links and the queue; ``policies.py`` decides about link credit, with fixed numbers or
with ``amqp10/flow/fair_rate.py``; ``scenarios.toml`` has the scenarios. Begin reading with ``__main__.py``.
"""
