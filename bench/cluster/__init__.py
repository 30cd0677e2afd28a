"""``python -m bench.cluster``: three nodes of Headgate beside three nodes of another broker."""
