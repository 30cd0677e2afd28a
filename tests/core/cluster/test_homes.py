"""A node is connected to the others, at once to one that is back, and hears of addresses that refuse."""

from types import SimpleNamespace

from core.cluster.beats import AWAY_S, LOOK_S, Beat, Beats
from core.cluster.homes import QueueHomes
from core.engine.forwarding.nodes import Homes
from core.engine.quorum.groups import QuorumGroups

ADDRESS = "10.0.0.2:5672"


class Entry:
    """Node a beside node b."""

    def __init__(self) -> None:
        self.now = 100.0
        self.count = 0
        self.connected: list[str] = []
        self.hurried: list[str] = []
        self.let_go: list[str] = []
        self.beats = Beats("a", ("a", "b"))
        member = SimpleNamespace(beats=self.beats, home=lambda group: None, tell_that_it_leads=lambda *, wanted: None)
        hosts = SimpleNamespace(default=SimpleNamespace(virtual_host="/"), all=[])
        groups = QuorumGroups()
        groups.all = {}
        self.homes = QueueHomes(Homes("a", nodes={}), hosts, groups, member, self._node_at, self.hurried.append)

    def _node_at(self, name, address):
        return SimpleNamespace(
            stay_connected=lambda host: self.connected.append(f"{name} at {address} for {host}"),
            let_go=lambda: self.let_go.append(address),
        )

    def look(self, life="one", *, address=ADDRESS, beats=True):
        """See the beat of node b; ``beats``: another one than before."""
        self.now += LOOK_S
        self.count += beats
        self.beats.looked({"b": Beat(self.count, life, (address,))}, self.now)
        self.homes.follow(self.now)


def test_a_node_that_is_here_is_connected_to_once():
    entry = Entry()
    entry.homes.follow(entry.now)
    for _ in range(3):
        entry.look()
    assert entry.connected == [f"b at {ADDRESS} for /"]


def test_a_node_that_is_started_again_is_tried_at_once_also_at_another_address():
    entry = Entry()
    entry.look("one")
    entry.look("two", address="10.0.0.3:5672")
    assert entry.connected == [f"b at {ADDRESS} for /", "b at 10.0.0.3:5672 for /"]
    assert entry.hurried == ["b", "b"]
    assert entry.let_go == [ADDRESS]


def test_a_node_that_has_left_is_let_go():
    entry = Entry()
    entry.look()
    entry.beats.follow(["a"])
    for _ in range(2):
        entry.look()
    assert entry.let_go == [ADDRESS]
    assert not entry.homes.refused("b", "10.0.0.2", 5672, entry.now)


def test_a_node_whose_beats_come_again_is_tried_at_once():
    entry = Entry()
    entry.look()
    until = entry.now + AWAY_S
    while entry.now <= until:
        entry.look(beats=False)
    assert entry.hurried == ["b"]
    entry.look()
    assert entry.hurried == ["b", "b"]


def test_only_the_address_that_a_node_has_now_says_something_of_it():
    entry = Entry()
    assert not entry.homes.refused("b", "10.0.0.2", 5672, entry.now)
    entry.look()
    assert not entry.homes.refused("b", "10.0.0.9", 5672, entry.now)
    assert not entry.homes.refused("b", "10.0.0.2", 5673, entry.now)
    assert entry.beats.is_here("b")
    assert entry.homes.refused("b", "10.0.0.2", 5672, entry.now)
    assert not entry.beats.is_here("b")
