"""The live stream: server-sent events for all watchers, made once for all of them.

Nothing is done while there are no watchers. Each watcher has a queue of a few events; a watcher whose queue is full
when the next event comes is dropped, and its connection ends. So a slow reader costs some kilobytes for some seconds,
and does not affect other watchers.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest

import trio
from starlette.types import ASGIApp, Receive, Scope, Send

from core.admin.answers import HEADERS, problem
from core.admin.api.refusals import HttpRefusal
from core.admin.api.rendering import render
from core.admin.callers import CALLER, Caller
from core.admin.slices import conclusion
from core.clock import Now
from core.interface import Snapshot
from core.observe.stalls import AFTER_S, Stall
from core.operations.operation import Operation, Reply, Right, Shape
from core.slices import Walk

TICK_S = 0.5
"""Seconds between two comparisons of the stalls. It may take 0.4 s to detect a stall, so a stall is shown within a
second."""
TICKS_PER_OVERVIEW = 2
STALLS_MAX = 100
"""The most rows in one event: 30 kB."""
ENDLESS = "headgate.endless"
"""The key in a connection's state of the function that declares the answer endless."""

MEDIA_TYPE = "text/event-stream"
EVENTS_MAX = 8
"""The most events that wait for one client: those of eight seconds."""


class LiveFeed:
    """The watchers, and the events that are sent to them."""

    def __init__(
        self,
        *,
        overview: Callable[[], Walk[Snapshot]],
        stalls: Callable[[], Iterable[Stall]],
        clock: Callable[[], Now],
        clients_max: int,
        per_user_max: int = 100,
        events_max: int = EVENTS_MAX,
    ) -> None:
        """``overview`` returns a walk whose result is the overview; ``per_user_max`` is the most watchers of one
        user."""
        self._overview = overview
        self._stalls = stalls
        self._clock = clock
        self._clients_max = clients_max
        self._events_max = events_max
        self._per_user_max = per_user_max
        self._clients: dict[trio.MemorySendChannel[bytes], str] = {}
        """The watchers, with the names of their users."""
        self._shown: dict[str, str] = {}
        self._first_client = trio.Event()

    def answer(self) -> ASGIApp:
        """Return the answer for one more watcher. Raises HttpRefusal if there are too many."""
        if len(self._clients) >= self._clients_max:
            raise HttpRefusal(
                503, "too-many-live-clients", f"{self._clients_max} clients watch already: admin.live_clients_max"
            )
        return self._stream

    @property
    def clients(self) -> int:
        """Return the number of watchers."""
        return len(self._clients)

    async def run(self) -> None:
        """Send events to the watchers, until cancelled."""
        ticks = 0
        while True:
            if not self._clients:
                self._first_client = trio.Event()
                await self._first_client.wait()
            await trio.sleep(TICK_S)
            if self._has_changed():
                self._tell(self._stalls_event())
            if ticks % TICKS_PER_OVERVIEW == 0:
                self._tell(await self._overview_event())
            ticks += 1

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller | None = scope.get(CALLER)
        user = "" if caller is None else caller.rights.user
        if list(self._clients.values()).count(user) >= self._per_user_max:
            reason = f"user '{user}' has {self._per_user_max} live streams already: admin.live_clients_per_user_max"
            await problem(503, "too-many-live-clients", reason)(scope, receive, send)
            return
        endless = scope.get("state", {}).get(ENDLESS)
        if endless is not None:
            endless()
        give, take = trio.open_memory_channel[bytes](self._events_max)
        self._clients[give] = user
        self._first_client.set()
        try:
            with give, take:
                headers = [*HEADERS.items(), ("content-type", MEDIA_TYPE)]
                encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
                await send({"type": "http.response.start", "status": 200, "headers": encoded})
                await _send(send, await self._overview_event())
                await _send(send, self._stalls_event())
                async for event in take:
                    await _send(send, event)
        finally:
            self._clients.pop(give, None)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _tell(self, event: bytes) -> None:
        for client in list(self._clients):
            try:
                client.send_nowait(event)
            except (trio.WouldBlock, trio.BrokenResourceError):
                self._clients.pop(client, None)
                client.close()

    async def _overview_event(self) -> bytes:
        return event("overview", await conclusion(self._overview()))

    def _has_changed(self) -> bool:
        now = self._clock()
        shown = {stall.who.identity: f"{stall.reason.value} {stall.culprit}" for stall in self._lasting(now)}
        changed = shown != self._shown
        self._shown = shown
        return changed

    def _stalls_event(self) -> bytes:
        now = self._clock()
        total = sum(1 for _ in self._lasting(now))
        longest = nlargest(STALLS_MAX, self._lasting(now), key=lambda stall: -stall.since.monotonic)
        rows = [stall.row(now) for stall in longest]
        return event("stalls", {"time": now.wall, "total": total, "stalls": rows})

    def _lasting(self, now: Now) -> Iterator[Stall]:
        return (stall for stall in self._stalls() if stall.seconds(now) >= AFTER_S)


def event(name: str, facts: object) -> bytes:
    """Return one encoded event. Rendered JSON has no line breaks, so the data is one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode("ascii"), render(facts))


def live_operation(feed: LiveFeed) -> Operation:
    """Return the operation whose answer is the stream: it has no end, so only HTTP has it."""
    return Operation(
        name="live",
        method="GET",
        path="/headgate/live",
        summary="Follow the overview and the stalls as server-sent events.",
        handler=lambda control, arguments: Reply(200, feed.answer()),
        right=Right.MONITOR,
        answer=Shape("events"),
    )


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
