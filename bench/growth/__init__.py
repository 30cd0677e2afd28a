"""Whether what a broker does for one operation grows with how many things it has: ``python -m bench.growth``.

Begin reading with ``rule.py``, which decides, and ``dimensions.py``, which lists the rows of the table.
"""
