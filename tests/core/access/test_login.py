"""Passwords that are hashed elsewhere: logins wait for the hash, some are decided without it, and keys are derived
anew."""

import pytest
from structlog.testing import LogCapture

from core.access.exchange import FAILURE, LATER, WAIT, Reply, SaslExchange
from core.access.login import Access
from core.access.mechanisms import PlainMechanism
from core.access.passwords import hash_password
from core.config.access import ScramKeys
from tests.kit.logins import Held, from_here, make_access, user

ALICE = user("alice", "wonderland")
RIGHT, WRONG = b"\0alice\0wonderland", b"\0alice\0nonsense"
LET_IN: Reply = ("success", b"alice")


def begin(access: Access, response: bytes, host: str = "192.0.2.1") -> tuple[SaslExchange, Reply]:
    exchange = PlainMechanism(access, from_here(host=host, loopback=False)).start()
    return exchange, exchange.respond(response)


def test_the_answer_waits_for_the_hash_and_the_peer_is_woken_with_it():
    held, woken = Held(), []
    access = make_access(ALICE, submit=held.submit)
    exchange = PlainMechanism(access, from_here(wake=lambda: woken.append("woken"))).start()
    assert exchange.respond(RIGHT) == exchange.respond(b"") == WAIT
    assert woken == []
    held.run()
    assert woken == ["woken"]
    assert exchange.respond(b"") == LET_IN


def test_a_password_that_was_right_needs_no_hash_and_a_wrong_one_does():
    held = Held()
    access = make_access(ALICE, submit=held.submit)
    begin(access, RIGHT)
    held.run()
    assert begin(access, RIGHT)[1] == LET_IN
    exchange, reply = begin(access, WRONG)
    assert reply == WAIT
    held.run()
    assert exchange.respond(b"") == FAILURE


def test_of_many_that_wait_with_the_same_password_one_is_hashed():
    held = Held()
    access = make_access(ALICE, submit=held.submit)
    exchanges = [begin(access, RIGHT)[0] for _ in range(100)]
    first, *others = held.checks
    work = first.begin()
    assert work is not None
    first.finish(work())
    assert [check.begin() for check in others] == [None] * 99
    assert {exchange.respond(b"") for exchange in exchanges} == {LET_IN}


def test_of_many_that_guess_at_once_no_more_are_hashed_than_may_fail():
    held, log = Held(), LogCapture()
    access = make_access(ALICE, submit=held.submit, log=log)
    exchanges = [begin(access, WRONG)[0] for _ in range(500)]
    assert held.run() == 500
    answers = [exchange.respond(b"") for exchange in exchanges]
    assert (answers.count(FAILURE), answers.count(LATER)) == (20, 480)
    assert begin(access, RIGHT)[1] == LATER, "also with the right password: else it could be guessed"
    assert begin(access, RIGHT, host="192.0.2.2")[1] == WAIT
    events = [entry["event"] for entry in log.entries]
    assert (events.count("login-failed"), events.count("login-put-off")) == (20, 481)


def test_a_remembered_password_is_no_way_around_the_limit():
    access = make_access(ALICE)
    assert begin(access, RIGHT)[1] == LET_IN
    for _ in range(20):
        assert begin(access, WRONG)[1] == FAILURE
    assert begin(access, RIGHT)[1] == LATER


def test_when_too_many_wait_the_next_one_is_put_off():
    held, log = Held(most=2), LogCapture()
    access = make_access(ALICE, submit=held.submit, log=log)
    assert [begin(access, RIGHT)[1] for _ in range(3)] == [WAIT, WAIT, LATER]
    assert log.entries[-1]["reason"] == "hashes-waiting"
    held.run()
    assert begin(access, RIGHT)[1] == LET_IN


def test_a_password_that_was_changed_during_the_hash_is_hashed_again():
    held = Held()
    access = make_access(ALICE, submit=held.submit)
    exchange, _ = begin(access, RIGHT)
    (check,) = held.checks
    held.checks.clear()
    work = check.begin()
    assert work is not None
    access.users.replace([user("alice", "another")])
    check.finish(work())
    assert exchange.respond(b"") == WAIT
    assert held.run() == 1
    assert exchange.respond(b"") == FAILURE


def test_a_user_that_goes_during_the_hash_is_not_let_in():
    held = Held()
    access = make_access(ALICE, user("bob", "x"), submit=held.submit)
    exchange, _ = begin(access, RIGHT)
    (check,) = held.checks
    work = check.begin()
    assert work is not None
    access.users.replace([user("bob", "x")])
    check.finish(work())
    held.run()
    assert exchange.respond(b"") == FAILURE


# --- keys that are derived anew --------------------------------------------------------------------------------------


def test_old_keys_are_made_anew_by_a_login_that_proves_the_password():
    kept: list[tuple[ScramKeys, ScramKeys]] = []
    log = LogCapture()
    access = make_access(ALICE, iterations=5000, keep=lambda old, new: kept.append((old, new)), log=log)
    assert begin(access, WRONG)[1] == FAILURE
    assert begin(access, b"\0bob\0wonderland")[1] == FAILURE
    assert kept == []
    assert begin(access, RIGHT)[1] == LET_IN
    ((old, new),) = kept
    assert old == ALICE.scram
    assert access.users.keys("alice", loopback=False) == new
    assert new == hash_password("wonderland", salt=new.salt, iterations=5000)
    assert new.salt != old.salt
    assert log.entries[-1]["event"] == "password-hash-upgraded"
    assert begin(access, RIGHT)[1] == LET_IN
    assert begin(access, WRONG)[1] == FAILURE
    assert len(kept) == 1, "new keys are not made anew"


def test_keys_of_sha256_are_made_anew_where_sha512_is_wished_and_never_the_other_way():
    access = make_access(ALICE, password_hash="sha512")
    assert begin(access, RIGHT)[1] == LET_IN
    new = access.users.keys("alice", loopback=False)
    assert new == hash_password("wonderland", salt=new.salt, iterations=4096, hash_name="sha512")
    assert access.users.hashes == ("sha512",)
    kept: list[ScramKeys] = []
    other = make_access(ALICE.model_copy(update={"scram": new}), keep=lambda old, new: kept.append(new))
    assert begin(other, RIGHT)[1] == LET_IN
    assert kept == []
    access = make_access(ALICE.model_copy(update={"scram": new}), iterations=5000, keep=lambda _, new: kept.append(new))
    assert begin(access, RIGHT)[1] == LET_IN
    assert [(one.hash, one.iterations) for one in kept] == [("sha512", 5000)]


def test_two_logins_at_once_make_new_keys_and_both_are_let_in():
    held = Held()
    access = make_access(ALICE, iterations=5000, submit=held.submit)
    first, second = begin(access, RIGHT)[0], begin(access, RIGHT)[0]
    checks = list(held.checks)
    held.checks.clear()
    works = [check.begin() for check in checks]
    for check, work in zip(checks, works, strict=True):
        assert work is not None
        check.finish(work())
    held.run()
    assert first.respond(b"") == second.respond(b"") == LET_IN


@pytest.mark.parametrize("problem", [PermissionError(13, "Permission denied"), ValueError("the line is not there")])
def test_a_client_with_the_password_is_let_in_also_when_new_keys_cannot_be_kept(problem: Exception):
    def keep(old: ScramKeys, new: ScramKeys) -> None:
        raise problem

    log = LogCapture()
    access = make_access(ALICE, iterations=5000, keep=keep, log=log)
    assert begin(access, RIGHT)[1] == LET_IN
    entry = log.entries[-1]
    assert (entry["event"], entry["user"], entry["reason"]) == ("password-hash-not-kept", "alice", str(problem))
    assert "hash-password" in entry["remedy"]


def test_guest_keeps_its_keys():
    access = make_access(iterations=5000)
    assert PlainMechanism(access, from_here()).start().respond(b"\0guest\0guest") == ("success", b"guest")
    assert access.users.keys("guest", loopback=True).iterations == 4096
