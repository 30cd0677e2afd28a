"""A messaging kit for services: call, cast, multicast and broadcast over one connection. Its public names.

:meth:`Service.open` is where to begin; :mod:`amqp10.services.errors` says what an error means for what was called.
"""

from amqp10.services.calls import Answer
from amqp10.services.errors import (
    BadName,
    Busy,
    CallTimedOut,
    DeclaredDifferently,
    NotSent,
    RemoteError,
    ServiceError,
    Uncertain,
    Unroutable,
)
from amqp10.services.naming import Place
from amqp10.services.options import ServiceOptions
from amqp10.services.ring import Ring
from amqp10.services.service import Service
from amqp10.services.serving import Commands, Request

__all__ = [
    "Service",
    "ServiceOptions",
    "Commands",
    "Request",
    "Answer",
    "Place",
    "Ring",
    "ServiceError",
    "BadName",
    "DeclaredDifferently",
    "NotSent",
    "Unroutable",
    "Busy",
    "RemoteError",
    "CallTimedOut",
    "Uncertain",
]
