"""The rows as they are for one virtual host, where a broker has several."""

from collections.abc import Callable, Iterator

from core.engine.broker import Broker
from core.interface import Snapshot
from core.rows import SERVER_KINDS
from core.virtual_hosts import VIRTUAL_HOST, shown_name

OF_THE_BROKER = frozenset({"alarms", "lanes", "totals"})
"""Kinds whose rows belong to no virtual host."""


class HostRows:
    """The rows of one virtual host, where there are several, and those that belong to the whole broker."""

    def __init__(self, found: Callable[[str, str | None], Iterator[Snapshot]], host: Broker) -> None:
        """``found`` returns the rows of all virtual hosts, as :class:`core.row_walks.RowSource`."""
        self._found = found
        self._host = host

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`. Stalls are known by the addresses under which the queues of all
        virtual hosts stand together; here they have their own."""
        name, found = self._host.virtual_host, self._found
        if kind in SERVER_KINDS:
            return (row for row in found(kind, identity) if host_of_row(row) == name)
        if kind == "waiting_publishers":
            return ({**row, "address": identity} for row in found(kind, shown_name(name, identity or "")))
        if kind in ("stalls", "last_minute"):
            prefix = shown_name(name, "")
            own = (row for row in found(kind, identity) if host_of_row(row) == name)
            return ({**row, "address": str(row["address"]).removeprefix(prefix)} for row in own)
        return found(kind, identity) if kind in OF_THE_BROKER else self._host.rows(kind, identity)


def host_of_row(row: Snapshot) -> str:
    """The virtual host of a connection, or of what belongs to one; the default one before the connection names it."""
    return str(row.get("vhost") or VIRTUAL_HOST)
