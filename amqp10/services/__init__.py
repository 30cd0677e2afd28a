"""A messaging kit for services: call, cast, multicast and broadcast over one connection. These are its public names.

Begin with :meth:`Service.open`. :mod:`amqp10.services.errors` explains what each error means for the command.

It imports ``amqp10.client`` and ``amqp10.wire``, and nothing of ``core``. Begin reading with ``service.py``.
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
