"""From a run and its keys to the queues that take it, with the answers kept.

Routing runs once per exchange and key, not once per message: the answer is kept until the topology changes.
Where a headers exchange is on the way the answer depends on the message; nothing is kept then, each message
is routed by itself, and the run is cut where the answer changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from core.engine.kinds import AnyQueue
from core.engine.routing import route
from core.engine.topology import Topology
from core.interface import Converter
from core.message import Origin, Run
from core.work import Work

Queues = Sequence[AnyQueue]

HEADERS_WORK = 20
HEADER_BYTES_A_UNIT = 16
"""Reading the headers of a message: 20 us, and 1 us for each header of 16 bytes."""


class Router:
    """Routes runs over exchanges and queues, which it reads and never changes."""

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
        """How many answers are kept."""
        return len(self._kept)

    def route(self, exchange: str, keys: tuple[str, ...], run: Run) -> Iterator[tuple[Run, Queues]]:
        """The run, in parts where that is needed, each with the queues it goes to."""
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
        """The queues, and whether the message's headers had a say in it."""
        asked = False

        def headers() -> Mapping[str, object]:
            nonlocal asked
            asked = True
            self._work.spent += HEADERS_WORK + len(entry) // HEADER_BYTES_A_UNIT
            return self._converter.routing_headers(entry, origin) if self._converter else {}

        names = route(self._topology.exchanges, exchange, keys, headers, self._work)
        return tuple(self._queues[name] for name in names if name in self._queues), asked
