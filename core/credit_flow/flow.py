"""Stage credit: how slowness travels upstream, from the store to the socket of the publisher.

A party sends messages to parties downstream of it and takes messages from parties upstream of it. Each lets every
sender send ``initial`` messages, and ``more_after`` more whenever it has acknowledged so many. A sender that has used
up what it may send is *blocked* by that party. It may still send, and the number goes below zero; but it keeps back
the grants that it owes upstream until nobody blocks it any more. So its senders run out too, and so on up to the
first party, the reader of a socket, which is the only one that asks whether it is blocked and then reads no more.

Invariants, for a sender S and a receiver R, at every moment:

- what S may send, the messages on their way, those R has acknowledged since its last grant, and the grants deferred
  or on their way add up to ``initial``;
- what S may send is zero or less exactly when R blocks S;
- grants are deferred only while their party is blocked.

A run of n is exactly n single steps, except that its grants to one sender are handed over as one.

This is the algorithm that RabbitMQ calls credit_flow. It has one addition: :meth:`CreditFlow.end`, because a party
here is no process whose death others are told of. This module does not know what a message is, or a queue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

REMEMBERED = 1.0
"""A party counts as "in flow" for so long after a block began, in seconds: blocks begin and end many times a second,
and whoever looks now and then would mostly see none."""


@dataclass(frozen=True, slots=True)
class StageCreditSpec:
    """What a party gives each of its senders, in messages: so many at first, and again so many after as many."""

    initial: int
    more_after: int

    def __post_init__(self) -> None:
        assert 1 <= self.more_after <= self.initial, self  # more would never be granted: nobody gets so far


GENERAL = StageCreditSpec(400, 200)
"""Between reader, channel and queue. RabbitMQ's numbers since 3.6.7."""

TO_STORE = StageCreditSpec(4000, 800)
"""From a queue to the message store. RabbitMQ's numbers since 3.6.7."""


class FlowState(StrEnum):
    """Whether a party has been blocked lately."""

    RUNNING = "running"
    FLOW = "flow"


@dataclass(frozen=True, slots=True)
class StageReading:
    """What a party shows to whoever looks for the bottleneck."""

    name: str
    in_flow: bool
    held_up_by: tuple[str, ...] = ()
    """Names of the parties that block it or, when none does, that blocked it last."""

    @property
    def state(self) -> FlowState:
        """The mark in words."""
        return FlowState.FLOW if self.in_flow else FlowState.RUNNING


class StageAccount(NamedTuple):
    """What a party has in its books about another one."""

    room: int
    """Messages that may still be sent to it; below zero when more were sent."""
    until_grant: int
    """Messages of it that are still to be acknowledged before the next grant."""
    deferred: int
    """Messages that it will be allowed to send when nothing blocks any more."""


Post: TypeAlias = "Callable[[CreditFlow, CreditFlow, int], None]"
"""``(sender, granter, n)``: see to it that ``sender.handle_bump(granter, n)`` is called, now or later."""


def hand_over(sender: "CreditFlow", granter: "CreditFlow", n: int) -> None:
    """A :data:`Post` that takes no time."""
    sender.handle_bump(granter, n)


def nothing() -> None:
    """What happens when nobody wants to know."""


class CreditFlow:
    """One party: its end of every edge from and to it. Times are monotonic, in seconds."""

    __slots__ = (
        "_blocked_at",
        "_blocked_before",
        "_blockers",
        "_deferred",
        "_last_blocker",
        "_post",
        "_room",
        "_unblocked",
        "_unstamped",
        "_until_grant",
        "blocks",
        "ended",
        "name",
        "spec",
        "unblocks",
    )

    def __init__(
        self, name: str, spec: StageCreditSpec, *, unblocked: Callable[[], None] = nothing, post: Post = hand_over
    ) -> None:
        """``spec`` is what this party gives whoever sends to it. ``unblocked`` is called when the last party that
        blocked this one has let go; it should take a note and do no work, for it is called in the middle of that
        party's."""
        self.name = name
        self.spec = spec
        self.ended = False
        self.blocks = 0
        """How often this party became blocked."""
        self.unblocks = 0
        """How often it ceased to be."""
        self._unblocked = unblocked
        self._post = post
        self._room: dict[CreditFlow, int] = {}
        """By receiver: messages that may still be sent to it."""
        self._until_grant: dict[CreditFlow, int] = {}
        """By sender: messages to acknowledge before it gets its next grant."""
        self._blockers: dict[CreditFlow, None] = {}
        """Receivers that let this party send nothing more, oldest first."""
        self._deferred: list[tuple[CreditFlow, int]] = []
        """Grants kept back, oldest first."""
        self._blocked_at: float | None = None
        """When the last block began. One more blocker does not begin another."""
        self._last_blocker: tuple[str, ...] = ()
        """The name of the party that blocked this one last, if any did."""
        self._blocked_before = 0.0
        """Seconds of all blocks that are over and stamped."""
        self._unstamped = False
        """Whether the last block is over, and nobody has said yet when. Who grants is not told the time."""

    def __repr__(self) -> str:
        return f"CreditFlow({self.name!r})"

    # --- downstream ------------------------------------------------------------------------------------------------

    def send(self, to: "CreditFlow", n: int, now: float) -> None:
        """So many messages go to a party, allowed or not. To a party that has ended they go for nothing."""
        room = self._room.get(to)
        if room is None:
            if to.ended or self.ended or not n:
                return
            room = to.spec.initial
            to._until_grant.setdefault(self, to.spec.more_after)  # from here on each can tell the other of its end
        if self._unstamped:
            self.stamp(now)
        left = room - n
        self._room[to] = left
        if room > 0 >= left:
            self._block(to, now)

    def room(self, to: "CreditFlow") -> int:
        """Messages that may be sent before ``to`` blocks this party; 0 when it has."""
        return max(0, self._room.get(to, to.spec.initial))

    def handle_bump(self, granter: "CreditFlow", n: int) -> None:
        """A grant has arrived. Of a party that was given up meanwhile, the grant is all that there is."""
        if granter.ended or self.ended:
            return
        room = self._room.get(granter, 0)
        self._room[granter] = room + n
        if room <= 0 < room + n:
            self._unblock(granter)

    # --- upstream --------------------------------------------------------------------------------------------------

    def ack(self, sender: "CreditFlow", n: int) -> None:
        """So many messages of a sender are taken on. It gets the grants that are due, or will when nothing blocks."""
        until_grant = self._until_grant.get(sender)
        if until_grant is None:
            if sender.ended or self.ended or not n:
                return
            until_grant = self.spec.more_after
        beyond = n - until_grant
        if beyond < 0:
            self._until_grant[sender] = -beyond
            return
        more_after = self.spec.more_after
        further, progress = divmod(beyond, more_after)
        self._until_grant[sender] = more_after - progress
        self._grant(sender, (1 + further) * more_after)

    def _grant(self, sender: "CreditFlow", n: int) -> None:
        if self._blockers:
            self._deferred.append((sender, n))
        else:
            self._post(sender, self, n)

    # --- ends ------------------------------------------------------------------------------------------------------

    def peer_down(self, peer: "CreditFlow") -> None:
        """Forget a party. Grants deferred for it stay, and reach nobody if it has ended."""
        self._room.pop(peer, None)
        self._until_grant.pop(peer, None)
        self._unblock(peer)

    def end(self) -> None:
        """This party is no more: everybody who knows it forgets it. Calls that still come for it do nothing."""
        if self.ended:
            return
        self.ended = True
        self._deferred.clear()
        if self._blockers:
            self._blockers.clear()
            self._count_unblock()
        peers = self._room | self._until_grant
        self._room.clear()
        self._until_grant.clear()
        for peer in peers:
            peer.peer_down(self)

    # --- blocked or not --------------------------------------------------------------------------------------------

    @property
    def blocked(self) -> bool:
        """True while some receiver lets this party send nothing more."""
        return bool(self._blockers)

    @property
    def blocked_by(self) -> Sequence["CreditFlow"]:
        """The parties that block this one, the newest first."""
        return tuple(reversed(self._blockers))

    def state(self, now: float) -> FlowState:
        """FLOW while blocked, and for a second after the last block began."""
        recent = self._blocked_at is not None and now - self._blocked_at < REMEMBERED
        return FlowState.FLOW if self._blockers or recent else FlowState.RUNNING

    def reading(self, now: float) -> StageReading:
        """The state with the names of those who caused it."""
        names = tuple(blocker.name for blocker in self.blocked_by) or self._last_blocker
        in_flow = self.state(now) is FlowState.FLOW
        return StageReading(self.name, in_flow, names if in_flow else ())

    @property
    def blocked_at(self) -> float | None:
        """When the last block began."""
        return self._blocked_at

    def blocked_seconds(self, now: float) -> float:
        """How long this party has been blocked so far, in all."""
        self.stamp(now)
        if self._blockers and self._blocked_at is not None:
            return self._blocked_before + now - self._blocked_at
        return self._blocked_before

    def stamp(self, now: float) -> None:
        """If a block is over since the last stamp, it ended now. Every ``send`` stamps too."""
        if self._unstamped and self._blocked_at is not None:
            self._unstamped = False
            self._blocked_before += now - self._blocked_at

    def account(self, peer: "CreditFlow") -> StageAccount:
        """What is known about a party, as a receiver and as a sender."""
        return StageAccount(
            self._room.get(peer, peer.spec.initial),
            self._until_grant.get(peer, self.spec.more_after),
            sum(n for sender, n in self._deferred if sender is peer),
        )

    @property
    def peers(self) -> Sequence["CreditFlow"]:
        """Everybody in the books of this party."""
        return tuple(self._room | self._until_grant)

    def _block(self, receiver: "CreditFlow", now: float) -> None:
        if not self._blockers:
            self.blocks += 1
            self._blocked_at = now
        self._blockers[receiver] = None
        self._last_blocker = (receiver.name,)

    def _unblock(self, receiver: "CreditFlow") -> None:
        if receiver not in self._blockers:
            return
        del self._blockers[receiver]
        if self._blockers:
            return
        self._count_unblock()
        deferred, self._deferred = self._deferred, []
        for sender, n in reversed(deferred):
            self._post(sender, self, n)
        self._unblocked()

    def _count_unblock(self) -> None:
        self.unblocks += 1
        self._unstamped = True
