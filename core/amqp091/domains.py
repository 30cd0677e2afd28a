"""The domains of method fields and properties [0-9-1 4.2.5]: for each a name, and the Python type that it has here.

The aliases annotate fields of dataclasses. From them the codec takes how a field is encoded, and all other modules its
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
"""Bytes, because a SASL response is none too textual."""
Bit = Annotated[bool, Domain.BIT]
Table = Annotated[FieldTable, Domain.TABLE]
Timestamp = Annotated[int, Domain.TIMESTAMP]
"""Seconds since 1970. No method has one; the basic properties do."""
