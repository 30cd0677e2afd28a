"""Which members keep the groups that not every node keeps: as many as wanted, spread, and as few changes as needed."""

from collections import Counter

import pytest

from core.cluster.member_list import ListedMember, MemberList, MemberState
from core.cluster.placement import placed
from core.engine.quorum.group_numbers import GroupNumbers

NUMBERS = GroupNumbers(16)
OF_THREE, OF_FIVE = NUMBERS.of_size(3), NUMBERS.of_size(5)


def first(names: str) -> MemberList:
    return placed(MemberList.first(names, [], []), NUMBERS)


def kept(listed: MemberList) -> Counter[str]:
    return Counter(name for members in listed.groups.values() for name in members)


@pytest.mark.parametrize("nodes", range(1, 8))
def test_each_group_has_its_size_and_nodes_keep_and_should_lead_equally_many(nodes: int):
    listed = first("abcdefg"[:nodes])
    sizes = {number: len(set(members)) for number, members in listed.groups.items()}
    wanted = {number: size for size in (3, 5) if nodes > size for number in NUMBERS.of_size(size)}
    assert sizes == wanted
    keeps = kept(listed)
    assert not wanted or (set(keeps) == set(listed.names) and max(keeps.values()) - min(keeps.values()) <= 1)
    leads = Counter(members[0] for members in listed.groups.values())
    assert not wanted or max(leads.values()) - min(leads.get(name, 0) for name in listed.names) <= 2


def test_the_same_list_has_the_same_members_and_a_list_with_them_stays_as_it_is():
    listed = first("abcde")
    assert listed == first("abcde")
    assert placed(listed, NUMBERS) == listed
    assert MemberList.decoded(listed.encoded()) == listed


@pytest.mark.parametrize("gone", "abcde")
def test_when_a_node_has_gone_others_take_over_its_places_and_no_more(gone: str):
    before = first("abcde")
    after = placed(before.without(gone), NUMBERS)
    for number in OF_THREE:
        staying = set(before.groups[number]) - {gone}
        assert staying <= set(after.groups[number]), "no member moves without a reason"
        assert len(after.groups[number]) == 3
    keeps = kept(after)
    assert max(keeps.values()) - min(keeps.values()) <= 2, "all others take over something"


def test_a_group_is_smaller_where_there_are_too_few_nodes_and_gets_the_next_one():
    listed = first("abcd")
    for gone in ("a", "b"):
        listed = placed(listed.without(gone), NUMBERS)
    assert {frozenset(members) for members in listed.groups.values()} == {frozenset("cd")}
    joining = placed(listed.joined_by(ListedMember("e")), NUMBERS)
    assert joining.groups == listed.groups, "it has no copies yet"
    member = placed(joining.with_state("e", MemberState.MEMBER), NUMBERS)
    assert {frozenset(members) for members in member.groups.values()} == {frozenset("cde")}


def test_a_node_that_leaves_stays_until_it_has_left_and_gets_nothing_new():
    leaving = first("abcde").with_state("a", MemberState.LEAVING)
    assert placed(leaving, NUMBERS).groups == leaving.groups
    keeps_before, after = kept(leaving)["a"], placed(leaving.without("b"), NUMBERS)
    assert kept(after)["a"] == keeps_before
    assert {len(members) for members in after.groups.values()} == {3}


def test_the_groups_of_a_size_are_used_once_there_are_more_members():
    assert set(first("abcdef").groups) == {*OF_THREE, *OF_FIVE}
    assert set(first("abcde").groups) == set(OF_THREE)
    assert not first("abc").groups
    assert not placed(MemberList.first("abc", [], []).joined_by(ListedMember("d")), NUMBERS).groups


def test_a_list_of_an_earlier_version_has_no_members_of_groups():
    listed = first("abcde")._replace(groups={})
    assert placed(listed, NUMBERS) == first("abcde")
    assert MemberList.decoded(b"\x83\x01\x80\x80") == MemberList(1, ())


@pytest.mark.parametrize("groups", [b"\x01", b"\xa1\x61a\x80", b"\xa1\x01\x01"])
def test_damaged_members_of_groups_are_no_list(groups: bytes):
    assert MemberList.decoded(b"\x84\x01\x80\x80" + groups) is None
