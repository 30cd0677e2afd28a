"""Finds the queues to which a run is routed, with a cache of the results.

The result for an exchange and the routing keys of a message is cached until the topology changes. If the route has a
headers exchange, the result depends on the message: then nothing is cached, and each message is routed by itself. A run
is cut where the result changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from core.engine.queue.kinds import AnyQueue
from core.engine.routing.exchanges import route
from core.engine.routing.topology import Topology
from core.interface import Converter
from core.message import Origin, Route, Run, part_of
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
        self._kept: dict[tuple[str, tuple[str, ...]], tuple[Queues, Route]] = {}
        self._kept_version = topology.version
        self._kept_max = kept_max
        self._work = work

    @property
    def kept(self) -> int:
        """How many results are cached."""
        return len(self._kept)

    def known_keys(self, exchange: str, keys: Sequence[str]) -> int:
        """Return for how many of these routing keys, from the first one on, the result is cached."""
        if self._kept_version != self._topology.version:
            return 0
        kept = self._kept
        for place, key in enumerate(keys):
            if (exchange, (key,)) not in kept:
                return place
        return len(keys)

    def route(self, exchange: str, keys: tuple[str, ...], run: Run) -> Sequence[tuple[Run, Queues]]:
        """Return the run, cut into parts if needed, each with its route and the queues to which it is routed."""
        known = self._known(exchange, keys, run.entries[0], run.origin)
        if known is not None:
            queues, run.routes = known
            return [(run, queues)]
        origin = run.origin
        answers = [self._ask(exchange, keys, entry, origin)[0] for entry in run.entries]
        run.routes = Route(exchange, keys)
        return list(_by_queues(run, answers))

    def route_by_keys(self, exchange: str, keys: Sequence[str], run: Run) -> Sequence[tuple[Run, Queues]]:
        """Return the same for a run whose messages have a routing key each."""
        self._work.spent += len(run.entries)
        origin = run.origin
        kept = self._kept if self._kept_version == self._topology.version else {}
        answers: list[Queues] = []
        routes: list[Route | None] = []
        for key, entry in zip(keys, run.entries, strict=True):
            known = kept.get((exchange, (key,))) or self._known(exchange, (key,), entry, origin)
            if known is None:
                known = self._ask(exchange, (key,), entry, origin)[0], Route(exchange, (key,))
            answers.append(known[0])
            routes.append(known[1])
        run.routes = routes
        if answers.count(answers[0]) == len(answers):
            return [(run, answers[0])]
        return list(_by_queues(run, answers))

    def _known(self, exchange: str, keys: tuple[str, ...], entry: bytes, origin: Origin) -> tuple[Queues, Route] | None:
        """Return the queues and the route of all messages with these keys; None if a message's headers decide."""
        if self._kept_version != self._topology.version:
            self._kept_version = self._topology.version
            self._kept.clear()
        kept = self._kept.get((exchange, keys))
        if kept is None:
            queues, by_headers = self._ask(exchange, keys, entry, origin)
            if by_headers:
                return None
            if len(self._kept) >= self._kept_max:
                self._kept.clear()
            kept = self._kept[exchange, keys] = queues, Route(exchange, keys)
        return kept

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


def _by_queues(run: Run, answers: Sequence[Queues]) -> Iterator[tuple[Run, Queues]]:
    """Cut a run where the queues to which its messages are routed change."""
    start = 0
    for queues, alike in groupby(answers):
        stop = start + len(list(alike))
        attributes, routes = part_of(run.attributes, start, stop), part_of(run.routes, start, stop)
        yield Run(run.first + start, run.entries[start:stop], attributes, run.routing_keys, routes), queues
        start = stop
