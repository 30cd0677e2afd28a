"""A client's choice of a virtual host: whether there is one, whether its user may use it, and whether it has room."""

from typing import Protocol

from core.access.audit import AuditedPeer
from core.access.rights import Rights
from core.errors import Forbidden, NotFound
from core.interface import Engine
from core.virtual_hosts import VIRTUAL_HOST


class VirtualHostsByName(Protocol):
    """The virtual hosts, as front ends see them."""

    def find(self, name: str) -> Engine | None:
        """Return the engine of a virtual host; None for one that there is not."""

    def check_connections(self, name: str) -> None:
        """Raises LimitReached if the virtual host has as many connections as it may have, NotFound."""


def entered(
    hosts: VirtualHostsByName, name: str, rights: Rights, *, operators: bool, audit: AuditedPeer | None = None
) -> tuple[Engine, Rights]:
    """Return the engine of a virtual host, and the rights of a user on it; ``rights`` are the user's on any.
    ``operators``: see :func:`may_stay`. ``audit`` records a refusal.

    Raises NotFound, Forbidden, LimitReached.
    """
    engine = hosts.find(name)
    if engine is None:
        raise NotFound(f"there is no virtual host {name!r}")
    there = rights.on(name)
    why = may_stay(there) if operators else there.refusal()
    if why is not None:
        if audit is not None:
            audit.refused("connect", there.user, why)
        raise Forbidden(why)
    hosts.check_connections(name)
    return engine, there


def may_stay(rights: Rights) -> str | None:
    """Why a user may not use the virtual host; None if the user may. A tag will do on the default one: requests to the
    broker come over it."""
    return None if rights.virtual_host == VIRTUAL_HOST and rights.operates else rights.refusal()


class OnlyTheDefault:
    """The virtual hosts of a broker that has one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, name: str) -> Engine | None:
        """See :class:`VirtualHostsByName`."""
        return self._engine if name == VIRTUAL_HOST else None

    def check_connections(self, name: str) -> None:
        """See :class:`VirtualHostsByName`; there is no limit."""
