"""Data folders with one queue of each type, made by the store itself, and the messages that each queue must deliver.

A folder has three lives. Two end with the process killed, the third with a kill or an orderly stop. Each life publishes
to all queues and takes some of their messages. ``older`` is a copy of the folder from the end of the second life.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, cast

import structlog

from core.clock import Now
from core.config.settings import Settings
from core.config.store import StoreSettings
from core.engine.broker import Broker
from core.engine.quorum.annotations import PlainAnnotations
from core.interface import (
    ConsumeOptions,
    Delivered,
    Disposal,
    ExchangeTarget,
    ExchangeType,
    Mailbox,
    QueueDeclaration,
    QueueTarget,
    Target,
)
from core.message import Attributes, Run
from core.server.data import OpenData
from tests.faults.messages import message, number_of, size
from tests.faults.reading import read_all
from tests.kit.engine import binding, exchange
from tests.kit.storage import drain, leave_in_order, work

SETTINGS = StoreSettings(msg_store_file_size_limit=65_536, command_log_file_size_limit=65_536, space_reserve=0)
"""Files as small as they may be, and no reserve."""
STREAM_SEGMENT_BYTES = 8_000
QUEUES: Mapping[str, Mapping[str, object]] = {
    "classic": {},
    "lazy": {"x-queue-mode": "lazy"},
    "priority": {"x-max-priority": 2},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": STREAM_SEGMENT_BYTES},
}
FAN = "fan"
LONG_MESSAGES = 17_000
"""More messages than a file of the queue index takes."""
TURNS_MAX = 10_000


class Lines:
    """A log that keeps the lines of levels above info."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.opened: dict[str, object] = {}

    def info(self, event: str, **facts: object) -> None:
        """Drop a line that reports a normal event."""
        if event == "store-opened":
            self.opened = facts

    def warning(self, event: str, **facts: object) -> None:
        """Keep a line that an operator should see."""
        self.told.append(f"{event} {facts}")

    error = warning


class Life:
    """A broker on a data folder, in this process. Its lanes are moved by hand."""

    def __init__(self, folder: Path, settings: StoreSettings = SETTINGS) -> None:
        """Start. Raises StoreRefused, StoreDamaged, StoreFailure."""
        self.lines = Lines()
        self.now = Now(1000.0, 1_700_000_000.0)
        identities = count(1)
        self.data = OpenData(
            folder,
            settings,
            clock=lambda: self.now,
            log=cast("structlog.typing.FilteringBoundLogger", self.lines),
            annotations=PlainAnnotations(),
            new_identity=lambda: f"{next(identities):032x}",
        )
        try:
            self.broker = Broker(Settings(), storage=self.data.storage)
        except BaseException:
            self.data.close()
            raise
        self.mailbox = Mailbox(lambda: None)

    def declare(self, queues: Mapping[str, Mapping[str, object]]) -> None:
        """Declare these queues, and an exchange that copies to all of them but the stream."""
        self.broker.declare_exchange(exchange(FAN, ExchangeType.FANOUT))
        for name, arguments in queues.items():
            self.broker.declare_queue(QueueDeclaration(name=name, arguments=dict(arguments)), self)
            if name not in ("stream", "long"):
                self.broker.bind(binding(FAN, name), self)

    def publish(self, target: Target, entries: list[bytes], *, priority: int = 4) -> None:
        """Publish durable messages. They are synced when this returns."""
        publisher = self.broker.publisher(self.mailbox, self, target, None)
        self.broker.publish(publisher, target, Run(0, entries, Attributes(durable=True, priority=priority)), self.now)
        self.settle_down()
        self.mailbox.take()

    def take(self, queue: str, numbers: int) -> list[int]:
        """Take the first messages of a queue, and settle them; returns which."""
        consumer = self.broker.consume(queue, self.mailbox, self, ConsumeOptions(), None)
        self.broker.grant(consumer, numbers, False)
        self.settle_down()
        taken = []
        for action in self.mailbox.take():
            if isinstance(action, Delivered):
                taken += [number_of(entry) for entry in action.entries]
        self.broker.settle(consumer, 0, 10**9, Disposal.ACCEPTED)
        self.broker.cancel(consumer)
        self.settle_down()
        return taken

    def settle_down(self) -> None:
        """Run turns, writes and syncs until nothing is left, and let the marks say so."""
        for _ in range(TURNS_MAX):
            self.now = Now(self.now.monotonic + 1, self.now.wall + 1)
            if not self.broker.turn(self.now) and not work(self.data.storage, self.now.monotonic):
                drain(self.data.storage, self.now.monotonic)
                return
        raise AssertionError("the broker does not come to rest")

    def content(self, queue: str) -> list[int]:
        """What a consumer of the queue gets."""
        return [number_of(entry) for entry, _ in read_all(self.broker, queue, self.now)]

    def stop(self) -> None:
        """Stop in order."""
        self.broker.conclude()
        leave_in_order(self.data.storage, self.now.monotonic)
        self.data.close()

    def told(self) -> list[str]:
        """The lines so far that an operator should see."""
        self.data.say_passed_over()
        return self.lines.told


@dataclass(frozen=True, slots=True)
class Template:
    """A data folder, an older copy of it, and the messages that each queue holds."""

    name: str
    folder: Path
    older: Path
    content: Mapping[str, Sequence[int]]
    settled: Mapping[str, frozenset[int]]


def make_template(where: Path, seed: int, *, orderly: bool, long: bool) -> Template:
    """Make a template. ``long`` adds a queue with more messages than one file of an index takes."""
    rng = Random(seed)
    working = where / "working"
    older = where / "older"
    queues = {**QUEUES, **({"long": {}} if long else {})}
    content: dict[str, list[int]] = {name: [] for name in queues}
    settled: dict[str, set[int]] = {name: set() for name in queues}
    numbers = count()
    life = Life(working)
    life.declare(queues)
    for number in range(3):
        _work(life, rng, numbers, content, settled, most=number == 0)
        if number == 2:
            break
        at = older if number == 1 else where / "killed"
        shutil.copytree(working, at)
        life.data.close()
        life = Life(working)
    folder = where / ("stopped" if orderly else "killed at last")
    if orderly:
        life.stop()
    shutil.copytree(working, folder)
    if not orderly:
        life.data.close()
    return Template(
        "orderly stop" if orderly else "kill",
        folder,
        older,
        content,
        {name: frozenset(one) for name, one in settled.items()},
    )


def _work(
    life: Life,
    rng: Random,
    numbers: Any,
    content: dict[str, list[int]],
    settled: dict[str, set[int]],
    *,
    most: bool,
) -> None:
    """Do the work of one life: publish to each queue alone and to all of them, and then take some messages."""

    def made(many: int) -> tuple[list[int], list[bytes]]:
        known = [next(numbers) for _ in range(many)]
        return known, [message(number, size(rng)) for number in known]

    for _ in range(6):
        for name in QUEUES:
            known, entries = made(rng.randint(5, 25))
            life.publish(QueueTarget(name), entries)
            content[name] += known
        known, entries = made(rng.randint(3, 10))
        life.publish(ExchangeTarget(FAN, ""), entries)
        for name in QUEUES:
            content[name] += known if name != "stream" else []
    if "long" in content and most:
        for _ in range(LONG_MESSAGES // 1000):
            known = [next(numbers) for _ in range(1000)]
            life.publish(QueueTarget("long"), [message(number, 0) for number in known])
            content["long"] += known
    for name in QUEUES:
        if name != "stream":
            taken = life.take(name, rng.randint(20, 60))
            settled[name] |= set(taken)
            gone = set(taken)
            content[name] = [number for number in content[name] if number not in gone]
