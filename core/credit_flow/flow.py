"""Stage credit: flow control between the stages of the broker, from the store up to the socket of the publisher.

A party sends messages to parties downstream of it and takes messages from parties upstream of it. A receiver lets each
sender send ``initial`` messages, and grants ``more_after`` more each time that it has acknowledged as many. A sender
that has used up what it may send is *blocked* by that receiver. It may still send, and the number goes below zero; but
it defers the grants to its own senders until no receiver blocks it any more. So its senders are blocked in turn, and so
on up to the first party, the reader of a socket. Only the reader checks whether it is blocked; if so, it stops reading.

Invariants, for a sender S and a receiver R, at every moment:

- what S may send, the messages under way, the messages that R has acknowledged since its last grant, and the grants
  that are deferred or under way add up to ``initial``;
- what S may send is zero or less if and only if R blocks S;
- a party defers grants only while it is blocked.

A run of n messages has the same effect as n single messages, except that its grants to one sender are given as one.

This is the algorithm that RabbitMQ calls credit_flow, with one addition: :meth:`CreditFlow.end`, because a party here
is not a process whose end is reported to the others. This module does not know messages or queues.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, TypeAlias

from core.waiting.blocked_time import BlockedTime

BLOCKERS_SHOWN = 256
"""A channel that publishes to 10,000 queues may be blocked by all of them; to name all for a report takes 30 ms."""
REMEMBERED = 1.0
"""Seconds for which a party counts as "in flow" after a block began. Blocks begin and end many times a second, so
occasional readings would mostly see none otherwise."""


@dataclass(frozen=True, slots=True)
class StageCreditSpec:
    """The stage credit that a party gives each of its senders, in messages: ``initial`` at first, then ``more_after``
    each time that it has acknowledged ``more_after``."""

    initial: int
    more_after: int

    def __post_init__(self) -> None:
        assert 1 <= self.more_after <= self.initial, self  # else no sender would reach the next grant


class FlowState(StrEnum):
    """Whether a party is blocked or was blocked recently."""

    RUNNING = "running"
    FLOW = "flow"


@dataclass(frozen=True, slots=True)
class StageReading:
    """The reading of a party, from which the bottleneck is found."""

    name: str
    in_flow: bool
    held_up_by: tuple[str, ...] = ()
    """Names of the parties that block it, or of the party that blocked it last."""

    @property
    def state(self) -> FlowState:
        """The state as a word."""
        return FlowState.FLOW if self.in_flow else FlowState.RUNNING


class StageCreditAccount(NamedTuple):
    """The account of a party about another party."""

    room: int
    """How many messages may still be sent to it; below zero if more were sent."""
    until_grant: int
    """How many of its messages are to be acknowledged before the next grant to it."""
    deferred: int
    """The sum of the grants to it that are deferred while this party is blocked."""


Post: TypeAlias = "Callable[[CreditFlow, CreditFlow, int], None]"
"""Called with ``(sender, granter, n)``. Must cause the call ``sender.handle_bump(granter, n)``, now or later."""


def hand_over(sender: "CreditFlow", granter: "CreditFlow", n: int) -> None:
    """A :data:`Post` that makes the call at once."""
    sender.handle_bump(granter, n)


def nothing() -> None:
    """The default for ``unblocked``."""


class CreditFlow:
    """One party of stage credit: its account of every sender and every receiver. Times are monotonic seconds."""

    __slots__ = (
        "_blocked_at",
        "_blocked_times",
        "_blockers",
        "_deferred",
        "_last_blocker",
        "_post",
        "_room",
        "_unblocked",
        "_until_grant",
        "blocks",
        "ended",
        "name",
        "spec",
        "unblocks",
        "unstamped",
    )

    def __init__(
        self,
        name: str,
        spec: StageCreditSpec,
        *,
        blocked_time: BlockedTime | None = None,
        unblocked: Callable[[], None] = nothing,
        post: Post = hand_over,
    ) -> None:
        """``spec`` is the stage credit that this party gives its senders. ``blocked_time`` is that of all parties of
        its kind; None if it is the only one. ``unblocked`` is called when no receiver blocks this party any more. It
        should only set a flag and do no work, because it is called in the middle of the work of that receiver."""
        self.name = name
        self.spec = spec
        self.ended = False
        self.blocks = 0
        """How many times this party became blocked."""
        self.unblocks = 0
        """How many times this party became unblocked."""
        self._unblocked = unblocked
        self._post = post
        self._room: dict[CreditFlow, int] = {}
        """By receiver, how many messages may still be sent to it."""
        self._until_grant: dict[CreditFlow, int] = {}
        """By sender, how many messages are to be acknowledged before its next grant."""
        self._blockers: dict[CreditFlow, None] = {}
        """Receivers that block this party, oldest first."""
        self._deferred: list[tuple[CreditFlow, int]] = []
        """Deferred grants, oldest first."""
        self._blocked_at: float | None = None
        """When the last block began. A further blocker does not begin another block."""
        self._last_blocker: tuple[str, ...] = ()
        """The name of the party that blocked this one last, if any did."""
        self._blocked_times: tuple[BlockedTime, ...] = () if blocked_time is None else (blocked_time,)
        """That of its kind, and from its first block on its own as the first; most parties never need that."""
        self.unstamped = False
        """Whether the last block has ended but its end is not stamped yet. A grant does not carry the time."""

    def __repr__(self) -> str:
        return f"CreditFlow({self.name!r})"

    # --- downstream ------------------------------------------------------------------------------------------------

    def send(self, to: "CreditFlow", n: int, now: float) -> None:
        """Count ``n`` messages sent to a party, within the stage credit or not. Messages to a party that has ended are
        not counted."""
        room = self._room.get(to)
        if room is None:
            if to.ended or self.ended or not n:
                return
            room = to.spec.initial
            to._until_grant.setdefault(self, to.spec.more_after)  # from here on each tells the other of its end
        if self.unstamped:
            self.stamp(now)
        left = room - n
        self._room[to] = left
        if room > 0 >= left:
            self._block(to, now)

    def room(self, to: "CreditFlow") -> int:
        """Return how many messages may be sent before ``to`` blocks this party; 0 if it does."""
        return max(0, self._room.get(to, to.spec.initial))

    def handle_bump(self, granter: "CreditFlow", n: int) -> None:
        """Add a grant that has arrived. If the granter was forgotten meanwhile, the account begins at 0."""
        if granter.ended or self.ended:
            return
        room = self._room.get(granter, 0)
        self._room[granter] = room + n
        if room <= 0 < room + n:
            self._unblock(granter)

    # --- upstream --------------------------------------------------------------------------------------------------

    def ack(self, sender: "CreditFlow", n: int) -> None:
        """Acknowledge ``n`` messages of a sender. Grants that are due are given now, or deferred while this party is
        blocked."""
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
        """Forget a party. Grants deferred for it are kept, but have no effect if it has ended."""
        self._room.pop(peer, None)
        self._until_grant.pop(peer, None)
        self._unblock(peer)

    def end(self, now: float) -> None:
        """End this party: all its senders and receivers forget it. Later calls for it do nothing."""
        if self.ended:
            return
        self.ended = True
        self._deferred.clear()
        if self._blockers:
            self._blockers.clear()
            self._count_unblock()
            self.stamp(now)
        peers = self._room | self._until_grant
        self._room.clear()
        self._until_grant.clear()
        for peer in peers:
            peer.peer_down(self)
            peer.stamp(now)

    # --- blocked or not --------------------------------------------------------------------------------------------

    @property
    def blocked(self) -> bool:
        """Whether some receiver blocks this party."""
        return bool(self._blockers)

    @property
    def blocked_by(self) -> Sequence["CreditFlow"]:
        """The receivers that block this party, newest first, and no more than BLOCKERS_SHOWN of them."""
        return tuple(islice(reversed(self._blockers), BLOCKERS_SHOWN))

    def state(self, now: float) -> FlowState:
        """Return FLOW while blocked, and for ``REMEMBERED`` seconds after the last block began."""
        recent = self._blocked_at is not None and now - self._blocked_at < REMEMBERED
        return FlowState.FLOW if self._blockers or recent else FlowState.RUNNING

    def reading(self, now: float) -> StageReading:
        """Return the state with the names of the parties that caused it."""
        names = tuple(blocker.name for blocker in self.blocked_by) or self._last_blocker
        in_flow = self.state(now) is FlowState.FLOW
        return StageReading(self.name, in_flow, names if in_flow else ())

    @property
    def blocked_at(self) -> float | None:
        """When the last block began; None if this party was never blocked."""
        return self._blocked_at

    def blocked_seconds(self, now: float) -> float:
        """Return the total seconds for which this party has been blocked."""
        self.stamp(now)
        return self._blocked_times[0].seconds(now) if self.blocks else 0.0

    def stamp(self, now: float) -> None:
        """Record that a block which has ended since the last stamp ended now. Every ``send`` stamps too."""
        if self.unstamped:
            self.unstamped = False
            for time in self._blocked_times:
                time.seconds(now)

    def account(self, peer: "CreditFlow") -> StageCreditAccount:
        """Return the account about a party, as a receiver and as a sender."""
        return StageCreditAccount(
            self._room.get(peer, peer.spec.initial),
            self._until_grant.get(peer, self.spec.more_after),
            sum(n for sender, n in self._deferred if sender is peer),
        )

    @property
    def peers(self) -> Sequence["CreditFlow"]:
        """All senders and receivers of this party."""
        return tuple(self._room | self._until_grant)

    def _block(self, receiver: "CreditFlow", now: float) -> None:
        if not self._blockers:
            if not self.blocks:
                self._blocked_times = (BlockedTime(), *self._blocked_times)
            self.blocks += 1
            self._blocked_at = now
            for time in self._blocked_times:
                time.begin(now)
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
        self.unstamped = True
        for time in self._blocked_times:
            time.unblocked()
