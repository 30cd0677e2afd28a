"""What makes publishers stop while it lasts (alarms), and what operators should know (notices).

It imports nothing but the interface. Begin reading with ``registry.py``.
"""
