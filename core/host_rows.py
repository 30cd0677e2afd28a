"""The rows as they are for one virtual host, where a broker has several."""

from collections.abc import Callable, Iterator

from core.engine.broker import Broker
from core.interface import Snapshot
from core.rows import SERVER_KINDS
from core.virtual_hosts import VIRTUAL_HOST, shown_name

OF_ALL = SERVER_KINDS | {"alarms", "lanes", "totals"}
"""Kinds whose rows do not belong to one virtual host."""


class HostRows:
    """The rows as they are for one virtual host, where there are several. It serves one look at most."""

    def __init__(self, found: Callable[[str, str | None], Iterator[Snapshot]], host: Broker) -> None:
        """``found`` returns the rows of all virtual hosts, as :class:`core.row_walks.RowSource`."""
        self._found = found
        self._host = host
        self._elsewhere: set[str] = set()
        """Connections of other virtual hosts that were looked at."""

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`. Rows of names are those of this virtual host. Links and channels of
        connections that were seen to be in another one come without names of queues and exchanges. Stalls are known by
        the addresses under which the queues of all virtual hosts stand together."""
        name, found = self._host.virtual_host, self._found
        if kind == "connections":
            return map(self._seen, found(kind, identity))
        if kind in ("links", "channels"):
            return map(self._without_names, found(kind, identity))
        if kind == "waiting_publishers":
            return ({**row, "address": identity} for row in found(kind, shown_name(name, identity or "")))
        if kind == "stalls":
            prefix = shown_name(name, "")
            return ({**row, "address": str(row.get("address")).removeprefix(prefix)} for row in found(kind, identity))
        return found(kind, identity) if kind in OF_ALL else self._host.rows(kind, identity)

    def _seen(self, row: Snapshot) -> Snapshot:
        if (row.get("vhost") or VIRTUAL_HOST) != self._host.virtual_host:
            self._elsewhere.add(str(row["identity"]))
        return row

    def _without_names(self, row: Snapshot) -> Snapshot:
        if row.get("connection") in self._elsewhere:
            return {**row, **{key: None for key in ("queue", "exchange") if key in row}, "publishes_to": []}
        return row
