"""A messaging kit for services: call, cast, multicast and broadcast over one connection. These are its public names.

Begin with :meth:`Service.open`. :mod:`amqp10.services.errors` explains what each error means for the command.

It imports ``amqp10.client`` and ``amqp10.wire``, and nothing of ``core``. Begin reading with ``service.py``.
"""

from amqp10.services.calls import CallResult
from amqp10.services.commands import Commands
from amqp10.services.discovery import CommandDescription, HostDescription
from amqp10.services.errors import (
    BadBody,
    BadName,
    Busy,
    CallTimedOut,
    CommandUncertain,
    DeclaredDifferently,
    NotSent,
    RemoteError,
    ServiceError,
    Unroutable,
)
from amqp10.services.naming import ServiceName
from amqp10.services.options import ServiceOptions
from amqp10.services.ring import HostRing
from amqp10.services.service import Service, ServiceRequest

__all__ = [
    "Service",
    "ServiceOptions",
    "Commands",
    "ServiceRequest",
    "CallResult",
    "ServiceName",
    "HostRing",
    "HostDescription",
    "CommandDescription",
    "ServiceError",
    "BadName",
    "BadBody",
    "DeclaredDifferently",
    "NotSent",
    "Unroutable",
    "Busy",
    "RemoteError",
    "CallTimedOut",
    "CommandUncertain",
]
