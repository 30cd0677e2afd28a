"""How far the engine is cut: what all members have is deleted there, and then its earlier states are forgotten."""

from collections import deque
from collections.abc import Callable, Mapping
from math import inf

from core.cluster.beats import Beats, node_number
from core.cluster.engine_space import EngineSpace
from core.cluster.etcd import Etcd
from core.cluster.etcd_log import ASK_S
from core.cluster.etcd_messages import MESSAGES, Message, range_of
from core.cluster.group_driver import GroupDriver
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.quorum.shared_log import cut_at

CUT_S = 5.0
"""How often a leader has the engine forget what all members have."""
COMPACT_S = 30.0
"""How often a node that has had something cut away has the engine forget earlier states of its keys, which take its
space."""
COPY_COMPACT_S = 5.0
"""The same as COMPACT_S, while groups are copied: each part of a copy is a state of a key that takes space."""
SIZES_MAX = 256
"""Places in a group's log of which a leader knows how many bytes come behind them."""


class Cuts:
    """The cuts of the groups that one node leads."""

    def __init__(
        self,
        etcd: Etcd,
        key: bytes,
        groups: QuorumGroups,
        drivers: Mapping[int, GroupDriver],
        beats: Beats,
        space: EngineSpace,
        *,
        away_time_max: float,
        away_bytes_max: int,
    ) -> None:
        """``key``: any that there is. ``away_time_max`` in seconds, and ``away_bytes_max``: how long, and with how many
        bytes of a group, a member that is away holds batches in the engine."""
        self._etcd, self._key = etcd, key
        self._groups, self._drivers, self._beats, self._space = groups, drivers, beats, space
        self._away_time_max, self._away_bytes_max = away_time_max, away_bytes_max
        self._sizes: dict[int, deque[tuple[int, int]]] = {
            group.number: deque(maxlen=SIZES_MAX) for group in groups.in_order
        }
        """For each group, numbers of batches, and how many bytes this node had taken up to them."""
        self._cut_at = self._compact_at = -inf
        self._cuts = 0

    def step(self, now: float) -> None:
        """Cut what the members of the groups that this node leads have, from time to time."""
        if now < self._cut_at + CUT_S:
            return
        self._cut_at = now
        for group in self._groups.in_order:
            self._sizes[group.number].append((group.shared.ends_at, group.shared.bytes_taken))
            if group.queues.leads:
                upto = self._upto(group)
                if upto > self._drivers[group.number].cut:
                    self._cuts += 1
                    self._drivers[group.number].cut_away(upto)
        copies = any(
            driver.copies
            for group, driver in self._drivers.items()
            if self._beats.node in self._beats.members_of(group)
        )
        if (self._cuts or copies) and now >= self._compact_at + (COPY_COMPACT_S if copies else COMPACT_S):
            self._compact_at, self._cuts = now, 0
            self._ask("KV/Range", range_of(self._key), self._compact)

    def _upto(self, group: QuorumGroup) -> int:
        """Up to which number the engine may be cut."""
        joining = set(map(node_number, self._beats.joining))
        return cut_at(self._beats.synced(group.number), self._without(group), joining)

    def _without(self, group: QuorumGroup) -> set[int]:
        """The members that need no batches of a group any more, because they have to copy it in any case: those that
        say so, and those that are away for too long."""
        without = self._beats.copying(group.number)
        synced = self._beats.synced(group.number)
        for name in self._beats.members_of(group.number):
            node = node_number(name)
            if node in without or not self._beats.is_silent(name):
                continue
            too_long = self._space.pressed or self._beats.away_s(name) > self._away_time_max
            if too_long or self._behind(group, synced[node]) > self._away_bytes_max:
                without.add(node)
        return without

    def _behind(self, group: QuorumGroup, number: int) -> int:
        """How many bytes of a group come behind a batch, as far as this node knows."""
        before = [size for last, size in self._sizes[group.number] if last <= number]
        known = before[-1] if before else self._sizes[group.number][0][1]
        return group.shared.bytes_taken - known

    def _compact(self, response: Message) -> None:
        request = MESSAGES["CompactionRequest"](revision=response.header.revision)
        self._ask("KV/Compact", request, lambda _: None)

    def _ask(self, method: str, request: Message, answered: Callable[[Message], None]) -> None:
        self._etcd.ask(method, request, answered, lambda: None, timeout_s=ASK_S)
