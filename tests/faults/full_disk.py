"""The disk is full, again and again: publishers wait and are told why, consumers go on, and no accepted message is
lost.

The broker's front end and engine are the server's, and the lanes are driven by the server's own loops; time is virtual.
In each cycle the space runs out while three links publish, stays out for a while, and returns.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

import trio
from trio.testing import MockClock

from amqp10.frontend.reasons import REASON_KEY
from amqp10.wire.messaging import Accepted
from amqp10.wire.performatives import Disposition, Flow
from amqp10.wire.types import Symbol
from core.clock import Now
from core.config.settings import Settings
from core.config.store import StoreSettings
from core.engine.broker import Broker
from core.server.data import NO_SPACE
from core.server.storage_task import run_lane
from core.store.lane import Lane
from tests.crash.ledger import Found, Ledger, Verdict
from tests.faults.reading import read_all
from tests.kit.faulty_disk import FaultyDisk
from tests.kit.storage import KeptDefinitions, lanes, open_storage
from tests.kit.wire import InProcessBroker, body_of, data_message

KINDS = ("classic", "quorum", "stream")
CYCLES_PER_LIFE = 5
TICK_S = 0.01
PATIENCE_S = 10.0
RETURNS_WITHIN_S = 1.0
TOLD_WITHIN_S = 0.2
"""How long a reason lasts before the peer is told: 50 ms."""
WALL = 1_700_000_000.0
SPACE_MAX = 4000
"""How many bytes are free when the disk begins to be full."""
PADDING = (0, 100, 1000, 5000)
DURABLE_HEADER = bytes.fromhex("005370c0020141")
"""A header section with durable = true and no other field [3.2.1]."""


class FullDisk:
    """A broker, a client that publishes on three links, and a client that consumes from two queues."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = FaultyDisk()
        self.definitions = KeptDefinitions()
        self.ledgers = {kind: Ledger() for kind in KINDS}
        self.did: Counter[str] = Counter()
        self.longest_return_s = 0.0
        self._generation = 0
        self._next = 0

    async def live(self, cycles: int) -> None:
        """Run this many cycles, and kill the broker while the disk is full."""
        self._start()
        async with trio.open_nursery() as nursery:
            for lane in lanes(self._storage):
                nursery.start_soon(self._drive, lane)
            for _ in range(cycles):
                await self._have_space()
                await self._run_out_of_space()
                await self._stay_without_space()
                await self._get_space_back()
                self.did["cycles"] += 1
            await self._run_out_of_space()
            nursery.cancel_scope.cancel()
        self.disk.set_space(None)

    def audit(self) -> dict[str, Verdict]:
        """Start again, and compare the queues with the ledger. Raises AssertionError."""
        self._generation += 1
        broker = Broker(Settings(), storage=open_storage(self.disk, self.definitions, self._generation))
        verdicts = {}
        for kind, ledger in self.ledgers.items():
            read = read_all(broker, kind, Now(0.0, WALL))
            found = [Found(int(body_of(entry)), redelivered=redelivered) for entry, redelivered in read]
            verdicts[kind] = ledger.audit(found, settles=kind != "stream")
            assert not verdicts[kind].broken, f"{kind}: {verdicts[kind]}"
            ledger.begin_again(found)
        return verdicts

    # --- the broker -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._generation += 1
        self._storage = open_storage(self.disk, self.definitions, self._generation)
        self.broker = InProcessBroker(storage=self._storage)
        self.broker.now = _clock()
        self._sender, self._receiver = self.broker.connect(), self.broker.connect()
        self._window = self._sender.begin().incoming_window
        self._receiver.begin()
        self._sent: dict[int, tuple[str, int]] = {}
        """Deliveries that were sent and not answered: delivery-id to queue and number."""
        self._reasons: dict[str, object] = {}
        """The reason that each publishing link has been told, while it lasts."""
        for handle, kind in enumerate(KINDS):
            address = self.broker.queue(kind, x_queue_type=kind)
            self._sender.attach_sender(address, handle=handle)
            if kind != "stream":
                self._receiver.attach_receiver(address, handle=handle)

    async def _drive(self, lane: Lane) -> None:
        """Drive a lane as the server does (core/server/data.py)."""
        alarms = self.broker.engine.alarms
        source = f"{NO_SPACE} ({lane.name})"

        def no_space(waiting: bool) -> None:
            if waiting:
                alarms.set("disk", source)
            else:
                alarms.clear("disk", source)
            self._turn()

        await run_lane(
            lane,
            self.disk,
            run_blocking=_inline,
            clock=_clock,
            progressed=self._turn,
            no_space=no_space,
            retry_s=StoreSettings().no_space_retry,
            read_within=lambda seconds, whole: 0,
        )

    def _turn(self) -> None:
        self.broker.now = _clock()
        self.broker.run()
        self._look()

    async def _tick(self) -> None:
        await trio.sleep(TICK_S)
        self.broker.advance(_clock().monotonic - self.broker.now.monotonic)
        self._turn()

    # --- a cycle ----------------------------------------------------------------------------------------------------

    async def _have_space(self) -> None:
        """Publish for a while, so that the consumers have messages to go on with."""
        for _ in range(self.rng.randint(5, 20)):
            self._publish()
            await self._tick()

    async def _run_out_of_space(self) -> None:
        self.disk.set_space(self.rng.randrange(SPACE_MAX))
        with trio.fail_after(PATIENCE_S):
            while self._window:
                self._publish()
                await self._tick()
        assert self.broker.engine.alarms.on == {"disk"}
        with trio.fail_after(TOLD_WITHIN_S):
            while list(self._reasons.values()) != [Symbol("disk")] * len(KINDS):
                await self._tick()

    async def _stay_without_space(self) -> None:
        delivered = self.did["delivered while full"]
        for _ in range(self.rng.randint(10, 200)):
            assert self._window == 0
            for handle in range(2):
                self._receiver.grant(self.rng.randint(0, 2), handle=handle)
            self._consume()
            await self._tick()
        assert self.did["delivered while full"] > delivered

    async def _get_space_back(self) -> None:
        self.disk.set_space(None)
        began = trio.current_time()
        with trio.fail_after(PATIENCE_S):
            while not self._window or self._reasons or not all(map(self._link_credit, range(len(KINDS)))):
                await self._tick()
        took = trio.current_time() - began
        assert took <= RETURNS_WITHIN_S, f"link credit came back {took:.2f} s after the space"
        self.longest_return_s = max(self.longest_return_s, took)
        with trio.fail_after(PATIENCE_S):
            while self._sent:
                await self._tick()
        await trio.sleep(2 * StoreSettings().sync_interval)
        for ledger in self.ledgers.values():  # every settlement so far is synced
            ledger.gone |= ledger.going
            ledger.going = set()

    # --- clients ----------------------------------------------------------------------------------------------------

    def _link_credit(self, handle: int) -> int:
        return self._sender.link(handle).credit.link_credit

    def _publish(self) -> None:
        """Publish messages on each link, as far as window and link credit allow."""
        for handle, kind in enumerate(KINDS):
            for _ in range(min(self.rng.randint(0, 10), self._link_credit(handle), self._window)):
                number, self._next = self._next, self._next + 1
                body = b"%d" % number
                payload = DURABLE_HEADER + data_message(body + b" " * self.rng.choice(PADDING))
                self.ledgers[kind].uncertain.add(number)
                frame, _ = self._sender.transfer_frame(handle=handle, payload=payload)
                assert frame.delivery_id is not None
                self._sent[frame.delivery_id] = (kind, number)
                self._sender.send(frame, payload)
        self._look()

    def _look(self) -> None:
        """Read the frames that the publisher got."""
        for flow in self._sender.take(Flow):
            self._window = flow.incoming_window
            if flow.handle is not None and flow.properties and REASON_KEY in flow.properties:
                self._told(KINDS[flow.handle], flow.properties[REASON_KEY])
        for disposition in self._sender.take(Disposition):
            assert isinstance(disposition.state, Accepted), disposition
            last = disposition.first if disposition.last is None else disposition.last
            for delivery_id in range(disposition.first, last + 1):
                kind, number = self._sent.pop(delivery_id)
                self.ledgers[kind].uncertain.discard(number)
                self.ledgers[kind].confirmed.add(number)
                self.did["accepted"] += 1

    def _told(self, kind: str, reason: object) -> None:
        if reason is None:
            self._reasons.pop(kind, None)
        else:
            self._reasons[kind] = reason

    def _consume(self) -> None:
        """Accept the messages that have come."""
        for transfer, payload in self._receiver.deliveries():
            assert transfer.delivery_id is not None
            ledger = self.ledgers[KINDS[transfer.handle]]
            number = int(body_of(payload))
            ledger.seen.add(number)
            ledger.going.add(number)
            self._receiver.dispose(transfer.delivery_id, state=Accepted())
            self.did["delivered while full"] += 1


async def _inline(work: Callable[[], None]) -> None:
    await trio.lowlevel.checkpoint()
    work()


def _clock() -> Now:
    return Now(trio.current_time(), WALL + trio.current_time())


def fill_often(cycles: int, seed: int) -> tuple[dict[str, Verdict], Counter[str], float]:
    """Run this many cycles, with a restart after every few. Returns the sums of the audits, counts, and the longest
    time in seconds between space and link credit. Raises AssertionError."""
    world = FullDisk(seed)
    totals = {kind: Verdict() for kind in KINDS}

    async def work() -> None:
        left = cycles
        while left:
            count = min(left, CYCLES_PER_LIFE)
            await world.live(count)
            left -= count
            for kind, verdict in world.audit().items():
                totals[kind].add(verdict)

    trio.run(work, clock=MockClock(autojump_threshold=0))
    return totals, world.did, world.longest_return_s
