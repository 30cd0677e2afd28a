"""The first of several processes on one port as the engine that puts the changes of definitions in order: see
:mod:`core.server.order_service`."""

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import trio

from core.cluster.definitions import StateReading, encoded, operations
from core.cluster.definitions_engine import EVERYWHERE, ChangesRead
from core.cluster.keys import ClusterKeys
from core.engine.routing.agreement import AgreedChange
from core.server.node_sockets import connect_to
from core.server.order_frames import BrokenOff, Frame, FrameReader, FrameWriter
from core.server.order_frames import encoded as encoded_frame
from core.store.order_database import StateKey

PAUSE_S = 0.1
"""The pause before the next try to connect."""
PATIENCE_S = 5.0
"""How long a request waits: a change takes two syncs of the first node's disk, and its next start about a second."""
KEYS = ClusterKeys("nodes")
"""Keys of the state. Their beginning says nothing here."""


class _Asked(NamedTuple):
    answered: Callable[[Frame], None]
    unanswered: Callable[[], None]
    until: float
    """When it has waited too long."""
    request: bytes
    again: bool
    """Whether it is sent again over the next connection. A change can be: if it is there already, its number is taken,
    and its client checks again and finds it made."""


class OrderClient:
    """The :class:`core.cluster.definitions_engine.DefinitionsEngine` of one node."""

    name, advice = "the first node", "Try again in a moment: a node that has ended is started again"

    def __init__(self, path: Path, changed: Callable[[], None]) -> None:
        """``path``: the first node's socket. ``changed`` is called when something has come."""
        self.trouble = "it has not answered yet"
        """See :class:`core.cluster.definitions_engine.DefinitionsEngine`, also for the next one and for the methods."""
        self.everywhere = EVERYWHERE
        self.latest: int | None = None
        """The number of the last change; None while there is no connection."""
        self.identity = ""
        """That of the order, as soon as there was a connection."""
        self._path, self._changed = path, changed
        self._writer: FrameWriter | None = None
        self._asked: dict[int, _Asked] = {}
        self._ids = count(1)
        self._made = -1
        self._cut: Callable[[], None] = lambda: None
        """Ends the connection."""

    # --- what the log of definitions calls

    def tell_made(self, number: int) -> None:
        self._made = number
        if self._writer is not None:
            self._writer.put("made", number)

    def put(
        self,
        number: int,
        change: AgreedChange,
        known: int,
        answered: Callable[[ChangesRead | None], None],
        unanswered: Callable[[], None],
    ) -> None:
        changed = [list(one) for one in operations(KEYS, change)]

        def come_back(frame: Frame) -> None:
            answered(None if frame[0] == "put" else _read(frame))

        self._ask(come_back, unanswered, "put", number, encoded(change), changed, known)

    def read(self, known: int, answered: Callable[[ChangesRead], None], unanswered: Callable[[], None]) -> None:
        self._ask(lambda frame: answered(_read(frame)), unanswered, "read", known)

    def read_state(self, answered: Callable[[int, StateReading], None], unanswered: Callable[[], None]) -> None:
        state = StateReading(KEYS)

        def come_back(frame: Frame) -> None:
            if frame[0] == "keys":
                state.take([StateKey(*one) for one in frame[2]])
            else:
                answered(frame[2], state)

        self._ask(come_back, unanswered, "state")

    def _ask(self, answered: Callable[[Frame], None], unanswered: Callable[[], None], verb: str, *more: object) -> None:
        id_ = next(self._ids)
        request, until = encoded_frame(verb, id_, *more), trio.current_time() + PATIENCE_S
        self._asked[id_] = _Asked(answered, unanswered, until, request, again=verb != "state")
        if self._writer is not None:
            self._writer.send(request)

    # --- the task

    def look(self) -> None:
        """Give up what has waited too long, and the connection to a first node that stands still. Called by the owner
        when it was told of a change, and from time to time."""
        now = trio.current_time()
        late = [id_ for id_, one in self._asked.items() if one.until < now]
        if late and self._writer is not None:
            self._cut()
        elif late:
            self._give_up(late)

    def _give_up(self, ids: Iterable[int]) -> None:
        for one in [self._asked.pop(id_) for id_ in ids]:
            one.unanswered()

    async def run(self, turn: Callable[[], None]) -> None:
        """Be connected until cancelled."""
        while True:
            try:
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(connect_to(self._path)))
            except OSError as error:
                self._lost(error.strerror or str(error))
            else:
                await self._talk(stream)
            await trio.sleep(PAUSE_S)

    async def _talk(self, stream: trio.SocketStream) -> None:
        """Take what comes until the connection ends."""
        why = "it does not answer"
        writer = FrameWriter(stream)
        try:
            async with stream, trio.open_nursery() as nursery:
                self._cut = nursery.cancel_scope.cancel
                nursery.start_soon(writer.run)
                reader = FrameReader(stream)
                self._take(await reader.next())
                self._writer, self.trouble = writer, ""
                if self._made >= 0:
                    writer.put("made", self._made)
                for one in self._asked.values():
                    writer.send(one.request)
                while True:
                    self._changed()
                    self._take(await reader.next())
        except* BrokenOff as group:
            why = str(group.exceptions[0])
        self._lost(why)

    def _lost(self, why: str) -> None:
        self._writer, self.latest, self.everywhere = None, None, EVERYWHERE
        self.trouble = why
        self._give_up([id_ for id_, one in self._asked.items() if not one.again])
        self._changed()

    def _take(self, frame: Frame) -> None:
        match frame:
            case ["order", str(identity), int(latest), int(everywhere)]:
                self.identity, self.latest, self.everywhere = identity, latest, everywhere
            case ["failed", int(id_), str(why)] if id_ in self._asked:
                self.trouble = why
                self._asked.pop(id_).unanswered()
            case ["keys", int(id_), list(_)] if id_ in self._asked:
                self._asked[id_].answered(frame)
            case ["put" | "read" | "state", int(id_), *_] if id_ in self._asked:
                self._asked.pop(id_).answered(frame)
            case _:
                raise BrokenOff("an answer that makes no sense")


def _read(frame: Frame) -> ChangesRead:
    return ChangesRead(frame[2], [(number, data) for number, data in frame[3]])
