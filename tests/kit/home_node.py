"""Another node as the engine sees it, with links that note what they are told: for tests of remote queues alone."""

from dataclasses import dataclass, field

from core.declaring import Recording
from core.engine.forwarding.inlet import Inlet
from core.engine.forwarding.nodes import FarChange
from core.engine.forwarding.outlet import Outlet
from core.interface import ConsumeOptions, Disposal
from core.message import Return, RunPart


@dataclass
class RecordedSender:
    """A link that publishes to the home node."""

    outlet: Outlet
    room: int = 0
    sent: list[tuple[int, list[bytes]]] = field(default_factory=list)
    closed: bool = False

    def send(self, first: int, part: RunPart) -> None:
        assert len(part) <= self.room
        self.room -= len(part)
        self.sent.append((first, part.entries))

    def close(self) -> None:
        self.closed = True

    def give(self, room: int, reason: str | None = None) -> None:
        """The home node sets the link credit."""
        self.room = room
        self.outlet.credit_received(reason)


@dataclass
class RecordedReceiver:
    """A link that consumes from the home node."""

    grants: list[tuple[int, bool, bool]] = field(default_factory=list)
    """Link credit, drain, echo."""
    settled: list[tuple[int, int, Disposal | Return]] = field(default_factory=list)
    closed: bool = False

    def grant(self, n: int, *, drain: bool, echo: bool) -> None:
        self.grants.append((n, drain, echo))

    def settle(self, first: int, last: int, disposal: Disposal | Return) -> None:
        self.settled.append((first, last, disposal))

    def close(self) -> None:
        self.closed = True


class RecordedNode:
    """The home node of queues, which is reached at once unless ``trouble`` says why not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.trouble: str | None = None
        self.senders: list[RecordedSender] = []
        self.receivers: list[tuple[Inlet, RecordedReceiver]] = []
        self.changes: list[tuple[FarChange, Recording[int]]] = []

    def down(self, virtual_host: str) -> str | None:
        return self.trouble

    def stay_connected(self, virtual_host: str) -> None:
        """It is."""

    def let_go(self) -> None:
        """There is nothing to let go."""

    def new_sender(self, virtual_host: str, queue: str, user: Outlet) -> RecordedSender:
        self.senders.append(RecordedSender(user))
        return self.senders[-1]

    def new_receiver(self, virtual_host: str, queue: str, options: ConsumeOptions, user: Inlet) -> RecordedReceiver:
        self.receivers.append((user, RecordedReceiver()))
        return self.receivers[-1][1]

    def change(self, virtual_host: str, queue: str, what: FarChange, recording: Recording[int]) -> None:
        self.changes.append((what, recording))
