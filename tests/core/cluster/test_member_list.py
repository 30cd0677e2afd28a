"""The list of members: who may come in, who may go, and when a majority of copies stays."""

import pytest

from core.cluster.member_list import (
    GONE_MAX,
    MEMBERS_MAX,
    ListedMember,
    MemberList,
    MemberState,
    check_copies,
)
from core.errors import NotFound, PreconditionFailed

THREE = MemberList.first(["a", "b", "c"], ["h1:2379", "h2:2379", "h3:2379"], ["h1:2380", "h2:2380", "h3:2380"])
NEW = ListedMember("d", MemberState.MEMBER, "h4:2379", "h4:2380")


def test_a_list_is_read_as_it_was_written():
    listed = THREE.joined_by(NEW).without("b")
    assert MemberList.decoded(listed.encoded()) == listed
    assert (listed.version, listed.names, listed.counted) == (2, ["a", "c", "d"], ["a", "c"])
    assert [one.peer for one in listed.gone] == ["h2:2380"]


@pytest.mark.parametrize("value", [b"", b"\xff", b"\x01", b"\x83\x01\x81\x81\x61a\x80", b"\x83\x61a\x80\x80"])
def test_a_damaged_one_is_none(value: bytes):
    assert MemberList.decoded(value) is None


def test_a_node_joins_once_and_counts_later():
    joining = THREE.joined_by(NEW)
    assert (joining.named("d").state, joining.counted) == (MemberState.JOINING, ["a", "b", "c"])
    assert joining.with_state("d", MemberState.MEMBER).counted == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("listed", "new", "why"),
    [
        (THREE, NEW._replace(name="a"), "has a node 'a' already"),
        (THREE, NEW._replace(etcd="h1:2379"), "h1:2379 is the address of another node's etcd"),
        (THREE, ListedMember("d"), "two addresses of its etcd"),
        (THREE, NEW._replace(peer="h4:2379"), "two addresses of its etcd"),
        (MemberList.first(["a"], ["e:1"], []), NEW, "its operator runs it"),
        (THREE.joined_by(NEW), ListedMember("e", MemberState.MEMBER, "h5:1", "h5:2"), "node d still joins"),
        (MemberList.first("abcdefg", [], []), ListedMember("h"), f"at most {MEMBERS_MAX} nodes"),
    ],
)
def test_a_node_that_does_not_fit_is_refused(listed: MemberList, new: ListedMember, why: str):
    with pytest.raises(PreconditionFailed, match=why):
        listed.joined_by(new)


def test_an_unknown_node_and_the_last_one_do_not_leave():
    with pytest.raises(NotFound, match="no node 'x' in the cluster; its nodes are a, b, c"):
        THREE.without("x")
    alone = MemberList.first(["a"], [], [])
    with pytest.raises(PreconditionFailed, match="node a is the last one"):
        alone.without("a")
    with pytest.raises(PreconditionFailed, match="node a is the last one"):
        alone.joined_by(ListedMember("b")).without("a")


def test_a_node_that_comes_back_is_gone_no_more_and_the_list_of_those_has_an_end():
    listed = THREE.without("c")
    assert listed.joined_by(THREE.named("c")).gone == ()
    for _ in range(GONE_MAX + 5):
        listed = listed.joined_by(NEW._replace(peer=f"h{listed.version}:1")).without("d")
    assert len(listed.gone) == GONE_MAX


@pytest.mark.parametrize(
    ("remaining", "up_to_date", "missing"),
    [
        (["a", "b"], {"a", "b"}, ""),
        (["a", "b"], {"a", "c"}, "group 3 would have 1 of 2 .* wait for b,"),
        (["a", "b", "d"], {"a", "d"}, ""),
        (["a", "b", "d", "e"], {"a", "d"}, "2 of 4 .* a majority is 3; wait for b, e,"),
        (["a"], {"c"}, "0 of 1"),
    ],
)
def test_a_majority_of_copies_stays(remaining: list[str], up_to_date: set[str], missing: str):
    groups = {1: set("abcde"), 3: up_to_date}
    if not missing:
        check_copies("c", remaining, groups)
        return
    with pytest.raises(PreconditionFailed, match=missing):
        check_copies("c", remaining, groups)
