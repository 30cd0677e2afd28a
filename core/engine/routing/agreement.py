"""Changes of definitions on which the nodes of a cluster agree, before any of them makes the change.

A change is *asked for* by the verb of a client: the verb raises StillGoing, and is called again. Meanwhile the change
goes into the order that all nodes have in common, and every node makes it at its place in that order, this one too.
When the verb is called again, it finds the change made. If another node was faster with a change of its own, that one
is made first and the verb checks anew: so of two contradicting changes one wins, and the other gets the error that it
would get at one node.

Without a cluster nothing is asked for.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from enum import Enum, StrEnum
from typing import NamedTuple, NoReturn

from core.engine.routing.edges import Edge
from core.errors import PreconditionFailed, StillGoing
from core.interface import Binding, QueueDeclaration

KEPT_MAX = 1_000
"""The most results that wait for a verb that is called again; the oldest is dropped, because its client is gone."""


class ChangeKind(StrEnum):
    """What a change is about. The values are in the engine of the cluster."""

    EXCHANGE = "exchange"
    QUEUE = "queue"
    BINDING = "binding"
    REMOVAL = "removal"
    POLICY = "policy"
    POLICY_REMOVAL = "policy-removal"
    USER = "user"
    USER_REMOVAL = "user-removal"
    HOST = "vhost"
    HOST_SETTINGS = "vhost-limits"
    HOST_REMOVAL = "vhost-removal"


class AgreedRemoval(NamedTuple):
    """Queues, exchanges and bindings that are removed together. The bindings of the former go with them."""

    queues: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()
    bindings: tuple[Binding, ...] = ()


class AgreedChange(NamedTuple):
    """One change of the definitions."""

    kind: ChangeKind
    host: str
    """The virtual host; "" for users and virtual hosts themselves."""
    name: str
    value: object = None
    """A declaration, a SharedQueue, a Binding, an AgreedRemoval, or a user's record; None where the name says all."""

    @property
    def subject(self) -> Hashable:
        """What is changed: there is one change of it under way at a time."""
        if isinstance(self.value, Binding):
            return self.kind, self.host, Edge.of(self.value)
        if isinstance(self.value, AgreedRemoval):
            return (
                self.kind,
                self.host,
                self.value.queues,
                self.value.exchanges,
                tuple(map(Edge.of, self.value.bindings)),
            )
        return self.kind, self.host, self.name

    def __str__(self) -> str:
        return f"{self.kind.value.replace('-', ' ')} '{self.name}'"


class ChangeVerdict(Enum):
    """What became of a change that was asked for."""

    MADE = "made"
    STALE = "stale"
    """Another change came first: check again."""
    REFUSED = "refused"


Answered = Callable[[ChangeVerdict, str], None]
"""Called once with the verdict, and why a change is refused."""


def _no_cluster(change: AgreedChange, answered: Answered) -> None:
    answered(ChangeVerdict.REFUSED, "this node has not reached its cluster yet; try again in a moment")


class Agreement:
    """What this node has asked for, for all virtual hosts."""

    def __init__(self, copies: int = 1, *, shares: Callable[[QueueDeclaration], bool] | None = None) -> None:
        """``copies``: how many nodes there are in the cluster. ``shares``: which queues are declared at all nodes,
        among processes on one port; None in a cluster, where it is those of which there are copies."""
        self.shares = shares
        self.node = ""
        """The name of this node, where clients of all nodes see its exclusive queues, or its classic ones."""
        self.placed: dict[tuple[str, str], str] = {}
        """The nodes of exclusive queues, by virtual host and name."""
        self.submit: Callable[[AgreedChange, Answered], None] = _no_cluster
        """Put a change into the common order, if nothing in that order comes between it and what this node has."""
        self.alone = True
        """Whether changes are made here without asking: at the start, and while this node makes what was agreed on."""
        self.copies = copies
        self.leads_here: Callable[[str], bool] = lambda identity: False
        """Whether this node leads the group of the queue that gets this identity."""
        self.group_sizes: Collection[int] = ()
        """The sizes of groups that not every node keeps, as far as there are such groups."""
        self.binds_here: Callable[[str, Binding], None] = lambda virtual_host, binding: None
        """Told of a new binding that other nodes do not have, because an end of it is of this node alone."""
        self.tell: Callable[[str, Mapping[str, object]], None] = lambda event, facts: None
        """Writes a line of the log about a queue that this node has made, or has not, unlike others."""
        self.owed: list[AgreedChange] = []
        """Removals that this node has made, and the others have still to make."""
        self._asked: dict[Hashable, str | None] = {}
        """Why a change is refused; None while it is under way."""
        self._made: dict[Hashable, None] = {}
        self._waiting: list[Callable[[], None]] = []

    def ask(self, change: AgreedChange) -> NoReturn:
        """Raises StillGoing until the change is made or refused, and PreconditionFailed with the reason if it is
        refused."""
        subject = change.subject
        if subject not in self._asked:
            self._asked[subject] = None
            self.submit(change, lambda verdict, why: self._answered(subject, verdict, why))
        why = self._asked.get(subject)
        if why is None:
            under_way = subject in self._asked  # else another change came first, and it is checked again at once
            raise StillGoing(
                f"{change}: the nodes of the cluster have not agreed on it yet",
                self._waiting.append if under_way else None,
            )
        del self._asked[subject]
        raise PreconditionFailed(f"{change}: {why}")

    def check_answered(self, change: AgreedChange) -> None:
        """Raises StillGoing while a change is under way, although this node may have made it: others may not have."""
        if self._asked.get(change.subject, "") is None:
            raise StillGoing(f"{change}: the nodes have not all made it yet", self._waiting.append)

    def is_mine(self, change: AgreedChange) -> bool:
        """Return whether the change was made because this node asked for it, once."""
        return self._made.pop(change.subject, self) is None

    def _answered(self, subject: Hashable, verdict: ChangeVerdict, why: str) -> None:
        self._asked.pop(subject, None)
        if verdict is ChangeVerdict.MADE:
            _keep(self._made, subject, None)
        elif verdict is ChangeVerdict.REFUSED:
            _keep(self._asked, subject, why)
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def making(self) -> "_Making":
        """A block in which this node makes what was agreed on."""
        return _Making(self)


class _Making:
    """The block of :meth:`Agreement.making`."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._before = agreement.alone

    def __enter__(self) -> None:
        self._agreement.alone = True

    def __exit__(self, *error: object) -> None:
        self._agreement.alone = self._before


def _keep(kept: dict[Hashable, str | None] | dict[Hashable, None], subject: Hashable, value: str | None) -> None:
    kept[subject] = value  # type: ignore[assignment]
    if len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]
