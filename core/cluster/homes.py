"""The home of each quorum queue: the node that leads its group. It moves with the leader. A classic queue stays on the
node that its identity names, to which there is a way as soon as this node knows its address.

A node that does not lead forwards to the home (:mod:`core.engine.forwarding`). When the home changes, what is attached
to the queue here is detached with an error, and finds the new home when it is attached again. While no node leads, the
queue is this node's own, which is held: its publishers wait with the reason ``no-quorum``.
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from itertools import chain, islice

from core.cluster.member import Member
from core.config.address import parse_node_address
from core.engine.broker import Broker
from core.engine.forwarding.nodes import HomeNode, Homes
from core.engine.quorum.group_numbers import home_in
from core.engine.quorum.groups import QuorumGroups
from core.engine.routing.shared_names import is_shared
from core.engine.routing.topology import QueueDefinition
from core.engine.virtual_hosts import VirtualHosts
from core.errors import HomeLost
from core.interface import QueueInfo

MADE_AT_ONCE = 20
"""The most queues that move in one step: 0.1 to 0.2 ms each."""
LOOKED_AT_ONCE = 5_000
"""The most queues that are looked at in one step for those of a group: 1 µs each."""
NodeAt = Callable[[str, str], HomeNode | None]
"""Returns another node, by its name and its address; None if it must not be forwarded to."""


class QueueHomes:
    """The homes of the quorum queues, as one node follows them."""

    def __init__(
        self,
        homes: Homes,
        hosts: VirtualHosts,
        groups: QuorumGroups,
        member: Member,
        node_at: NodeAt,
        hurry: Callable[[str], None],
    ) -> None:
        """``hurry`` has connections to a node made now that wait for another try."""
        self._hurry = hurry
        self._lives: dict[str, str] = {}
        """For each other node that is here, in which life."""
        self._hosts, self._groups, self._member, self._node_at = hosts, groups, member, node_at
        self._homes: dict[int, str | None] = {}
        """By group, where its queues are here."""
        self._addresses: dict[str, str] = {}
        self._moving: dict[tuple[str, str], None] = {}
        """Queues that are to be made anew, by virtual host and name."""
        self._changed: set[int] = set()
        """Groups whose home has changed, and whose queues are still looked for."""
        self._ways: dict[str, HomeNode] = {}
        """The other nodes for which the classic queues on them were made last."""
        self._changed_ways: set[str] = set()
        """Nodes to which there is another way, and whose classic queues are still looked for."""
        self._queues: Iterator[tuple[str, str, QueueDefinition]] = iter(())
        """Those that are still to be looked at."""
        assert isinstance(homes.nodes, MutableMapping), "the nodes are filled as their addresses become known"
        self._nodes: MutableMapping[str, HomeNode] = homes.nodes
        self._configured = homes.home_of
        homes.home_of, homes.nodes_of = self._home_of, self._nodes_of

    @property
    def busy(self) -> bool:
        """Whether queues are still to be moved."""
        return bool(self._moving or self._changed or self._changed_ways)

    def follow(self, now: float) -> bool:
        """Move the queues of groups whose leader has changed, as many as there is time for. Returns whether the engine
        needs a turn."""
        self._stay_connected()
        for group in self._groups.in_order:
            home = self._member.home(group)
            if home is not None and not self._reach(home):
                home = None
            if home != self._homes.get(group.number):
                self._homes[group.number] = home
                self._changed.add(group.number)
                self._look_anew()
        if self._ways != self._nodes:
            names = self._ways.keys() | self._nodes.keys()
            self._changed_ways |= {name for name in names if self._ways.get(name) is not self._nodes.get(name)}
            self._ways = dict(self._nodes)
            self._look_anew()
        self._look_for_queues()
        moved = 0
        for host, name in list(islice(self._moving, MADE_AT_ONCE)):
            broker = self._hosts.find(host)
            if broker is None or name not in broker.shown.queues:
                del self._moving[host, name]
                continue
            error = HomeLost(f"queue '{name}' {self._says_where(host, name)}; attach again")
            if broker.make_anew(name, error, now):
                del self._moving[host, name]
                moved += 1
        self._member.tell_that_it_leads(wanted=not self.busy)
        return moved > 0 or self.busy

    def _stay_connected(self) -> None:
        """Be connected to each node that is here, and at once to one that is back."""
        beats = self._member.beats
        for name in [name for name in self._addresses if name not in beats.members]:
            del self._addresses[name]
            if (left := self._nodes.pop(name, None)) is not None:
                left.let_go()
        for name in beats.members:
            beat = None if name == beats.node or not beats.is_here(name) else beats.beat(name)
            if beat is None:
                self._lives.pop(name, None)
            elif self._lives.get(name) != beat.life:
                self._lives[name] = beat.life
                if self._reach(name):
                    self._nodes[name].stay_connected(self._hosts.default.virtual_host)
                self._hurry(name)

    def refused(self, name: str, host: str, port: int, now: float) -> bool:
        """An address of a node refuses connections. Returns whether the node counts as away because of that, and did
        not before."""
        address = self._addresses.get(name, "")
        is_its_own = bool(address) and parse_node_address(address) == (host, port)
        return is_its_own and self._member.beats.refused(name, now)

    def _says_where(self, host: str, name: str) -> str:
        where, broker = self._home_of(host, name), self._hosts.find(host)
        definition = None if broker is None else broker.shown.topology.queues.get(name)
        if definition is not None and home_in(definition.identity):
            return f"is on node {where}, to which there is another way now"
        return f"is led by {'another node' if where is None else f'node {where}'} from now on"

    def _look_anew(self) -> None:
        self._queues = chain.from_iterable(map(_queues_of, list(self._hosts.all)))

    def _look_for_queues(self) -> None:
        """Find some of the queues of groups whose home has changed, and of nodes to which there is another way."""
        if not (self._changed or self._changed_ways):
            return
        looked = 0
        for host, name, one in islice(self._queues, LOOKED_AT_ONCE):
            looked += 1
            of_group = is_shared(one.declaration) and self._groups.of(one.identity)[0].number in self._changed
            if of_group or home_in(one.identity) in self._changed_ways:
                self._moving[host, name] = None
        if looked < LOOKED_AT_ONCE:
            self._changed.clear()
            self._changed_ways.clear()

    def _reach(self, name: str) -> bool:
        """Make the node, or make it anew at another address. Returns whether there is one."""
        beat = self._member.beats.beat(name)
        address = "" if beat is None else next(filter(None, (beat.node_address, *beat.addresses)), "")
        if address != self._addresses.get(name, ""):
            self._addresses[name] = address
            made = self._node_at(name, address) if address else None
            if (before := self._nodes.pop(name, None)) is not None:
                before.let_go()
            if made is not None:
                self._nodes[name] = made
        return name in self._nodes

    def _home_of(self, virtual_host: str, queue: str) -> str | None:
        configured = self._configured(virtual_host, queue)
        if configured is not None or (host := self._hosts.find(virtual_host)) is None:
            return configured
        definition = host.shown.topology.queues.get(queue)
        if definition is None or (said := home_in(definition.identity)) or not is_shared(definition.declaration):
            return None if definition is None else said or None
        return self._homes.get(self._groups.of(definition.identity)[0].number)

    def _nodes_of(self, queue: QueueInfo) -> tuple[str | None, Sequence[str]]:
        if is_shared(queue.declaration):
            group = self._groups.of(queue.identity)[0]
            return self._member.leader(group), self._member.beats.members_of(group.number)
        home = home_in(queue.identity) or self._member.beats.node  # only this node knows a queue whose home is not said
        return home, (home,)


def _queues_of(host: Broker) -> list[tuple[str, str, QueueDefinition]]:
    return [(host.virtual_host, name, one) for name, one in host.shown.topology.queues.items()]
