"""What the virtual hosts of one broker share: the store, its lanes, confirms, the pump, memory, alarms and totals.

A :class:`core.engine.broker.Broker` has the names of one virtual host: queues, exchanges, bindings and policies. There
is one of it for each virtual host, and one machinery for all of them. So a turn serves the touched queues of all
virtual hosts in one order and within one amount of work, and an alarm holds for all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from math import inf

from core.alarms.registry import AlarmRegistry
from core.clock import Now
from core.config.settings import Settings
from core.credit_flow.flow import StageCreditSpec
from core.engine.classic.residency import SAMPLE_INTERVAL_S, Residency, Resident
from core.engine.confirms import Confirms
from core.engine.enforcement import Enforcement
from core.engine.forwarding.nodes import Homes
from core.engine.options.in_force import QueueType
from core.engine.options.policies import Policies
from core.engine.queue.admissions import lose_track, refuse
from core.engine.queue.kinds import AnyQueue
from core.engine.queue.pump import PositionWaiter, QueueTurns
from core.engine.queue.store_stage import StoreStage
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.ready.waits import Waits
from core.engine.routing.router import Router
from core.engine.routing.topology import Topology
from core.engine.snapshots import Snapshots
from core.engine.storage import Storage
from core.engine.totals import EngineTotals
from core.order_position import OrderPosition
from core.store.lane import Lane
from core.store.store import Store
from core.work import Work


class Lanes:
    """The waits for each lane of the store: to be written, and to be synced."""

    __slots__ = (
        "classic_synced", "classic_written", "of_groups", "quorum_synced", "streams_synced", "streams_written",
    )  # fmt: skip

    def __init__(self, store: Store, groups: QuorumGroups | None = None) -> None:
        self.classic_written = _written(store.classic)
        self.classic_synced = _synced(store.classic)
        self.quorum_synced = _synced(store.quorum)
        self.streams_written = _written(store.streams)
        self.streams_synced = _synced(store.streams)
        self.of_groups = {} if groups is None else {group.number: _committed(group) for group in groups.in_order}
        """For each group of a cluster, the wait for the commit of its commands."""

    @property
    def all(self) -> list[Waits[PositionWaiter]]:
        """All waits, for the pump, which checks them in each turn."""
        return [
            self.classic_written,
            self.classic_synced,
            self.quorum_synced,
            self.streams_written,
            self.streams_synced,
            *self.of_groups.values(),
        ]


def _written(lane: Lane) -> Waits[PositionWaiter]:
    return Waits(lambda: lane.written)


def _synced(lane: Lane) -> Waits[PositionWaiter]:
    return Waits(lambda: lane.synced, hurry=lane.want_sync)


def _committed(group: QuorumGroup) -> Waits[PositionWaiter]:
    return Waits(lambda: group.shared.committed)


def open_store_stage(settings: Settings, storage: Storage | None, lanes: Lanes | None) -> StoreStage | None:
    """Make the message store's stage, which all classic queues share; None without storage."""
    if storage is None or lanes is None:
        return None
    spec = StageCreditSpec(settings.stage_credit.store_initial, settings.stage_credit.store_more_after)
    return StoreStage(spec, lane=storage.store.classic, written=lanes.classic_written)


def no_nodes(encrypted: bool) -> Sequence[Sequence[str]]:
    """The other nodes of a broker alone."""
    return ()


class Machinery:
    """The parts of one broker that belong to no virtual host."""

    def __init__(self, settings: Settings, storage: Storage | None, homes: Homes | None = None) -> None:
        self.homes = homes or Homes()
        """On which node each queue lives."""
        self.order = OrderPosition()
        """How far this node is in the order of definitions of its cluster."""
        self.alarms = AlarmRegistry()
        self.work = Work() if storage is None else storage.work
        self.now = Now(0.0, 0.0)
        """The time of the last turn."""
        self.confirms = Confirms()
        self.lanes = None if storage is None else Lanes(storage.store, storage.groups)
        self.pump = QueueTurns(
            self.confirms,
            self.lanes.all if self.lanes else (),
            work=self.work,
            work_per_turn=settings.engine.work_per_turn.queues,
        )
        self.residency = Residency(settings.alarms.paging_ratio)
        self.residents: dict[Resident, AnyQueue] = {}
        """The backings that can page out, with the queue of each."""
        self.totals = EngineTotals()
        self.store_stage = open_store_stage(settings, storage, self.lanes)
        self.passing = count(1)
        """Numbers of queues that do not outlive the broker."""
        self.consumers = count()
        """Numbers of consumers."""
        self.removers: list[Callable[[AnyQueue], bool]] = []
        """For each virtual host, what removes a queue that has expired, and returns whether it is one of its own."""
        self.shown: list[Snapshots] = []
        """The snapshots of each virtual host."""
        self.leads_until = inf
        """Until when this node leads the groups of its cluster, if it does not hear again that it does (monotonic
        seconds); infinity if it leads none."""
        self.leading_ends: Callable[[Now], None] = lambda now: None
        """Called at that time, before any message moves."""
        self.other_nodes: Callable[[bool], Sequence[Sequence[str]]] = no_nodes
        """Where clients connect to each other node that is here, HOST:PORT; whether they do so with TLS."""
        self._sampled_at = -inf
        if storage is not None:
            storage.quorum.leadership_changed = self._leadership_changed
            for group in () if storage.groups is None else storage.groups.in_order:
                group.queues.leadership_changed = self._leadership_changed

    def never_committed(self, group: int, first: int, last: int, *, known: bool = True) -> None:
        """The log of a group will never have its commands from position ``first`` to ``last``: answer those who wait
        for them. If that is not ``known``, they may be there. A turn must follow."""
        assert self.lanes is not None, "a group has a log"
        for waiting in self.lanes.of_groups[group].take(first, last):
            queue = refuse(waiting, self.confirms) if known else lose_track(waiting, self.confirms)
            if queue is not None:
                self.pump.touch(queue)

    def snapshots(
        self,
        storage: Storage | None,
        *,
        queues: Mapping[str, AnyQueue],
        topology: Topology,
        router: Router,
        policies: Policies,
        enforcement: Enforcement,
    ) -> Snapshots:
        """The snapshots of one virtual host."""
        return Snapshots(
            queues=queues,
            topology=topology,
            router=router,
            confirms=self.confirms,
            alarms=self.alarms,
            policies=policies,
            enforcement=enforcement,
            totals=self.totals,
            store=None if self.store_stage is None else self.store_stage.stage_credit,
            lanes=() if storage is None else (storage.store.classic, storage.store.quorum, storage.store.streams),
            now=lambda: self.now.monotonic,
            beside=self.shown,
        )

    def _leadership_changed(self) -> None:
        """The node leads some quorum queues and streams no more, or again: each sees to it in its next turn."""
        for shown in self.shown:
            for queue in shown.queues.values():
                if queue.options.type in (QueueType.QUORUM, QueueType.STREAM):
                    self.pump.touch(queue)

    def enter(self, remover: Callable[[AnyQueue], bool], shown: Snapshots) -> None:
        """A virtual host has been made."""
        self.removers.append(remover)
        self.shown.append(shown)

    def leave(self, shown: Snapshots) -> None:
        """A virtual host has been deleted, after all its queues."""
        place = next(place for place, one in enumerate(self.shown) if one is shown)
        del self.removers[place], self.shown[place]
        self.pump.sums.without(shown.queues)

    def remove_expired(self) -> None:
        """Remove the queues that the last turn has found to be expired."""
        for queue in self.pump.take_expired():
            any(remove(queue) for remove in self.removers)

    def topologies(self) -> list[Topology]:
        """Return the names of all virtual hosts: the limits of queues, exchanges and bindings hold for their sum."""
        return [shown.topology for shown in self.shown]

    def see_to_alarms_and_memory(self, now: Now) -> None:
        """Stamp new alarms, and touch queues that have memory to free. First of all cease to lead groups of which this
        node has not heard for too long that it leads them."""
        if self.leads_until <= now.monotonic:
            self.leading_ends(now)
        if self.alarms.unstamped:
            self.alarms.stamp(now)
        if self.residency.deadline <= now.monotonic:
            self._touch_owners(self.residency.gather(now.monotonic))

    def memory_sampled(self, used: int, limit: int, now: Now) -> None:
        """See :meth:`core.engine.broker.Broker.memory_sampled`."""
        self.now = now
        if now.monotonic >= self._sampled_at + SAMPLE_INTERVAL_S:
            self._sampled_at = now.monotonic
            ratio = used / limit if limit else inf
            self._touch_owners(self.residency.sample(ratio, disk_alarm=self.alarms.paging_stopped))

    def _touch_owners(self, residents: Iterable[Resident]) -> None:
        for resident in residents:
            self.pump.touch(self.residents[resident])
