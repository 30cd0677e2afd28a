"""Which groups one node copies from other nodes, from which ones, and how far it is."""

from collections.abc import Callable, Collection, Iterable, Mapping

from core.cluster.beats import Beats, Progress, node_number
from core.cluster.group_driver import GroupDriver
from core.engine.quorum.copying import GroupCopy
from core.engine.quorum.groups import QuorumGroup, QuorumGroups

COPIES_MAX = 2
"""Groups that a node copies at the same time, 4 MiB a second each at most."""


class GroupCopies:
    """The copies that this node gets from other nodes."""

    def __init__(
        self,
        groups: QuorumGroups,
        drivers: Mapping[int, GroupDriver],
        beats: Beats,
        clock: Callable[[], float],
        log: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._groups, self._drivers, self._beats = groups, drivers, beats
        self._clock, self._log = clock, log
        self._asked_before: dict[int, str] = {}
        """For each group, from which member this node has begun to copy it last."""
        self._needed: set[int] = set()
        """The groups that have needed a copy since one of them was the first."""
        self._first_at = 0.0
        self._seconds = 0.0
        """How long it took from then until a copy was needed last."""

    def of(self, number: int) -> GroupCopy:
        """The copy of a group."""
        copy = self._drivers[number].copy
        assert copy is not None, "each driver has got one"
        return copy

    def begin_if_due(self, group: QuorumGroup) -> None:
        """Have a group copied from another member, unless that is being done, or enough others are."""
        copy = self.of(group.number)
        sources = self._beats.sources(group.number)
        copying = sum(one.shared.must_copy and not self.of(one.number).wanted for one in self._groups.in_order)
        if not copy.wanted or not sources or copying >= COPIES_MAX:
            return
        source = sources[0] if sources[0] != self._asked_before.get(group.number) else sources[-1]
        self._asked_before[group.number] = source
        self._log("group-copy-begins", {"group": group.number, "from": source})
        copy.begin(node_number(source))

    def problems(self, kept: Iterable[QuorumGroup]) -> dict[int, str]:
        """For each of these groups that needs a copy, what becomes of that, for the other nodes and operators."""
        problems: dict[int, str] = {}
        for group in kept:
            if group.shared.must_copy or group.queues.copying:
                copy = self.of(group.number)
                source = self._beats.name_of(copy.source)
                what = (
                    f"it is copied from node {source}, {copy.bytes} bytes so far" if source else "it waits for a copy"
                )
                problems[group.number] = f"the engine has cut away batches that this node has not: {what}"
        return problems

    def progress(self, lacking: Collection[int], waits_for: Collection[str]) -> Progress | None:
        """How far this node is; None if it needs nothing. ``lacking``: the groups that need a copy now. ``waits_for``:
        see :class:`core.cluster.beats.Progress`."""
        if not waits_for:
            self._needed.clear()
            return None
        if lacking:
            now = self._clock()
            self._first_at = self._first_at if self._needed else now
            self._needed.update(lacking)
            self._seconds = now - self._first_at
        self._needed = {one for one in self._needed if self._beats.node in self._beats.members_of(one)}
        copied = len(self._needed) - len(lacking)
        came = sum(self.of(number).bytes for number in self._needed)
        seconds = round(self._seconds, 1) if self._needed else 0.0
        return Progress(copied, len(self._needed), came, seconds, tuple(waits_for))
