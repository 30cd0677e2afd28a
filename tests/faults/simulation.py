"""A broker with storage on a disk that can lose its power. Publishers, consumers, lanes and time move at random.

One :class:`World` is one data folder, through all its lives. Everything in it happens in one thread and in virtual
time, from one random generator, so a seed repeats it exactly. The broker's promises are in a ledger for each queue
(:mod:`tests.crash.ledger`); :meth:`World.audit` compares it with what the queues deliver after a start.

The promises are these. A confirmed message of a quorum queue, or of a queue with ``x-sync: always``, is never lost. One
of another classic queue or a stream is lost only when the power is cut within ``sync_interval`` after the confirm. A
settled message does not come back once its settlement is synced. Every delivered message was sent, is unchanged and in
order. After an unclean stop every message is flagged as redelivered.

Syncs are never later than the lanes want them, as with a disk that answers at once.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from core.clock import Now
from core.config.settings import Settings
from core.config.store import StoreSettings
from core.engine.broker import Broker
from core.engine.storage import Storage
from core.interface import (
    Cancelled,
    Confirmed,
    ConsumeOptions,
    Consumer,
    Delivered,
    Disposal,
    ExchangeTarget,
    ExchangeType,
    Mailbox,
    Outcome,
    Publisher,
    QueueDeclaration,
    QueueTarget,
    StreamOptions,
    StreamPosition,
    Target,
)
from core.message import Attributes, Return, Run
from core.slices import run_at_once
from core.store.lane import Lane
from tests.crash.ledger import Found, Ledger, Verdict
from tests.faults.messages import message, number_of, size
from tests.faults.reading import read_all
from tests.kit.engine import binding, exchange
from tests.kit.faulty_disk import FaultyDisk, MemoryDisk
from tests.kit.storage import KeptDefinitions, lanes, leave_in_order, open_storage, sync, write

SETTINGS = StoreSettings(msg_store_file_size_limit=65_536, command_log_file_size_limit=65_536)
"""Files as small as they may be, so that they are begun, copied and removed all the time."""
STREAM_SEGMENT_BYTES = 20_000
DURABLE, TRANSIENT = Attributes(durable=True), Attributes()
FAN = "fan"
"""The exchange that copies to all queues but the stream."""
LOOKS_MAX = 10_000

Step = tuple[Callable[["World"], None], float]
"""A step that can happen, and its weight."""


@dataclass(eq=False)
class Subject:
    """One queue under test."""

    name: str
    arguments: dict[str, object]
    lane: int
    """The lane: classic, quorum or streams."""
    always_synced: bool = False
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def settles(self) -> bool:
        """True when consumers settle messages; False for a stream."""
        return self.lane != 2

    @property
    def keeps_transient(self) -> bool:
        """True when messages that are not durable survive a restart."""
        return self.lane != 0


@dataclass(eq=False)
class Reader:
    """A consumer, and the messages that it holds."""

    consumer: Consumer
    subject: Subject
    held: dict[int, int] = field(default_factory=dict)
    """Message numbers by delivery number."""


@dataclass(frozen=True, slots=True)
class _Settling:
    """Settlements that are durable when their lane has synced this position."""

    position: int
    subject: Subject
    numbers: frozenset[int]


def subjects() -> list[Subject]:
    """One queue of each type."""
    return [
        Subject("classic", {}, 0),
        Subject("lazy", {"x-queue-mode": "lazy"}, 0),
        Subject("synced", {"x-sync": "always"}, 0, always_synced=True),
        Subject("quorum", {"x-queue-type": "quorum", "x-delivery-limit": -1}, 1, always_synced=True),
        Subject("stream", {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": STREAM_SEGMENT_BYTES}, lane=2),
    ]


class World:
    """One data folder, and a broker on it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = FaultyDisk()
        self.definitions = KeptDefinitions()
        self.subjects = subjects()
        self.now = 1000.0
        self.generation = 0
        self.next_number = 0
        self.accepted_at: dict[int, float] = {}
        self.fanned: set[int] = set()
        """Messages that went to queues of more than one lane."""
        self.did: Counter[str] = Counter()
        self.start()
        self.broker.declare_exchange(exchange(FAN, ExchangeType.FANOUT))
        for subject in self.subjects:
            self._declare(subject)

    # --- starts and stops -------------------------------------------------------------------------------------------

    def start(self, settings: StoreSettings = SETTINGS) -> None:
        """Start a broker on the disk as it is."""
        self.generation += 1
        self.storage: Storage = open_storage(self.disk, self.definitions, self.generation, settings)
        self.lanes: Sequence[Lane] = lanes(self.storage)
        self.broker = Broker(Settings(), storage=self.storage)
        self.mailbox = Mailbox(lambda: None)
        self.publishers: dict[Target, Publisher] = {}
        self.readers: list[Reader] = []
        self._waiting: dict[int, tuple[Subject, ...]] = {}
        """Messages that are not confirmed, and the queues that they went to."""
        self._settled: list[tuple[Subject, frozenset[int]]] = []
        """True while no batch has been taken since the start."""
        self._settling: list[_Settling] = []

    def _declare(self, subject: Subject) -> None:
        self.broker.declare_queue(QueueDeclaration(name=subject.name, arguments=subject.arguments), self)
        if subject.settles:
            self.broker.bind(binding(FAN, subject.name), self)

    def step(self, steps: Sequence[Step] | None = None) -> None:
        """Do one random step."""
        steps = steps or STEPS
        self.rng.choices([act for act, _ in steps], [weight for _, weight in steps])[0](self)

    def run(self, count: int, steps: Sequence[Step] | None = None) -> None:
        """Do this many random steps."""
        for _ in range(count):
            self.step(steps)

    def settle_down(self) -> None:
        """Write, sync and answer everything that was begun. This takes as long as a sync interval."""
        for _ in range(LOOKS_MAX):
            self.turn()
            self.pass_time(SETTINGS.sync_interval)
            for lane in self.lanes:
                self.write_lane(lane)
            quiet = all(lane.synced == lane.staged and not lane.has_records for lane in self.lanes)
            if quiet and not self.broker.turn(self._clock()) and not self._look():
                return
        raise AssertionError("the broker does not come to rest")

    def conclude(self) -> None:
        """Stop in order: consumers and publishers leave, then the broker stops."""
        while self.readers:
            self._leave(self.readers[0])
        self.turn()
        self.broker.conclude()
        leave_in_order(self.storage, self.now)

    # --- clients ----------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Publish a run to one queue, or to all that are bound."""
        rng = self.rng
        chosen = rng.choice([*self.subjects, None])
        subjects = (chosen,) if chosen is not None else tuple(one for one in self.subjects if one.settles)
        target: Target = ExchangeTarget(FAN, "") if chosen is None else QueueTarget(chosen.name)
        attributes = TRANSIENT if rng.random() < 0.1 else DURABLE
        first = self.next_number
        entries = [message(first + index, size(rng)) for index in range(rng.choice((1, 1, 2, 3, 5, 8, 20)))]
        self.next_number += len(entries)
        for number in range(first, self.next_number):
            self._waiting[number] = subjects if attributes.durable else tuple(s for s in subjects if s.keeps_transient)
        numbers = set(range(first, self.next_number))
        if chosen is None:
            self.fanned |= numbers
        for subject in subjects:
            subject.ledger.uncertain |= numbers
        if target not in self.publishers:
            self.publishers[target] = self.broker.publisher(self.mailbox, self, target, None)
        self.broker.publish(self.publishers[target], target, Run(first, entries, attributes), self._clock())
        self.did["published"] += len(entries)

    def join(self) -> None:
        """Attach a consumer, if there are not too many."""
        subject = self.rng.choice(self.subjects)
        if sum(reader.subject is subject for reader in self.readers) < 2:
            position = self.rng.choice((StreamPosition.FIRST, StreamPosition.NEXT))
            options = ConsumeOptions(stream=StreamOptions(position=position))
            consumer = self.broker.consume(subject.name, self.mailbox, self, options, None)
            self.readers.append(Reader(consumer, subject))

    def grant(self) -> None:
        """Give a consumer a larger grant."""
        if self.readers:
            self.broker.grant(self.rng.choice(self.readers).consumer, self.rng.randint(0, 30), False)

    def settle(self) -> None:
        """Let a consumer settle some of the messages that it holds."""
        readers = [reader for reader in self.readers if reader.held]
        if not readers:
            return
        reader = self.rng.choice(readers)
        numbers = list(reader.held)
        start = self.rng.randrange(len(numbers))
        chosen = numbers[start : start + self.rng.randint(1, 20)]
        disposal = self.rng.choice(
            (Disposal.ACCEPTED, Disposal.ACCEPTED, Disposal.ACCEPTED, Disposal.REJECTED, Return(), Return(True))
        )
        self.broker.settle(reader.consumer, chosen[0], chosen[-1], disposal)
        gone = frozenset(reader.held.pop(number) for number in chosen)
        if reader.subject.settles and isinstance(disposal, Disposal):
            self._going(reader.subject, gone)
            self.did["settled"] += len(gone)

    def leave(self) -> None:
        """Let a consumer leave. The messages that it holds go back."""
        if self.readers:
            self._leave(self.rng.choice(self.readers))

    def _leave(self, reader: Reader) -> None:
        self.readers.remove(reader)
        self.broker.cancel(reader.consumer)

    def purge(self) -> None:
        """Purge a queue. Consumers keep the messages that they hold."""
        subject = self.rng.choice([subject for subject in self.subjects if subject.settles])
        self.settle_down()
        held = {number for reader in self.readers if reader.subject is subject for number in reader.held.values()}
        ledger = subject.ledger
        there = (ledger.confirmed | ledger.uncertain) - held - ledger.gone - ledger.going
        ready = self.broker.queue_info(subject.name, self).ready
        assert run_at_once(self.broker.purge_queue(subject.name, self)) == ready
        self._going(subject, frozenset(there))
        self.did["purged"] += ready

    def recreate(self) -> None:
        """Delete a queue and declare it again."""
        subject = self.rng.choice(self.subjects)
        self.turn()
        self.broker.delete_queue(subject.name, self)
        ledger = subject.ledger
        subject.ledger = Ledger(gone=ledger.gone | ledger.confirmed | ledger.uncertain)
        self._waiting = {number: tuple(s for s in where if s is not subject) for number, where in self._waiting.items()}
        self._settled = [entry for entry in self._settled if entry[0] is not subject]
        self._settling = [entry for entry in self._settling if entry.subject is not subject]
        self.publishers.pop(QueueTarget(subject.name), None)
        self._look()
        self._declare(subject)
        self.did["recreated"] += 1

    def _going(self, subject: Subject, numbers: frozenset[int]) -> None:
        subject.ledger.going |= numbers
        self._settled.append((subject, numbers))

    # --- the broker -------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Run turns until nothing moves, and let clients read their mailbox."""
        for _ in range(LOOKS_MAX):
            more = self.broker.turn(self._clock())
            if not self._look() and not more:
                return
        raise AssertionError("the broker does not come to rest")

    def _look(self) -> bool:
        actions = self.mailbox.take()
        readers = {reader.consumer: reader for reader in self.readers}
        for action in actions:
            match action:
                case Confirmed():
                    self._confirmed(action)
                case Delivered():
                    self._delivered(readers[action.consumer], action)
                case Cancelled():
                    self.readers.remove(readers[action.consumer])
        return bool(actions)

    def _confirmed(self, confirmed: Confirmed) -> None:
        for number in range(confirmed.first, confirmed.last + 1):
            subjects = self._waiting.pop(number)
            if confirmed.outcome is not Outcome.ACCEPTED:
                assert not subjects, f"{number} is {confirmed.outcome}"
                continue
            self.accepted_at[number] = self.now
            for subject in subjects:
                subject.ledger.uncertain.discard(number)
                subject.ledger.confirmed.add(number)
            self.did["confirmed"] += 1

    def _delivered(self, reader: Reader, delivered: Delivered) -> None:
        for number, entry in enumerate(delivered.entries, delivered.first):
            known = reader.held[number] = number_of(entry)
            reader.subject.ledger.seen.add(known)
        self.did["delivered"] += len(delivered.entries)

    def page(self) -> None:
        """Make memory short, or make it ample again."""
        self.broker.memory_sampled(self.rng.choice((0, 30, 60, 200)), 100, self._clock())

    def compact(self) -> None:
        """Do a step of the message stores' compaction."""
        self.storage.store.compact_step()

    # --- lanes and time ---------------------------------------------------------------------------------------------

    def take_write(self, lane: Lane) -> None:
        """Take a batch. It may be written at any later moment."""
        if lane.take_write() is not None:
            taken = [entry for entry in self._settled if self.lanes[entry[0].lane] is lane]
            self._settled = [entry for entry in self._settled if self.lanes[entry[0].lane] is not lane]
            self._settling += [_Settling(lane.staged, subject, numbers) for subject, numbers in taken]
            self.did["batches"] += 1

    def take(self) -> None:
        """Take a batch from some lane."""
        self.take_write(self.rng.choice(self.lanes))

    def write(self) -> None:
        """Write the batch of some lane."""
        self.write_lane(self.rng.choice(self.lanes))

    def write_lane(self, lane: Lane) -> None:
        """Write what is staged, and report it to the broker as the lane's task does."""
        self.take_write(lane)
        if write(lane, self.disk):
            self.turn()

    def sync(self) -> None:
        """Sync some lane, if it wants a sync. The lane may write meanwhile."""
        self.sync_lane(self.rng.choice(self.lanes))

    def sync_lane(self, lane: Lane) -> None:
        """Do one sync, if one is due. Sometimes the lane's other worker writes in the middle of it."""
        if self.rng.random() < 0.2:
            self._interrupt(self.rng.randint(1, 4), lambda: self.write_lane(lane))
        synced = sync(lane, self.disk, self.now)
        self.disk.delay = _nothing
        if synced:
            self.did["syncs"] += 1
            self._note_synced()
            self.turn()

    def _interrupt(self, calls: int, act: Callable[[], object]) -> None:
        """Do something at one of the disk's next calls, given by its number."""
        left = calls

        def count(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.disk.delay = _nothing
                act()

        self.disk.delay = count

    def _note_synced(self) -> None:
        left = []
        for entry in self._settling:
            if entry.position <= self.lanes[entry.subject.lane].synced:
                entry.subject.ledger.going -= entry.numbers
                entry.subject.ledger.gone |= entry.numbers
            else:
                left.append(entry)
        self._settling = left

    def wait(self) -> None:
        """Let a moment pass."""
        self.pass_time(self.rng.choice((0.001, 0.01, 0.05, 0.2)))

    def pass_time(self, seconds: float) -> None:
        """Let time pass. No sync is late."""
        end = self.now + seconds
        while True:
            due = min((due, at) for at, lane in enumerate(self.lanes) for due in [self._due(lane)])
            if due[0] > end:
                break
            self.now = max(self.now, due[0])
            self.sync_lane(self.lanes[due[1]])
        self.now = end

    def _due(self, lane: Lane) -> float:
        if lane.syncing is not None and lane.failed is None:
            return self.now
        due = lane.sync_due(self.now)
        return float("inf") if due is None else due

    def _clock(self) -> Now:
        return Now(self.now, 1_700_000_000.0 + self.now)

    # --- the audit --------------------------------------------------------------------------------------------------

    def audit(self, *, power_cut: bool, orderly: bool = False) -> dict[str, Verdict]:
        """Compare what the queues deliver after a start with the promises made before it. Raises AssertionError.

        ``power_cut``: what was not synced may be lost. ``orderly``: the broker had begun to stop by itself, so messages
        that were not delivered need not be flagged.
        """
        verdicts: dict[str, Verdict] = {}
        for subject in self.subjects:
            ledger = subject.ledger
            if not orderly:
                ledger.seen |= ledger.confirmed | ledger.uncertain
            if power_cut and not subject.always_synced:
                since = self.now - SETTINGS.sync_interval
                recent = {number for number in ledger.confirmed if self.accepted_at.get(number, since - 1) >= since}
                ledger.confirmed -= recent
                ledger.uncertain |= recent
            found = self.read_all(subject)
            verdict = verdicts[subject.name] = ledger.audit(found, settles=subject.settles)
            assert not verdict.broken, _describe(subject, found, verdict)
            ledger.begin_again(found)
        self.accepted_at.clear()
        return verdicts

    def read_all(self, subject: Subject) -> list[Found]:
        """Everything that a queue delivers, in order. All of it goes back."""
        read = read_all(self.broker, subject.name, self._clock())
        return [Found(number_of(entry), redelivered=redelivered) for entry, redelivered in read]

    # --- power cuts --------------------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Take a disk as a power cut could leave it."""
        assert isinstance(self.disk.disk, MemoryDisk)
        self.disk = FaultyDisk(self.disk.disk.power_cut(self.rng))


STEPS: Sequence[Step] = (
    (World.publish, 20),
    (World.turn, 25),
    (World.join, 6),
    (World.grant, 10),
    (World.settle, 14),
    (World.leave, 1),
    (World.purge, 0.1),
    (World.recreate, 0.15),
    (World.page, 1),
    (World.compact, 2),
    (World.take, 4),
    (World.write, 16),
    (World.sync, 8),
    (World.wait, 4),
)
"""The steps that can happen, and their weights."""
STANDING_STEPS = [(act, weight) for act, weight in STEPS if act not in (World.wait, World.purge)]
"""The steps that take no time."""


def _nothing(operation: str, path: str) -> None:
    pass


def _describe(subject: Subject, found: Sequence[Found], verdict: Verdict) -> str:
    """The broken promise, with the first numbers concerned."""
    ledger = subject.ledger
    present = {one.number for one in found}
    demanded = ledger.confirmed - ledger.gone - ledger.going if subject.settles else ledger.confirmed
    return (
        f"{subject.name}: {verdict}\nlost {sorted(demanded - present)[:20]}"
        f" unexpected {sorted(present - ledger.confirmed - ledger.uncertain)[:20]}"
        f" came back {sorted(present & ledger.gone)[:20]}"
        f" unflagged {[one.number for one in found if not one.redelivered][:20]}"
        f" order {[one.number for one in found][:50]}"
    )
