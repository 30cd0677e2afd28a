"""AMQP 1.0: the protocol as plain functions and state machines, and the broker's front end on top of them.

This package re-exports what an application needs to make and read messages. A module is imported when one of its names
is first used, because a command of ``headgate`` that needs none of them starts 30 ms earlier. Begin reading with
``wire``, then ``flow``, ``protocol`` and ``frontend``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp10.errors import (
        AmqpError,
        ConnectionFault,
        DecodeError,
        EncodeError,
        ErrorCondition,
        LinkFault,
        SessionFault,
    )
    from amqp10.wire.messaging import (
        Accepted,
        Coordinator,
        Error,
        Modified,
        Received,
        Rejected,
        Released,
        Source,
        Target,
    )
    from amqp10.wire.types import (
        Array,
        Byte,
        Char,
        Decimal32,
        Decimal64,
        Decimal128,
        Described,
        Float,
        Int,
        Short,
        Symbol,
        Timestamp,
        UByte,
        UInt,
        ULong,
        UShort,
        plain,
    )

__all__ = [
    "UByte",
    "UShort",
    "UInt",
    "ULong",
    "Byte",
    "Short",
    "Int",
    "Float",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Char",
    "Timestamp",
    "Symbol",
    "Array",
    "Described",
    "plain",
    "Source",
    "Target",
    "Coordinator",
    "Accepted",
    "Rejected",
    "Released",
    "Modified",
    "Received",
    "Error",
    "ErrorCondition",
    "AmqpError",
    "ConnectionFault",
    "SessionFault",
    "LinkFault",
    "DecodeError",
    "EncodeError",
]

_HOMES = ("amqp10.wire.types", "amqp10.errors", "amqp10.wire.messaging")
"""The modules that define the public names."""


def __getattr__(name: str) -> object:
    """The public name, from the first of the modules that has it. Python calls this for a name that is not here yet."""
    if name in __all__:
        for home in _HOMES:
            if (found := getattr(import_module(home), name, None)) is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
