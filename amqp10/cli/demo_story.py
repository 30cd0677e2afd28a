"""What ``headgate demo cluster`` says of its nodes: who leads, what has ended, and how long the others took.

It is told what the nodes have logged, and when, and returns lines to print. It does not wait and reads no clock.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SIGNALS = {-9: "kill -9", -15: "kill", -11: "a fault of memory", -6: "an abort", -2: "Ctrl-C"}
"""What has ended a process with this exit code."""


@dataclass(slots=True)
class DemoNode:
    """What is known of a node."""

    name: str
    url: str
    pid: int = 0
    ready: bool = False
    here: bool = False
    ended_at: float = 0.0


@dataclass(slots=True)
class Story:
    """The nodes, and who leads which group."""

    nodes: Mapping[str, DemoNode]
    groups: int
    queue: str
    group: int = 0
    """The group of the queue; 0 until it is known."""
    leaders: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    """The groups without a leader, each with the node that led it."""

    @property
    def led(self) -> bool:
        """Whether all groups have a leader."""
        return len(self.leaders) == self.groups

    @property
    def quorum(self) -> int:
        """How many nodes have to be there."""
        return len(self.nodes) // 2 + 1

    def logged(self, name: str, event: str, facts: Mapping[str, object], now: float) -> Iterator[str]:
        """A node has written a line of its log."""
        node, why = self.nodes[name], facts.get("why", "")
        match event:
            case "group-led":
                yield from self._led(node, int(str(facts["group"])), now)
            case "group-not-led":
                group = int(str(facts["group"]))
                if self.leaders.get(group) == name:
                    del self.leaders[group]
                    self.lost[group] = name
                yield f"leads group {group} no more" + (f": {why}" if why else "")
            case "etcd-ended":
                yield f"its etcd has ended, and starts again in {facts['again_s']} s: {facts['said']}"
            case "etcd-started":
                again = "" if facts["starts"] == 1 else "again "
                yield f"its etcd runs {again}as process {facts['etcd_pid']}"
            case "group-stopped" | "cluster-refused" | "batch-too-large":
                yield f"{event}: {why}"

    def _led(self, node: DemoNode, group: int, now: float) -> Iterator[str]:
        self.leaders[group] = node.name
        before = self.lost.pop(group, None)
        of_queue = f" with queue {self.queue}" if group == self.group else ""
        if before is None:
            yield f"leads group {group}{of_queue}"
            return
        other = self.nodes[before]
        took = "" if other.here else f", {now - other.ended_at:.1f} s after {before} has ended"
        yield f"leads group {group}{of_queue} now{took}"
        if of_queue:
            yield f"publish and consume there: --url {node.url}"

    def ended(self, name: str, status: int, now: float) -> Iterator[str]:
        """The process of a node has ended."""
        node = self.nodes[name]
        node.here = node.ready = False
        node.ended_at = now
        groups = [group for group, leader in self.leaders.items() if leader == name]
        for group in groups:
            del self.leaders[group]
            self.lost[group] = name
        led = f"; it led {_groups(groups)}" if groups else "; it led no group"
        yield f"has ended ({SIGNALS.get(status, f'exit code {status}')}){led}"
        here = sum(one.here for one in self.nodes.values())
        if here < self.quorum:
            yield f"only {here} of {len(self.nodes)} nodes are left: no majority, so nothing is accepted or delivered"

    def instructions(self, took: float) -> Iterator[str]:
        """What can be done now, after the start."""
        leader = self.nodes[self.leaders[self.group]]
        other = next(one for one in self.nodes.values() if one is not leader)
        led = f"{leader.name} leads group {self.group}, which has the queue {self.queue}"
        yield f"The cluster is ready after {took:.1f} s. {led}."
        yield ""
        yield f"  publish   headgate publish /queues/{self.queue} hello --count 1000 --url {leader.url}"
        yield f"  look      headgate cluster status --url {other.url}"
        for word, node in zip(("kill", *[""] * len(self.nodes)), self.nodes.values(), strict=False):
            yield f"  {word:9} kill -9 {node.pid}   # {node.name}" + (", the leader" if node is leader else "")
        yield f"  consume   headgate consume /queues/{self.queue} --drain --url (that of the leader then, as said here)"
        yield ""
        yield "Press Enter to start again what has ended, and Ctrl-C to end all."


def _groups(numbers: Sequence[int]) -> str:
    return f"group{'s' if len(numbers) > 1 else ''} {' and '.join(map(str, sorted(numbers)))}"
