"""Planned moves of leaders: who hands over to whom, and who may claim."""

import pytest

from core.cluster.beats import Beat, Beats
from core.cluster.moves import GIVE_UP_S, Moves
from core.errors import PreconditionFailed

MEMBERS = ("a", "b", "c")


def seen(node: str = "a", **beats: Beat) -> Moves:
    """The moves of a node that has just seen these beats."""
    found = Beats(node, MEMBERS)
    found.looked(beats, 10.0)
    return Moves(node, found)


def beat(**facts: object) -> Beat:
    return Beat(1, "life", **facts)


def test_without_a_wish_a_leader_keeps_what_it_leads():
    assert seen(b=beat(), c=beat()).target(1) is None


def test_a_node_that_is_set_aside_hands_each_group_to_the_next_in_its_order_and_claims_nothing():
    moves = seen(b=beat(), c=beat())
    moves.maintenance = True
    assert [moves.target(group) for group in (0, 1, 2)] == ["b", "b", "c"]
    assert not moves.may_claim(1, 10.0)


def test_nobody_hands_over_to_a_node_that_is_away_or_set_aside():
    moves = seen(b=beat(set_aside=True))
    moves.maintenance = True
    moves.wishes = {1: "c", 2: "b"}
    assert moves.target(1) is None
    assert moves.target(2) is None
    assert moves.may_claim(1, 10.0), "better this node than none"


def test_a_wish_names_the_next_leader():
    moves = seen(b=beat(), c=beat())
    moves.wishes = {1: "c", 2: "a"}
    assert moves.target(1) == "c"
    assert moves.target(2) is None


def test_the_named_node_claims_and_the_old_leader_waits_for_that_but_not_for_ever():
    old = seen(b=beat(), c=beat())
    old.begin(1, "b", 10.0)
    assert not old.may_claim(1, 10.0 + GIVE_UP_S - 0.1)
    assert old.may_claim(1, 10.0 + GIVE_UP_S)
    old.ended(1)
    assert old.may_claim(1, 10.0)
    asked = seen("b", a=beat(hands={1: "b"}), c=beat())
    assert asked.is_asked(1, "a")
    assert not asked.is_asked(2, "a")
    assert not asked.is_asked(1, "c")


def test_maintenance_is_refused_where_a_group_would_lose_its_majority():
    seen(b=beat(), c=beat()).check_majorities([1, 2])
    with pytest.raises(PreconditionFailed, match=r"group 1 would have 1 of 3 copies without node a.*or use --force"):
        seen(b=beat()).check_majorities([1])
    with pytest.raises(PreconditionFailed, match="group 2 would have 1 of 3"):
        seen(b=beat(), c=beat(problems={2: "it needs a copy"})).check_majorities([1, 2])


def test_the_preferred_leader_is_the_first_of_the_order_that_can_lead():
    moves = seen(b=beat(), c=beat())
    assert [moves.preferred(group) for group in (0, 1, 2)] == ["a", "b", "c"]
    moves.maintenance = True
    assert moves.preferred(0) == "b"


def test_what_a_beat_says_of_leaders_is_read_again_and_older_beats_say_nothing_of_it():
    one = beat(addresses=["a:1"], leads={1: 7}, hands={2: "b"}, set_aside=True)
    assert Beat.decoded(one.encoded()) == one


def test_a_group_moves_from_its_hand_over_until_it_is_led_or_for_three_seconds():
    old, other = seen(b=beat(), c=beat()), seen("c", a=beat(hands={1: "b"}), b=beat())
    assert not old.is_moving(1, "a", led=True, now=10.0)
    old.begin(1, "b", 10.0)
    for moves in (old, other):
        assert moves.is_moving(1, "a", led=False, now=10.0)
        assert not moves.is_moving(2, "a", led=False, now=10.0)
        assert moves.is_moving(1, "b", led=False, now=10.2), "the next owner has not said that it leads"
        assert not moves.is_moving(1, "b", led=False, now=10.0 + GIVE_UP_S), "it does not lead"
        assert not moves.is_moving(1, "b", led=True, now=10.3)
    assert not other.is_moving(1, "b", led=False, now=10.4)
