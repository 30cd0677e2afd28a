"""Finds the queues to which a run is routed, with a cache of the results.

The result for an exchange and its routing keys is cached until the topology changes. If the route has a headers
exchange, the result depends on the message: then nothing is cached, each message is routed by itself, and the run is
cut where the result changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from core.engine.queue.kinds import AnyQueue
from core.engine.routing.exchanges import route
from core.engine.routing.topology import Topology
from core.interface import Converter
from core.message import Origin, Run
from core.work import Work

Queues = Sequence[AnyQueue]

HEADERS_WORK = 20
HEADER_BYTES_A_UNIT = 16
"""Reading the headers of a message costs 20 µs, and 1 µs more for each 16 bytes of the message."""


class Router:
    """Routes runs through the exchanges to queues. It never changes exchanges or queues."""

    __slots__ = ("_converter", "_kept", "_kept_max", "_kept_version", "_queues", "_topology", "_work")

    def __init__(
        self,
        topology: Topology,
        queues: Mapping[str, AnyQueue],
        *,
        converter: Converter | None,
        kept_max: int,
        work: Work,
    ) -> None:
        self._topology = topology
        self._queues = queues
        self._converter = converter
        self._kept: dict[tuple[str, tuple[str, ...]], Queues] = {}
        self._kept_version = topology.version
        self._kept_max = kept_max
        self._work = work

    @property
    def kept(self) -> int:
        """How many results are cached."""
        return len(self._kept)

    def route(self, exchange: str, keys: tuple[str, ...], run: Run) -> Iterator[tuple[Run, Queues]]:
        """Yield the run, cut into parts if needed, each with the queues to which it is routed."""
        if self._kept_version != self._topology.version:
            self._kept_version = self._topology.version
            self._kept.clear()
        queues = self._kept.get((exchange, keys))
        if queues is not None:
            yield run, queues
            return
        queues, by_headers = self._ask(exchange, keys, run.entries[0], run.attributes.origin)
        if by_headers:
            yield from self._route_each(exchange, keys, run)
            return
        if len(self._kept) >= self._kept_max:
            self._kept.clear()
        self._kept[exchange, keys] = queues
        yield run, queues

    def _route_each(self, exchange: str, keys: tuple[str, ...], run: Run) -> Iterator[tuple[Run, Queues]]:
        origin = run.attributes.origin
        answers = [self._ask(exchange, keys, entry, origin)[0] for entry in run.entries]
        start = 0
        for queues, alike in groupby(answers):
            stop = start + len(list(alike))
            part = Run(run.first + start, run.entries[start:stop], run.attributes, run.routing_keys)
            yield part, queues
            start = stop

    def _ask(self, exchange: str, keys: tuple[str, ...], entry: bytes, origin: Origin) -> tuple[Queues, bool]:
        """Return the queues, and whether the route has read the message's headers."""
        asked = False

        def headers() -> Mapping[str, object]:
            nonlocal asked
            asked = True
            self._work.spent += HEADERS_WORK + len(entry) // HEADER_BYTES_A_UNIT
            return self._converter.routing_headers(entry, origin) if self._converter else {}

        names = route(self._topology.exchanges, exchange, keys, headers, self._work)
        return tuple(self._queues[name] for name in names if name in self._queues), asked
