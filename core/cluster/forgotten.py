"""The classic queues of nodes that are members no more: what they were for all nodes is removed. Their messages are on
those nodes, or nowhere.

Every node looks, after each change of the members; the first whose removal comes into the order is the one that has
removed them. A removal is made from what there is when it is put: so none removes a queue that was declared again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice

from core.cluster.definitions_log import DefinitionsLog
from core.engine.quorum.group_numbers import home_in
from core.engine.routing.agreement import AgreedChange, AgreedRemoval, ChangeKind, ChangeVerdict
from core.engine.virtual_hosts import VirtualHosts

REMOVED_AT_ONCE = 20
"""The most queues in one removal, each with two operations of the 120 that a change may have, and the exchanges that go
with it."""


class ForgottenHomes:
    """The removal of such queues, as one node takes part in it."""

    def __init__(
        self, hosts: VirtualHosts, definitions: DefinitionsLog, log: Callable[[str, Mapping[str, object]], None]
    ) -> None:
        self.due = True
        """Whether this node has still to look, because the members have changed."""
        self._hosts, self._definitions, self._log = hosts, definitions, log
        self._putting = False

    def step(self, members: Collection[str]) -> None:
        """Have some queues removed, if it is time for that. ``members``: the names that the engine has now."""
        if not self.due or self._putting or not self._definitions.settled:
            return
        for host in self._hosts.all:
            found = list(islice(self._lost(host.virtual_host, members), REMOVED_AT_ONCE))
            if found and not self._hosts.deleting(host.virtual_host):
                self._remove(host.virtual_host, dict(found))
                return
        self.due = False

    def homes(self) -> Iterator[str]:
        """The nodes of all classic queues that all nodes know, with repetitions."""
        for host in self._hosts.all:
            yield from filter(None, (home_in(one.identity) for one in host.shown.topology.queues.values()))

    def _lost(self, host: str, members: Collection[str]) -> Iterator[tuple[str, str]]:
        found = self._hosts.find(host)
        queues = {} if found is None else found.shown.topology.queues
        for name, one in queues.items():
            if (home := home_in(one.identity)) and home not in members:
                yield name, home

    def _remove(self, host: str, lost: Mapping[str, str]) -> None:
        names = self._hosts.named(host).shown.topology
        exchanges = {exchange: None for name in lost for exchange in names.ends_with(name)}
        removal = AgreedRemoval(queues=tuple(lost), exchanges=tuple(exchanges))
        self._putting = True

        def answered(verdict: ChangeVerdict, why: str) -> None:
            self._putting = False
            if verdict is ChangeVerdict.MADE:
                self._log(
                    "queues-of-lost-nodes-removed",
                    {"vhost": host, "nodes": sorted(set(lost.values())), "queues": len(lost)},
                )

        self._definitions.submit(AgreedChange(ChangeKind.REMOVAL, host, ", ".join(lost), removal), answered)
