"""Who of the nodes is away, and who should claim a group."""

import cbor2
import pytest

from core.cluster.beats import AWAY_S, LOOK_S, TURN_S, Beat, Beats, Progress, node_number

NODES = ("a", "b", "c")


class Cluster:
    """The beats as node b sees them, in a time that the test passes."""

    def __init__(self, node="b"):
        self.now = 100.0
        self.beats = Beats(node, NODES)
        self._counts = dict.fromkeys(NODES, 1)

    def look(self, beating=NODES, seconds=LOOK_S):
        self.now += seconds
        for name in beating:
            self._counts[name] += 1
        self.beats.looked({name: Beat(count, "life") for name, count in self._counts.items()}, self.now)

    def should_claim(self, group, owner):
        return self.beats.should_claim(group, node_number(owner) if owner else 0, self.now)


def test_a_node_whose_beat_stays_the_same_is_away():
    cluster = Cluster()
    cluster.look()
    until = cluster.now + AWAY_S
    while cluster.now < until - LOOK_S:
        assert cluster.beats.is_here("a")
        cluster.look(("b", "c"))
    cluster.look(("b", "c"))
    assert not cluster.beats.is_here("a")
    assert cluster.beats.is_here("c")
    cluster.look()
    assert cluster.beats.is_here("a")


def test_the_time_without_the_engine_does_not_count():
    cluster = Cluster()
    cluster.look()
    cluster.look(("b",), seconds=60.0)
    assert cluster.beats.is_here("a")
    for _ in range(int(AWAY_S / LOOK_S)):
        cluster.look(("b",))
    assert not cluster.beats.is_here("a")


def test_a_node_that_never_had_a_beat_is_away_but_oneself_is_not():
    beats = Beats("b", NODES)
    beats.looked({}, 1.0)
    assert not beats.is_here("a")
    assert beats.is_here("b")


def test_a_group_is_claimed_in_the_order_of_its_members():
    cluster = Cluster()
    group = 3  # its order is a, b, c
    assert cluster.beats.order(group) == ["a", "b", "c"]
    assert not cluster.should_claim(group, ""), "no look yet: nothing is known"
    cluster.look()
    assert not cluster.should_claim(group, ""), "a comes first"
    until = cluster.now + TURN_S
    while cluster.now < until:
        cluster.look()
    assert cluster.should_claim(group, ""), "a does not"


def test_the_group_of_a_node_that_is_here_is_left_alone():
    cluster = Cluster()
    cluster.look()
    for _ in range(20):
        cluster.look()
        assert not cluster.should_claim(3, "c")
    while cluster.beats.is_here("c"):
        cluster.look(("a", "b"))
    assert not cluster.should_claim(3, "c"), "a comes first"
    assert cluster.should_claim(1, "c"), "b comes first in group 1"


def test_a_group_that_this_node_had_in_a_former_life_is_claimed_again():
    cluster = Cluster()
    cluster.look()
    assert cluster.should_claim(1, "b")


def test_a_node_that_is_no_member_any_more_counts_as_away():
    cluster = Cluster()
    cluster.look()
    assert cluster.beats.should_claim(1, node_number("gone"), cluster.now)


def test_what_is_cut_is_what_all_members_have():
    beats = Beats("a", NODES)
    beats.looked({"a": Beat(1, "x", synced={1: 7}, applied={1: 9}), "b": Beat(1, "y", synced={1: 5})}, 1.0)
    assert beats.synced(1) == {node_number("a"): 7, node_number("b"): 5, node_number("c"): 0}
    assert beats.furthest(1) == 9
    assert beats.furthest(2) == 0


def test_a_beat_comes_back_as_it_was_put():
    beat = Beat(3, "life", ["h:1"], "1.0", {1: 2}, {1: 3}, {2: "why"}, listed=8, tls_addresses=("h:2",))
    assert Beat.decoded(beat.encoded()) == beat


def test_a_beat_says_how_far_its_node_is():
    beat = Beat(
        3, "life", ["h:1"], listed=8, progress=Progress(3, 16, 13 << 20, 8.2, ("copies", "the vote of its etcd"))
    )
    assert Beat.decoded(beat.encoded()) == beat


def test_a_beat_of_a_node_that_copies_nothing_is_that_of_an_earlier_version():
    value = cbor2.loads(Beat(3, "life", listed=8).encoded())
    assert value == [3, "life", [], "", {}, {}, {}, {}, {}, False, "", 8, []]
    copying = cbor2.loads(Beat(3, "life", listed=8, progress=Progress(0, 1, 0, 0.0, ())).encoded())
    assert copying[:-1] == value, "earlier versions read what is before, and nothing behind it"


@pytest.mark.parametrize("more", [(None,), ([1, 2, 30, 4.5, [], "newer"], "newer")])
def test_a_beat_of_a_later_version_is_read_as_far_as_it_is_known(more):
    data = cbor2.dumps([3, "life", [], "", {}, {}, {}, {}, {}, False, "", 8, [], *more])
    progress = Progress(1, 2, 30, 4.5, ()) if more[0] else None
    assert Beat.decoded(data) == Beat(3, "life", [], listed=8, progress=progress)


BAD_PROGRESS = [
    7, "12345", b"12345", {}, [], [1, 2, 30, 4.5], [3, 2, 30, 4.5, []], [-1, 2, 30, 4.5, []], [1, 2, -30, 4.5, []],
    [1, 2, 30, -4.5, []], [1, 2, 30, float("inf"), []], [1, 2, 30, float("nan"), []], ["1", 2, 30, 4.5, []],
    [1, 2, 30.5, 4.5, []], [1, 2, 30, 4.5, "copies"], [1, 2, 30, 4.5, None],
]  # fmt: skip


@pytest.mark.parametrize("value", BAD_PROGRESS, ids=repr)
def test_a_node_whose_progress_makes_no_sense_is_here_all_the_same(value):
    data = cbor2.dumps([3, "life", [], "", {}, {}, {}, {}, {}, False, "", 8, [], value])
    assert Beat.decoded(data) == Beat(3, "life", [], listed=8)


def test_a_count_without_an_end_is_no_beat():
    assert Beat.decoded(cbor2.dumps([float("inf"), "life", [], "", {}, {}, {}])) is None


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x80", b"\x01", b"\x87aaaaaaa"])
def test_a_value_that_is_no_beat_is_none(data):
    assert Beat.decoded(data) is None


def test_clients_are_told_of_the_other_nodes_that_are_here_the_one_behind_this_first():
    beats = Beats("b", (*NODES, "d", "e", "f"))
    beats.follow(beats.members, joining={"d"})
    of_a = Beat(1, "life", ["a:1"], tls_addresses=["a:2"])
    shown = {"a": of_a, "b": Beat(1, "life", ["b:1"]), "c": Beat(1, "life", ["c:1"]), "d": Beat(1, "life", ["d:1"])}
    beats.looked(shown | {"e": Beat(1, "life", ["e:1"], set_aside=True)}, 1.0)
    assert beats.of_clients(False) == [["c:1"], ["a:1"]], "not one that joins, is in maintenance, or never had a beat"
    assert beats.of_clients(True) == [(), ["a:2"]]
    assert (beats.addresses_of("c", False), beats.addresses_of("a", True)) == (["c:1"], ["a:2"])
    assert [beats.addresses_of(name, False) for name in ("nobody", "")] == [(), ()]
    beats.refused("c", 1.1)
    assert beats.of_clients(False) == [["a:1"]]
    assert beats.addresses_of("c", False) == ()


def test_a_group_whose_owner_says_that_it_cannot_keep_it_is_claimed():
    beats = Beats("b", NODES)
    stuck = Beat(1, "life", problems={4: "it is damaged"})
    beats.looked({"a": stuck, "b": Beat(1, "life"), "c": Beat(1, "life", applied={4: 9})}, 1.0)
    assert not beats.should_claim(3, node_number("a"), 1.0)
    claims = [beats.should_claim(4, node_number("a"), now) for now in (1.0, 1.0 + 2 * TURN_S)]
    assert claims[-1]
    assert not beats.should_claim(4, node_number("c"), 9.0)
    assert beats.copying(4) == {node_number("a")}
    assert beats.sources(4) == ["c"], "not the one that has the problem, nor itself"


def test_how_long_a_node_is_away():
    cluster = Cluster()
    cluster.look()
    for _ in range(8):
        cluster.look(("b", "c"))
    assert cluster.beats.away_s("a") == pytest.approx(8 * LOOK_S)
    assert cluster.beats.away_s("c") == 0


# --- addresses that refuse


def test_a_node_whose_address_refuses_is_away_at_once_and_its_group_is_claimed():
    cluster = Cluster()
    cluster.look()
    assert not cluster.should_claim(1, "c")
    assert cluster.beats.refused("c", cluster.now + 0.01)
    assert not cluster.beats.is_here("c")
    assert cluster.should_claim(1, "c"), "b comes first in group 1"
    cluster.look(("a", "b"))
    assert not cluster.beats.is_here("c")
    assert not cluster.beats.refused("c", cluster.now), "that is known"


def test_a_beat_that_a_node_has_put_before_it_refused_does_not_count():
    cluster = Cluster()
    cluster.look()
    cluster.beats.refused("c", cluster.now + LOOK_S / 2)
    cluster.look(NODES)
    cluster.look(("a", "b"))
    assert not cluster.beats.is_here("c")


def test_a_look_that_was_sent_before_the_refusal_does_not_decide():
    cluster = Cluster()
    cluster.look()
    cluster.beats.refused("c", cluster.now + 2.5 * LOOK_S)
    for _ in range(3):
        cluster.look()
        assert not cluster.beats.is_here("c")


def test_a_node_whose_beats_go_on_after_a_refusal_is_here_and_refusals_of_that_life_count_no_more():
    cluster = Cluster()
    cluster.look()
    cluster.beats.refused("c", cluster.now)
    cluster.look()
    assert not cluster.beats.is_here("c")
    cluster.look()
    assert cluster.beats.is_here("c")
    assert not cluster.beats.refused("c", cluster.now)
    assert cluster.beats.is_here("c")
    until = cluster.now + AWAY_S
    while cluster.now < until:
        cluster.look(("a", "b"))
    assert not cluster.beats.is_here("c"), "its beats end all the same"


def test_a_node_that_is_started_again_is_here_with_its_first_beat():
    cluster = Cluster()
    cluster.look()
    cluster.beats.refused("c", cluster.now)
    cluster.beats.looked({"c": Beat(1, "another life")}, cluster.now + LOOK_S)
    assert cluster.beats.is_here("c")
    assert cluster.beats.refused("c", cluster.now + LOOK_S), "the new life was not disproved"


def test_a_refusal_says_nothing_of_a_node_without_a_beat_or_that_is_away_already_or_is_this_one():
    cluster = Cluster()
    assert not cluster.beats.refused("c", cluster.now)
    cluster.look()
    until = cluster.now + AWAY_S
    while cluster.now <= until:
        cluster.look(("a", "b"))
    assert not cluster.beats.refused("c", cluster.now)
    assert not cluster.beats.refused("b", cluster.now)
    assert cluster.beats.is_here("b")


def test_a_beat_from_before_a_change_of_the_members_says_nothing_of_groups_on_some_nodes():
    beats, everywhere, of_some = Beats("b", NODES), 1, 9

    def follow(listed: int) -> None:
        beats.follow(NODES, (), {of_some: NODES}, listed)

    follow(4)
    said = {name: Beat(1, "life", synced={everywhere: 7, of_some: 7}, listed=4) for name in NODES}
    said["c"].listed = 3
    beats.looked(said, 100.0)
    assert beats.up_to_date(of_some, 7) == {"a", "b"}
    assert beats.up_to_date(everywhere, 7) == {"a", "b", "c"}
    assert beats.synced(of_some)[node_number("c")] == 0
    assert beats.synced(everywhere)[node_number("c")] == 7
    follow(5)
    assert beats.up_to_date(of_some, 7) == set()
