"""The members of etcd follow the list: one is taken in, gets its vote, is replaced, and goes."""

from collections.abc import Callable
from typing import Any

import pytest

from core.cluster.engine_members import FRESH_S, LOOK_S, SOON_S, EngineMember, EngineMembers, next_change
from core.cluster.etcd_messages import MESSAGES
from core.cluster.member_list import ListedMember, MemberList, MemberState
from core.errors import PreconditionFailed, StillGoing

THREE = MemberList.first(["a", "b", "c"], ["h1:1", "h2:1", "h3:1"], ["h1:2", "h2:2", "h3:2"])
THERE = [EngineMember(number, name, (f"h{number}:2",), False) for number, name in enumerate("abc", 1)]
FOUR = THREE.joined_by(ListedMember("d", MemberState.MEMBER, "h4:1", "h4:2"))


@pytest.mark.parametrize(
    ("listed", "there", "change"),
    [
        (THREE, THERE, None),
        (MemberList.first("abc", [], []), [], None),
        (THREE, [*THERE, EngineMember(9, "stranger", ("h9:2",), False)], None),
        (THREE, [THERE[0]._replace(peers=("moved:2",)), *THERE[1:]], None),
        (FOUR, THERE, ("Cluster/MemberAdd", ["h4:2"])),
        (FOUR, [*THERE, EngineMember(4, "", ("h4:2",), True)], ("Cluster/MemberPromote", 4)),
        (FOUR, [*THERE, EngineMember(4, "d", ("h4:2",), False)], None),
        (THREE.without("b"), THERE, ("Cluster/MemberRemove", 2)),
        (THREE.without("b"), [THERE[0], THERE[2]], None),
        (FOUR.without("d"), [*THERE, EngineMember(4, "", ("h4:2",), True)], ("Cluster/MemberRemove", 4)),
        (THREE, THERE[:2], ("Cluster/MemberAdd", ["h3:2"])),
    ],
)
def test_the_next_change(listed: MemberList, there: list[EngineMember], change: tuple[str, object] | None):
    found = next_change(listed, there)
    if change is None or found is None:
        assert found is change
        return
    method, message = found
    assert (method, list(message.peerURLs) if method == "Cluster/MemberAdd" else message.ID) == change


class ScriptedEtcd:
    """An etcd whose answers a test gives."""

    trouble = "h2:1: no majority"
    endpoints = ("h1:1", "h2:1", "h3:1")

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any, Callable[[Any], None], Callable[[], None], int | None]] = []

    def ask(self, method, request, answered, unanswered, *, timeout_s, member=None):
        self.asked.append((method, request, answered, unanswered, member))

    def answer(self, method: str, response: Any) -> None:
        asked, _, answered, unanswered, _ = self.asked.pop(0)
        assert asked == method
        if response is None:
            unanswered()
        else:
            answered(response)

    def list(self, *members: tuple[int, str, str]) -> None:
        rows = [MESSAGES["Member"](ID=number, name=name, peerURLs=[f"https://{at}"]) for number, name, at in members]
        self.answer("Cluster/MemberList", MESSAGES["MemberListResponse"](members=rows))


ROWS = (1, "a", "h1:2"), (2, "b", "h2:2"), (3, "c", "h3:2")


def made() -> tuple[EngineMembers, ScriptedEtcd, list[float]]:
    etcd, now = ScriptedEtcd(), [100.0]
    members = EngineMembers(etcd, lambda: now[0], scheme="https", log=lambda event, facts: None)  # type: ignore[arg-type]
    return members, etcd, now


def test_a_difference_is_seen_twice_with_the_same_list_before_anything_is_done():
    members, etcd, now = made()
    for listed in (FOUR, FOUR._replace(version=9)):
        members.step(listed, mends=True)
        etcd.list(*ROWS)
        assert etcd.asked == []
        now[0] += SOON_S
    members.step(FOUR._replace(version=9), mends=True)
    etcd.list(*ROWS)
    ((method, request, *_),) = etcd.asked
    assert (method, list(request.peerURLs), request.isLearner) == ("Cluster/MemberAdd", ["https://h4:2"], True)
    now[0] += SOON_S
    members.step(FOUR, mends=True)
    assert len(etcd.asked) == 1, "one change after another"


def test_a_node_that_does_not_mend_looks_at_nothing_and_one_whose_members_are_right_rarely():
    members, etcd, now = made()
    members.step(THREE, mends=False)
    assert etcd.asked == []
    members.step(THREE, mends=True)
    etcd.list(*ROWS)
    now[0] += LOOK_S - 0.1
    members.step(THREE, mends=True)
    assert etcd.asked == []


def replaced(members: EngineMembers, *, force: bool = False) -> str | None:
    """Why the etcd of node b is not replaced; None while that is under way."""
    try:
        members.replace(THREE.named("b"), force=force)
    except StillGoing:
        return None
    except PreconditionFailed as error:
        return str(error)
    return ""


def test_a_member_that_is_silent_is_removed_and_one_that_answers_is_not():
    members, etcd, _ = made()
    assert replaced(members) is None
    assert etcd.asked[0][4] == 1
    etcd.answer("Maintenance/Status", MESSAGES["StatusResponse"]())
    assert replaced(members) == "etcd of node b answers: it need not be replaced"
    assert replaced(members) is None
    assert replaced(members) is None
    etcd.answer("Maintenance/Status", None)
    etcd.list(*ROWS)
    assert etcd.asked[0][1].ID == 2
    etcd.answer("Cluster/MemberRemove", MESSAGES["MemberRemoveResponse"]())
    assert (replaced(members), etcd.asked) == ("", [])


def test_the_reason_of_etcd_is_said_and_one_that_is_removed_already_needs_nothing():
    members, etcd, _ = made()
    assert replaced(members, force=True) is None
    etcd.list(*ROWS)
    etcd.answer("Cluster/MemberRemove", None)
    assert replaced(members) == "etcd refuses: h2:1: no majority"
    assert replaced(members, force=True) is None
    etcd.list(ROWS[0], ROWS[2])
    assert replaced(members) == ""


def test_the_etcd_of_an_operator_is_not_replaced():
    members, _, _ = made()
    with pytest.raises(PreconditionFailed, match="run by its operator"):
        members.replace(ListedMember("b"), force=False)


def voting(members: EngineMembers, *names: str) -> str | None:
    """Why one of these nodes' etcds has no vote; None while etcd is asked."""
    try:
        members.check_votes(FOUR, names)
    except StillGoing:
        return None
    except PreconditionFailed as error:
        return str(error)
    return ""


def test_a_vote_is_one_that_etcd_has_just_spoken_of():
    members, etcd, now = made()
    assert voting(members, "a", "d") is None
    assert voting(members, "a", "d") is None
    etcd.list(*ROWS)
    assert voting(members, "a", "b") == ""
    assert "etcd of node d has no vote yet" in (voting(members, "a", "d") or "")
    now[0] += FRESH_S + 0.1
    assert voting(members, "a", "d") is None
    etcd.list(*ROWS, (4, "d", "h4:2"))
    assert (voting(members, "a", "d"), etcd.asked) == ("", [])


def test_without_an_answer_nobody_has_a_vote_and_with_an_etcd_of_the_operator_s_nobody_needs_one():
    members, etcd, _ = made()
    assert voting(members, "a") is None
    etcd.answer("Cluster/MemberList", None)
    assert "etcd of node a has no vote yet" in (voting(members, "a") or "")
    members.check_votes(MemberList.first("abc", [], []), "abc")
    assert etcd.asked == []
