"""Finds the queues to which a run is routed, with a cache of the results.

The result for an exchange and the routing keys of a message is cached until the topology changes. If the route has a
headers exchange, the result depends on the message: then nothing is cached, and each message is routed by itself. A run
is cut where the result changes.

Results are kept in two tables for each exchange, so that those of a run of messages with a routing key each are looked
up without a loop.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, NoReturn, TypeAlias

from core.engine.queue.kinds import AnyQueue
from core.engine.routing.exchanges import DEFAULT_EXCHANGE, route
from core.engine.routing.topology import Topology
from core.interface import Converter
from core.message import Origin, Route, Run, part_of
from core.work import Work

Queues = Sequence[AnyQueue]
RoutingKeys: TypeAlias = str | tuple[str, ...]
"""The routing keys of a message: one, or several."""

HEADERS_WORK = 20
HEADER_BYTES_A_UNIT = 16
"""Reading the headers of a message costs 20 µs, and 1 µs more for each 16 bytes of the message."""
SEARCH_WORK = 200
"""Once this much has been spent on searches for the keys of one run, in units of :mod:`core.work`, the rest of the run
waits: a tenth of what a peer may do in its turn. The queues of 66 keys of a direct exchange are found for it, in 0.4
ms."""


class _HeadersAsked(Exception):
    """The queues depend on a message's headers, and no message is at hand."""


class _Kept(NamedTuple):
    """What is cached of one exchange. Equal results are one object."""

    queues: dict[RoutingKeys, Queues]
    routes: dict[RoutingKeys, Route]


_NOTHING = _Kept({}, {})
"""What is cached of an exchange without results; it stays empty."""


class Router:
    """Routes runs through the exchanges to queues. It never changes exchanges or queues."""

    __slots__ = (
        "_by_headers", "_converter", "_distinct", "_kept", "_kept_max", "_kept_version", "_queues", "_topology",
        "_work", "kept",
    )  # fmt: skip

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
        self.kept = 0
        """How many results are cached."""
        self._kept: dict[str, _Kept] = {}
        """By exchange, of those with results."""
        self._distinct: dict[Queues, Queues] = {}
        """The results themselves, each once."""
        self._by_headers: set[str] = set()
        """Exchanges from which a search has come to a headers exchange."""
        self._kept_version = topology.version
        self._kept_max = kept_max
        self._work = work

    def _of(self, exchange: str) -> _Kept:
        """What is cached of this exchange."""
        if self._kept_version != self._topology.version:
            self._kept_version = self._topology.version
            self._by_headers.clear()
            self._forget()
        return self._kept.get(exchange, _NOTHING)

    def _forget(self) -> None:
        self._kept.clear()
        self._distinct.clear()
        self.kept = 0

    def _keep(self, exchange: str, keys: RoutingKeys, queues: Queues) -> tuple[Queues, Route]:
        """Cache a result, and return it with its route."""
        if self.kept >= self._kept_max:
            self._forget()
        self.kept += 1
        kept = self._kept.setdefault(exchange, _Kept({}, {}))
        queues = kept.queues[keys] = self._distinct.setdefault(queues, queues)
        its_route = kept.routes[keys] = Route(exchange, (keys,) if isinstance(keys, str) else keys)
        return queues, its_route

    def known_keys(self, exchange: str, keys: Sequence[str]) -> int:
        """Return for how many of these routing keys, from the first one on, the queues are known. Those that are not
        cached are searched for, until that has cost :data:`SEARCH_WORK`; where headers decide, they are not known."""
        kept = self._of(exchange).queues
        if all(map(kept.__contains__, keys)):
            return len(keys)
        until = self._work.spent + SEARCH_WORK
        for place, key in enumerate(keys):
            if key not in kept:
                if self._work.spent >= until or not self._search(exchange, key):
                    return place
                kept = self._of(exchange).queues
        return len(keys)

    def _search(self, exchange: str, key: str) -> bool:
        """Search for the queues of one routing key, and cache them. Returns False if there is no such exchange, or
        headers decide."""
        if exchange in self._by_headers or not (exchange == DEFAULT_EXCHANGE or exchange in self._topology.exchanges):
            return False
        try:
            names = route(self._topology.exchanges, exchange, (key,), _no_headers, self._work)
        except _HeadersAsked:
            self._by_headers.add(exchange)
            return False
        self._keep(exchange, key, self._named(names))
        return True

    def route(self, exchange: str, keys: tuple[str, ...], run: Run) -> Sequence[tuple[Run, Queues]]:
        """Return the run, cut into parts if needed, each with its route and the queues to which it is routed."""
        asked = keys[0] if len(keys) == 1 else keys
        queues, kept = self._answer(exchange, asked, run.entries[0], run.origin)
        if kept is not None:
            run.routes = kept
            return [(run, queues)]
        answers = [queues, *(self._answer(exchange, asked, entry, run.origin)[0] for entry in run.entries[1:])]
        run.routes = Route(exchange, keys)
        return list(_by_queues(run, answers))

    def route_by_keys(self, exchange: str, keys: Sequence[str], run: Run) -> Sequence[tuple[Run, Queues]]:
        """Return the same for a run whose messages have a routing key each."""
        self._work.spent += len(run.entries)
        kept = self._of(exchange)
        routes: list[Route | None]
        try:
            answers = list(map(kept.queues.__getitem__, keys))
            routes = list(map(kept.routes.__getitem__, keys))
        except KeyError:
            answers, routes = self._each_by_key(exchange, keys, run)
        run.routes = routes
        if answers.count(answers[0]) == len(answers):
            return [(run, answers[0])]
        return list(_by_queues(run, answers))

    def _each_by_key(self, exchange: str, keys: Sequence[str], run: Run) -> tuple[list[Queues], list[Route | None]]:
        """The queues and the route of each message."""
        origin = run.origin
        answers: list[Queues] = []
        routes: list[Route | None] = []
        for key, entry in zip(keys, run.entries, strict=True):
            queues, kept = self._answer(exchange, key, entry, origin)
            answers.append(queues)
            routes.append(kept or Route(exchange, (key,)))
        return answers, routes

    def _answer(self, exchange: str, keys: RoutingKeys, entry: bytes, origin: Origin) -> tuple[Queues, Route | None]:
        """Return the queues of one message with these keys, and the route of all messages with them; None for the
        route if a message's headers decide, or its turn."""
        kept = self._of(exchange)
        queues = kept.queues.get(keys)
        if queues is not None:
            return queues, kept.routes[keys]
        queues, by_headers = self._ask(exchange, (keys,) if isinstance(keys, str) else keys, entry, origin)
        return (queues, None) if by_headers else self._keep(exchange, keys, queues)

    def _ask(self, exchange: str, keys: tuple[str, ...], entry: bytes, origin: Origin) -> tuple[Queues, bool]:
        """Return the queues, and whether the route has read the message's headers."""
        asked = False

        def headers() -> Mapping[str, object]:
            nonlocal asked
            asked = True
            self._work.spent += HEADERS_WORK + len(entry) // HEADER_BYTES_A_UNIT
            return self._converter.routing_headers(entry, origin) if self._converter else {}

        names = route(self._topology.exchanges, exchange, keys, headers, self._work)
        return self._named(names), asked

    def _named(self, names: Sequence[str]) -> Queues:
        return tuple(self._queues[name] for name in names if name in self._queues)


def _no_headers() -> NoReturn:
    raise _HeadersAsked


def _by_queues(run: Run, answers: Sequence[Queues]) -> Iterator[tuple[Run, Queues]]:
    """Cut a run where the queues to which its messages are routed change."""
    start = 0
    for queues, alike in groupby(answers):
        stop = start + len(list(alike))
        attributes, routes = part_of(run.attributes, start, stop), part_of(run.routes, start, stop)
        yield Run(run.first + start, run.entries[start:stop], attributes, run.routing_keys, routes), queues
        start = stop
