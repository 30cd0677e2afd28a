"""What nodes say of themselves in the engine, and who of them is away: so a node knows when to claim a group.

Each node puts its *beat* twice a second: a counter, its address, and for each group how far its copy is synced. A node
whose beat has stayed the same for one and a half seconds is away. Each node measures that with its own monotonic clock,
from when it has seen the last change, so no clocks are compared. While the engine itself does not answer, no beat can
change: of that time only three quarters of a second count.

The end of a process is known sooner: its connections to the other nodes end, and its address *refuses* the next one. A
node counts as away from that moment on, for this life of it. If its beats go on all the same, it was not its process
that refused: something between the nodes did. Then it is here again, and refusals mean nothing for the rest of this
life. An address that does not answer says nothing: the node may stand still, or the way to it may be closed.

A lease of etcd would say the same. But etcd prolongs all leases by their whole time when its own leader changes, which
happens at the worst moment: when one machine had both leaders.

Whether a node is away is a guess, and a wrong one does no harm: the claim of one node ends the term of another, and
what the other has under way is refused by the engine.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

import cbor2

BEAT_S = 0.5
"""How often a node puts its beat."""
LOOK_S = 0.25
"""How often a node looks at the beats of the others."""
AWAY_S = 1.5
"""A node whose beat has stayed the same for so long is away: three beats."""
GAP_S = 0.75
"""If two looks are so far apart, the engine did not answer between them."""
GAP_COUNTS_S = 0.75
"""So much of a gap counts all the same: a node that is here puts its beat half a second after the engine is back."""
TURN_S = 0.5
"""How long each further node waits for the ones that come before it in the order of a group."""
NO_GROUPS: Mapping[int, Sequence[str]] = MappingProxyType({})


def node_number(name: str) -> int:
    """The number by which the engine knows a node: 48 bits of a digest of its name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big")


class Progress(NamedTuple):
    """How far a node is that joins, or that copies groups from other nodes."""

    copied: int
    """Of how many of the groups it has a copy."""
    groups: int
    """The groups that it had to copy, or has to."""
    bytes: int
    """How many have come. A copy that begins again counts anew."""
    seconds: float
    """How long it has copied."""
    waits_for: tuple[str, ...]
    """What it has to get before it is through, in words for operators."""

    @classmethod
    def of(cls, value: object) -> "Progress | None":
        """The progress in the value of a beat; None if it is none. A beat counts also without: its node is there."""
        match value:
            case [int(copied), int(groups), int(came), int(seconds) | float(seconds), [*waits_for], *_] if (
                0 <= copied <= groups and came >= 0 and 0 <= seconds < inf
            ):
                return cls(copied, groups, came, seconds, tuple(map(str, waits_for)))
        return None


@dataclass(slots=True)
class Beat:
    """What a node says of itself."""

    count: int
    life: str
    """Another one for each start."""
    addresses: Sequence[str] = ()
    """Where its clients connect without TLS."""
    version: str = ""
    synced: Mapping[int, int] = field(default_factory=dict)
    """For each group, up to which number its copy is synced."""
    applied: Mapping[int, int] = field(default_factory=dict)
    """For each group, up to which number it has applied the log."""
    problems: Mapping[int, str] = field(default_factory=dict)
    """For each group that this node cannot keep, why."""
    leads: Mapping[int, int] = field(default_factory=dict)
    """For each group that it leads, in which epoch: it takes on and delivers messages."""
    hands: Mapping[int, str] = field(default_factory=dict)
    """For each group that it has ceased to lead, the node that is to claim it."""
    set_aside: bool = False
    """Whether it is in maintenance mode: it claims nothing."""
    node_address: str = ""
    """Where other nodes connect with their certificates; "" if it has no such address."""
    listed: int = 0
    """The version of the list of the members that it knew."""
    tls_addresses: Sequence[str] = ()
    """Where its clients connect with TLS."""
    progress: Progress | None = None
    """How far it is with joining, or with copies; None if it does neither. Its place in the value is empty then."""

    def encoded(self) -> bytes:
        """The beat as the value of a key."""
        facts = [self.count, self.life, list(self.addresses), self.version]
        groups = dict(self.synced), dict(self.applied), dict(self.problems), dict(self.leads)
        rest = self.set_aside, self.node_address, self.listed, list(self.tls_addresses)
        progress = () if self.progress is None else (list(self.progress),)
        return cbor2.dumps([*facts, *groups, dict(self.hands), *rest, *progress])

    @classmethod
    def decoded(cls, data: bytes) -> "Beat | None":
        """The beat in a value; None if it is none."""
        try:
            count, life, addresses, version, synced, applied, problems, *more = cbor2.loads(data)
            newer: list[Any] = [*more, *({}, {}, False, "", 0, (), None)[len(more) :]]
            leads, hands, set_aside, node_address, listed, tls_addresses, progress, *_ = newer
            maps = dict(synced), dict(applied), dict(problems), dict(leads), dict(hands)
            addressed = str(node_address), int(listed), tuple(map(str, tls_addresses))
            rest = bool(set_aside), *addressed, Progress.of(progress)
            return cls(int(count), str(life), list(addresses), str(version), *maps, *rest)
        except (cbor2.CBORDecodeError, OverflowError, TypeError, ValueError):
            return None


@dataclass(slots=True)
class _Seen:
    beat: Beat
    changed_at: float


@dataclass(slots=True)
class _Refusal:
    """The address of a node has refused a connection."""

    life: str
    at: float
    """In monotonic seconds."""
    count: int | None = None
    """That of the beat in the first look that was sent later: the node may have put it before it ended."""


class Beats:
    """The beats of all members of a cluster, as one node sees them."""

    def __init__(self, node: str, members: Sequence[str]) -> None:
        self.node = node
        self.members: list[str] = []
        self.joining: frozenset[str] = frozenset()
        """Those of the members that lead nothing yet, and count for no majority."""
        self._of_groups: Mapping[int, Sequence[str]] = {}
        self._listed = 0
        """The version of the list of the members."""
        self._numbers: dict[int, str] = {}
        self._seen: dict[str, _Seen] = {}
        self._refusals: dict[str, _Refusal] = {}
        """Those that count, by node."""
        self._disproved: dict[str, str] = {}
        """For each node whose beats have gone on after a refusal, in which life."""
        self._looked_at = -inf
        self._vacant_since: dict[int, float] = {}
        """For each group whose owner is away, since when this node knows it."""
        self.follow(members)

    def follow(
        self,
        members: Sequence[str],
        joining: Collection[str] = (),
        of_groups: Mapping[int, Sequence[str]] = NO_GROUPS,
        listed: int = 0,
    ) -> None:
        """These are the members from now on. ``of_groups``: those of each group that not every node keeps, in the order
        in which they should lead it. ``listed``: the version of the list that says so."""
        self.members, self.joining, self._of_groups = list(members), frozenset(joining), of_groups
        self._listed = listed
        self._numbers = {node_number(name): name for name in members}

    def members_of(self, group: int) -> Sequence[str]:
        """The members of a group; none if it is not used."""
        return self._of_groups.get(group, self.members)

    def counted_in(self, group: int) -> list[str]:
        """The members of a group that count for majorities."""
        return [name for name in self.members_of(group) if name not in self.joining]

    def looked(self, beats: Mapping[str, Beat], now: float) -> None:
        """These are the beats in the engine; those of nodes that are no members do not count. ``now``: when the request
        was sent, in monotonic seconds."""
        gap = now - self._looked_at if self._looked_at > -inf else 0.0
        pause = gap - GAP_COUNTS_S if gap > GAP_S else 0.0
        self._looked_at = now
        for seen in self._seen.values():
            seen.changed_at += pause
        of_members = {name: beat for name, beat in beats.items() if name in self.members}
        for name, beat in of_members.items():
            seen_before = self._seen.get(name)
            if seen_before is None or (seen_before.beat.count, seen_before.beat.life) != (beat.count, beat.life):
                self._seen[name] = _Seen(beat, now)
        for name in [name for name in self._seen if name not in of_members]:
            del self._seen[name]
        for name, refusal in list(self._refusals.items()):
            self._check_refusal(name, refusal, now)

    def _check_refusal(self, name: str, refusal: _Refusal, now: float) -> None:
        """Forget a refusal of an earlier life, and one that a later beat disproves."""
        beat = self.beat(name)
        if beat is None or beat.life != refusal.life:
            del self._refusals[name]
        elif now < refusal.at:
            return
        elif refusal.count is None:
            refusal.count = beat.count
        elif refusal.count != beat.count:
            del self._refusals[name]
            self._disproved[name] = refusal.life

    def refused(self, name: str, now: float) -> bool:
        """The address of a node has refused a connection. ``now``: in monotonic seconds. Returns whether the node
        counts as away because of that, and did not before."""
        beat = self.beat(name)
        if name == self.node or beat is None or name in self._refusals or self._disproved.get(name) == beat.life:
            return False
        was_here = self.is_here(name)
        self._refusals[name] = _Refusal(beat.life, now)
        return was_here

    def beat(self, name: str) -> Beat | None:
        """The last beat of a node; None if it never had one."""
        seen = self._seen.get(name)
        return None if seen is None else seen.beat

    def is_here(self, name: str) -> bool:
        """Whether a node is not away."""
        return name not in self._refusals and not self.is_silent(name)

    def is_silent(self, name: str) -> bool:
        """Whether the beat of another node has stayed the same for so long that it is away, whatever its address
        says."""
        seen = self._seen.get(name)
        return name != self.node and (seen is None or self._looked_at - seen.changed_at >= AWAY_S)

    def of_clients(self, encrypted: bool) -> list[Sequence[str]]:
        """Where clients connect to each of the other nodes that are here and lead, or could lead, something. The member
        behind this one is the first, so that the clients of different nodes try different nodes first."""
        begin = self.members.index(self.node) + 1 if self.node in self.members else 0
        found: list[Sequence[str]] = []
        for name in [*self.members[begin:], *self.members[:begin]]:
            beat = self.beat(name)
            if name == self.node or name in self.joining or beat is None or beat.set_aside or not self.is_here(name):
                continue
            found.append(beat.tls_addresses if encrypted else beat.addresses)
        return found

    def addresses_of(self, name: str, encrypted: bool) -> Sequence[str]:
        """Where clients connect to a node, with TLS or without; nothing for one that is away."""
        beat = self.beat(name) if self.is_here(name) else None
        return () if beat is None else beat.tls_addresses if encrypted else beat.addresses

    def away_s(self, name: str) -> float:
        """For how long the beat of a node has stayed the same, in seconds; infinity if it never had one."""
        seen = self._seen.get(name)
        return inf if seen is None else self._looked_at - seen.changed_at

    def name_of(self, number: int) -> str:
        """The name of a member; "" for a node that is none."""
        return self._numbers.get(number, "")

    def should_claim(self, group: int, owner: int, now: float) -> bool:
        """Whether this node should claim a group now. ``owner``: the number of the node that has it, 0 for none.

        The members of a group have an order, so that leaders are spread, and not all claim at the same moment.
        """
        name = self.name_of(owner)
        away = self._looked_at > -inf and (name == self.node or not (name and self.can_lead(name, group)))
        if not away or self.node not in self.counted_in(group):
            self._vacant_since.pop(group, None)
            return False
        since = self._vacant_since.setdefault(group, now)
        before = [one for one in self.order(group)[: self.order(group).index(self.node)] if self.can_lead(one, group)]
        return now >= since + TURN_S * len(before)

    def can_lead(self, name: str, group: int) -> bool:
        """Whether a member of the group that does not join is here, is not set aside, and does not say that it cannot
        keep the group."""
        beat = self.beat(name)
        return (
            name in self.counted_in(group)
            and self.is_here(name)
            and (beat is None or (group not in beat.problems and not beat.set_aside))
        )

    def order(self, group: int) -> list[str]:
        """The members in the order in which they should lead a group."""
        if group in self._of_groups:
            return list(self._of_groups[group])
        first = group % len(self.members)
        return [*self.members[first:], *self.members[:first]]

    def synced(self, group: int) -> dict[int, int]:
        """For each member of a group, by its number, up to which number its copy is synced."""
        return {node_number(name): self._synced(name, group) for name in self.members_of(group)}

    def _synced(self, name: str, group: int) -> int:
        """Up to which number the copy of a member is synced. Of a group that not every node keeps, a beat from before
        the last change of the list says nothing: its node may have been no member in between, and dropped the copy."""
        beat = self.beat(name)
        if beat is None or (group in self._of_groups and beat.listed < self._listed):
            return 0
        return beat.synced.get(group, 0)

    def copying(self, group: int) -> set[int]:
        """The members, by their numbers, that say that they cannot keep a group from what the engine has."""
        beats = ((name, self.beat(name)) for name in self.members_of(group))
        return {node_number(name) for name, beat in beats if beat is not None and group in beat.problems}

    def sources(self, group: int) -> list[str]:
        """The other members that can give their copy of a group, the one that has applied most first."""
        found = [name for name in self.members_of(group) if name != self.node and self.can_lead(name, group)]
        beats = {name: beat for name in found if (beat := self.beat(name)) is not None}
        return sorted(beats, key=lambda name: -beats[name].applied.get(group, 0))

    def up_to_date(self, group: int, cut: int) -> set[str]:
        """The members of a group that are here and have all its batches up to this number: with what the engine still
        has, theirs is a whole copy."""
        found = set()
        for name in self.members_of(group):
            beat = self.beat(name)
            if beat is not None and self.is_here(name) and group not in beat.problems:
                found |= {name} if self._synced(name, group) >= cut else set()
        return found

    def furthest(self, group: int) -> int:
        """The highest number that any node has applied."""
        return max((seen.beat.applied.get(group, 0) for seen in self._seen.values()), default=0)
