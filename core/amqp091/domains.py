"""The domains of method fields and properties [0-9-1 4.2.5]: for each a name, and the Python type that it has here.

The aliases annotate fields of dataclasses. The codec takes the encoding of a field from them, and type checkers its
type.
"""

from enum import Enum, auto
from typing import Annotated

from core.amqp091.table import FieldTable


class Domain(Enum):
    """How a field is encoded [0-9-1 4.2.5]."""

    OCTET = auto()
    SHORT = auto()
    LONG = auto()
    LONG_LONG = auto()
    SHORT_STRING = auto()
    LONG_STRING = auto()
    BIT = auto()
    """Consecutive bits share octets, the first of them in the lowest bit [0-9-1 4.2.5.2]."""
    TABLE = auto()
    TIMESTAMP = auto()


Octet = Annotated[int, Domain.OCTET]
Short = Annotated[int, Domain.SHORT]
Long = Annotated[int, Domain.LONG]
LongLong = Annotated[int, Domain.LONG_LONG]
ShortString = Annotated[str, Domain.SHORT_STRING]
LongString = Annotated[bytes, Domain.LONG_STRING]
"""Bytes, because a SASL response need not be text."""
Bit = Annotated[bool, Domain.BIT]
Table = Annotated[FieldTable, Domain.TABLE]
Timestamp = Annotated[int, Domain.TIMESTAMP]
"""Seconds since 1970. Only the basic properties have one; no method does."""
