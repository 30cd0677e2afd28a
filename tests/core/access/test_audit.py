"""The audit log without a disk: what is recorded, what is left out, and how much it can hold."""

import json

import pytest

from core.access.audit import TEXT_MAX, WINDOWS_MAX, AuditLog, encode_record
from core.access.checked_engine import CheckedEngine
from core.access.login import LoginPeer
from core.access.mechanisms import Amqplain, AnonymousMechanism, ExternalMechanism, PlainMechanism, Scram
from core.access.rights import FULL, Rights, all_rights, no_rights
from core.access.tokens import RECORDED_MAX, RECORDED_SECONDS
from core.config.audit import AuditSettings
from core.errors import EngineError, Forbidden, Inequivalent, NotFound
from core.interface import ExchangeDeclaration, QueueDeclaration, QueueTarget
from core.slices import run_at_once
from tests.kit.audited import Audited
from tests.kit.engine import binding, make_broker
from tests.kit.logins import Held, from_here, make_access, user
from tests.kit.tokens import NOW, Clocks, make_token, token_access

HOSTILE = "x\n\x1b[2J\u202e\ud800\"}\r{'" + "y" * 1000
"""A line break, an escape sequence, a change of direction, half a character, and what ends a text of JSON."""


def settings(**fields: object) -> AuditSettings:
    return AuditSettings.model_validate(fields)


def plain(access, audited: Audited, name: str, password: str) -> str:
    peer = from_here(host="192.0.2.7", loopback=False, audit=audited.peer())
    return PlainMechanism(access, peer).start().respond(f"\0{name}\0{password}".encode())[0]


# --- logins ----------------------------------------------------------------------------------------------------------


def test_logins_are_recorded_with_mechanism_result_and_reason():
    audited = Audited()
    access = make_access(user("alice", "wonderland"), audit=audited.log)
    for name, password in (("alice", "wonderland"), ("alice", "wrong"), ("bob", "wonderland"), ("", "")):
        plain(access, audited, name, password)
    records = audited.taken()
    assert [(one["action"], one["result"], one["user"], one.get("reason")) for one in records] == [
        ("login", "done", "alice", None),
        ("login", "refused", "alice", "wrong credentials"),
        ("login", "refused", "bob", "unknown user"),
        ("login", "refused", "", "no user"),
    ]
    assert records[0] == {
        "time": "2023-11-14T22:13:20.000Z",
        "event": "logins",
        "action": "login",
        "result": "done",
        "user": "alice",
        "peer": "192.0.2.7:40000",
        "protocol": "test",
        "connection": "c1",
        "mechanism": "PLAIN",
    }
    assert "wonderland" not in json.dumps(records)


def test_the_last_records_stay_for_operators_after_they_were_written():
    audited = Audited(AuditSettings(recent_max=2))
    for name in ("ann", "ben", "cleo"):
        audited.log.put("logins", "login", "done", user=name, peer="192.0.2.7:1", details={})
    assert len(audited.taken()) == 3
    assert [row["user"] for row in audited.log.recent.newest(10)] == ["cleo", "ben"]


def test_a_login_that_is_put_off_is_recorded():
    audited = Audited()
    access = make_access(user("alice", "a"), audit=audited.log, failed_logins_per_user_and_address=1)
    plain(access, audited, "alice", "wrong")
    plain(access, audited, "alice", "a")
    assert [one["reason"] for one in audited.taken()] == ["wrong credentials", "user-and-address"]
    waiting = make_access(user("alice", "a"), submit=Held(most=0).submit, audit=audited.log)
    plain(waiting, audited, "alice", "a")
    (record,) = audited.taken()
    assert (record["result"], record["reason"]) == ("put-off", "hashes-waiting")


def test_every_mechanism_records_its_logins():
    audited = Audited()
    access = make_access(audit=audited.log)
    here = from_here(audit=audited.peer())
    AnonymousMechanism(access, here).start().respond(b"")
    AnonymousMechanism(access, from_here(loopback=False, audit=audited.peer())).start().respond(b"")
    Amqplain(access, here).start().respond(b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest")
    Scram(access, here, "sha256").start().respond(b"no message of SCRAM")
    access = make_access(user("alice", "a"), audit=audited.log)
    with_certificate = LoginPeer("192.0.2.7", False, lambda: None, "alice", audit=audited.peer())
    ExternalMechanism(access, with_certificate).start().respond(b"")
    ExternalMechanism(access, with_certificate).start().respond(b"bob")
    assert [(one["mechanism"], one["result"], one["user"]) for one in audited.taken()] == [
        ("ANONYMOUS", "done", "guest"),
        ("ANONYMOUS", "refused", ""),
        ("AMQPLAIN", "done", "guest"),
        ("SCRAM-SHA-256", "refused", ""),
        ("EXTERNAL", "done", "alice"),
        ("EXTERNAL", "refused", "alice"),
    ]


def test_a_client_that_shows_its_password_with_each_request_logs_in_once():
    audited = Audited()
    access = make_access(user("alice", "a"), audit=audited.log)
    peer = LoginPeer("192.0.2.7", False, lambda: None, audit=audited.peer(), asks_often=True)
    for password in ("a", "a", "a", "wrong"):
        PlainMechanism(access, peer).start().respond(f"\0alice\0{password}".encode())
    assert audited.told() == [("login", "done", "alice"), ("login", "refused", "alice")]


def test_a_client_that_shows_its_token_with_each_request_logs_in_once_in_a_while():
    audited, clocks = Audited(), Clocks()
    access = token_access(clocks=clocks)
    access.audit = audited.log

    def show(token: str, host: str = "192.0.2.7", *, often: bool = True) -> None:
        peer = LoginPeer(host, False, lambda: None, audit=audited.peer(), asks_often=often)
        PlainMechanism(access, peer).start().respond(f"\0any\0{token}".encode())

    one, other, expired = make_token(), make_token(jti="other"), make_token(exp=NOW - 1)
    for token in (one, one, other, one, expired, expired, other):
        show(token)
    done, refused = ("login", "done", "alice"), ("login", "refused", "")
    assert audited.told() == [done, done, refused, refused]
    show(one, "192.0.2.8")
    assert audited.told() == [done], "from another host"
    show(one, often=False)
    assert audited.told() == [done], "a connection is a login, whatever was shown before"
    clocks.advance(RECORDED_SECONDS)
    show(one)
    show(one)
    assert audited.told() == [done]


def test_the_tokens_that_are_remembered_for_the_audit_log_are_bounded_and_outlive_no_jump_of_the_clock():
    clocks = Clocks()
    tokens = token_access(clocks=clocks).tokens
    assert all(tokens.is_new(f"token {number}", "host") for number in range(RECORDED_MAX + 1))
    assert not tokens.is_new("token 1", "host")
    assert tokens.is_new("token 0", "host"), "the oldest made room"
    clocks.wall -= 86_400.0
    assert tokens.is_new("token 1", "host")


def test_a_mechanism_that_is_not_offered_is_recorded_and_counts_as_no_failure():
    audited = Audited()
    access = make_access(user("alice", "a"), audit=audited.log, failed_logins_per_user_and_address=1)
    elsewhere = from_here(loopback=False, audit=audited.peer())
    for name in ("PLAIN", "GSSAPI", HOSTILE):
        access.not_offered(elsewhere, name)
    access.not_offered(from_here(audit=audited.peer()), "PLAIN")
    access.not_offered(from_here(), "PLAIN")
    records = audited.taken()
    assert [one["reason"] for one in records] == ["without TLS", "not offered", "not offered", "not offered"]
    assert {(one["action"], one["result"], one["user"]) for one in records} == {("login", "refused", "")}
    assert len(records[2]["mechanism"]) == TEXT_MAX + 1
    plain(access, audited, "alice", "a")
    assert audited.told() == [("login", "done", "alice")]


# --- rights and changes ----------------------------------------------------------------------------------------------


def engine_of(audited: Audited, rights: Rights | None = None) -> CheckedEngine:
    return CheckedEngine(make_broker("q"), rights or all_rights("alice"), audited.peer())


def test_changes_are_recorded_and_what_changes_nothing_is_not():
    audited = Audited()
    engine = engine_of(audited)
    declaration = QueueDeclaration(name="new", arguments={"x-max-length": 5})
    engine.declare_queue(declaration, "me")
    engine.declare_queue(declaration, "me")
    engine.begin_declaring(declaration, "me")
    engine.declare_exchange(ExchangeDeclaration(name="x", arguments={}))
    engine.declare_exchange(ExchangeDeclaration(name="x", arguments={}))
    engine.bind(binding("x", "new", "k"), "me")
    engine.unbind(binding("x", "new", "k"), "me")
    run_at_once(engine.purge_queue("new", "me"))
    engine.delete_exchange("x")
    engine.begin_deleting("new", "me")
    engine.delete_queue("q", "me")
    engine.declare_dynamic_queue("amq.dyn-1", "me")
    engine.declare_dynamic_queue("amq.rabbitmq.reply-to.1", "me")
    records = audited.taken()
    assert [(one["action"], one["kind"], one["name"]) for one in records] == [
        ("queues.declare", "queue", "new"),
        ("exchanges.declare", "exchange", "x"),
        ("bindings.bind", "queue", "new"),
        ("bindings.unbind", "queue", "new"),
        ("queues.purge", "queue", "new"),
        ("exchanges.delete", "exchange", "x"),
        ("queues.delete", "queue", "new"),
        ("queues.delete", "queue", "q"),
        ("queues.declare", "queue", "amq.dyn-1"),
    ]
    assert {one["result"] for one in records} == {"done"}
    assert (records[0]["vhost"], records[0]["arguments"]) == ("/", '{"x-max-length": 5}')
    assert (records[2]["source"], records[2]["binding_key"]) == ("x", "k")


def test_a_change_that_fails_is_recorded_with_its_reason():
    audited = Audited()
    engine = engine_of(audited)
    with pytest.raises(Inequivalent):
        engine.declare_queue(QueueDeclaration(name="q", durable=False, arguments={}), "me")
    with pytest.raises(NotFound):
        engine.purge_queue("none", "me")
    with pytest.raises(EngineError):
        engine.bind(binding("none", "q"), "me")
    assert audited.told() == [
        (action, "failed", "alice") for action in ("queues.declare", "queues.purge", "bindings.bind")
    ]


def test_a_change_that_is_recorded_on_disk_later_is_told_when_it_is_there():
    audited = Audited()
    broker = make_broker()
    engine = CheckedEngine(broker, all_rights("alice"), audited.peer())
    recording = engine.begin_declaring(QueueDeclaration(name="late", arguments={}), "me")
    before = audited.told()
    while not recording.done:
        broker.turn(audited.now)
    assert before + audited.told() == [("queues.declare", "done", "alice")]


def test_refused_rights_are_recorded_with_what_was_missing():
    audited = Audited()
    engine = engine_of(audited, Rights("bob", None))
    for act in (
        lambda: engine.check_source("q"),
        lambda: engine.check_target(QueueTarget("q")),
        lambda: engine.declare_queue(QueueDeclaration(name="new", arguments={}), "me"),
    ):
        with pytest.raises(Forbidden):
            act()
    assert engine.refusal() is not None
    records = audited.taken()
    assert [(one["event"], one["action"], one["result"], one.get("name")) for one in records] == [
        ("refusals", "read", "refused", "q"),
        ("refusals", "write", "refused", None),
        ("refusals", "configure", "refused", "new"),
        ("refusals", "connect", "refused", None),
    ]
    assert records[0]["reason"] == "read access to queue 'q' in vhost '/' refused for user 'bob'"


def test_without_an_audit_log_an_engine_records_nothing_and_works():
    engine = CheckedEngine(make_broker("q"), no_rights("bob"))
    with pytest.raises(Forbidden):
        engine.check_source("q")
    engine.rights = all_rights("alice")
    assert run_at_once(engine.purge_queue("q", "me")) == 0
    assert engine.begin_deleting("q", "me").result() == 0


# --- what a peer can do to the log -----------------------------------------------------------------------------------


def test_hostile_texts_are_escaped_and_cut():
    audited = Audited()
    engine = engine_of(audited, Rights(HOSTILE, FULL))
    engine.declare_queue(QueueDeclaration(name="n" * 255, arguments={}), "me")
    audited.peer().record("refusals", HOSTILE, "refused", HOSTILE, {"name": HOSTILE, "arguments": {HOSTILE: [HOSTILE]}})
    lines = [encode_record(record) for record in audited.log.take(10)]
    for line in lines:
        assert line.isascii()
        assert line.count(b"\n") == 1
        assert all(byte >= 0x20 for byte in line[:-1])
    record = json.loads(lines[1])
    for value in (record["user"], record["action"], record["name"], record["arguments"]):
        assert len(value) == TEXT_MAX + 1
        assert value.endswith("…")
    assert record["name"] == HOSTILE[:TEXT_MAX] + "…"


def test_keys_and_values_that_are_no_json_do_no_harm():
    audited = Audited()
    audited.peer().record("definitions", "a", "done", "u", {"arguments": {b"key": 1, "bytes": b"\xff", "none": None}})
    (record,) = audited.taken()
    assert record["arguments"] == '{"bytes": "<bytes>", "none": null}'


def test_a_flood_of_refused_acts_costs_a_counter_and_is_told_as_a_number():
    audited = Audited(settings(refused_per_second_max=20))
    engine = engine_of(audited, no_rights("bob"))
    for _ in range(100_000):
        with pytest.raises(Forbidden):
            engine.check_source("q")
    assert audited.log.waiting == 20
    assert audited.log.left_out == 99_980
    audited.log.end_windows()
    assert audited.log.waiting == 20, "the second is not over"
    audited.pass_time(1.0)
    audited.log.end_windows()
    assert not audited.log.is_counting
    last = audited.taken()[-1]
    assert (last["action"], last["count"], last["of"]) == ("left-out", 99_980, "refusals")
    assert (last["user"], last["peer"]) == ("bob", "192.0.2.7")


def test_the_next_refused_act_ends_the_second_before():
    audited = Audited(settings(refused_per_second_max=1))
    for _ in range(3):
        audited.peer().record("refusals", "read", "refused", "bob", {})
    audited.pass_time(2.0)
    audited.peer().record("refusals", "read", "refused", "bob", {})
    assert [one["action"] for one in audited.taken()] == ["read", "left-out", "read"]


def test_a_flood_of_one_user_hides_no_other_user_and_no_login():
    audited = Audited(settings(refused_per_second_max=1))
    for _ in range(10):
        audited.peer().record("refusals", "read", "refused", "bob", {})
        audited.peer().record("definitions", "queues.declare", "done", "bob", {})
    audited.peer().record("refusals", "read", "refused", "alice", {})
    audited.peer().record("logins", "login", "refused", "bob", {})
    told = audited.told()
    assert told.count(("queues.declare", "done", "bob")) == 10, "what was done is never left out"
    assert ("read", "refused", "alice") in told
    assert ("login", "refused", "bob") in told


def test_guessed_names_count_together_for_one_address():
    audited = Audited(settings(refused_per_second_max=5))
    for number in range(WINDOWS_MAX * 2):
        audited.peer().record("logins", "login", "refused", f"guess-{number}", {})
    assert audited.log.waiting == 5


def test_the_table_of_users_and_addresses_is_bounded_and_loses_no_count():
    audited = Audited(settings(refused_per_second_max=1))
    for number in range(WINDOWS_MAX + 7):
        for _ in range(3):
            audited.peer().record("refusals", "read", "refused", f"user-{number}", {})
    audited.log.end_windows(at_once=True)
    left_out = [one["count"] for one in audited.taken() if one["action"] == "left-out"]
    assert sum(left_out) == audited.log.left_out == 2 * (WINDOWS_MAX + 7)


def test_a_full_queue_counts_what_is_lost_and_a_later_record_tells_it():
    audited = Audited(settings(waiting_max=10))
    for number in range(25):
        audited.peer().record("definitions", f"act-{number}", "done", "alice", {})
    assert (audited.log.waiting, audited.log.lost, audited.log.recorded) == (10, 15, 10)
    taken = audited.log.take(6)
    assert [record["action"] for record in taken] == [f"act-{number}" for number in range(6)]
    assert [one["action"] for one in audited.taken()] == ["act-6", "act-7", "act-8", "act-9", "lost"]
    assert audited.taken() == []


def test_only_the_events_of_the_settings_are_recorded():
    audited = Audited(settings(events=["logins"]))
    audited.peer().record("definitions", "queues.declare", "done", "alice", {})
    audited.peer().record("refusals", "read", "refused", "alice", {})
    audited.peer().record("logins", "login", "done", "alice", {})
    audited.log.tell("started")
    assert [one["action"] for one in audited.taken()] == ["login", "started"]
    assert not audited.log.is_counting


def test_the_log_says_when_there_is_something_to_take():
    audited = Audited()
    woken: list[AuditLog] = []
    audited.log.wake = lambda: woken.append(audited.log)
    audited.peer().record("logins", "login", "done", "alice", {})
    assert woken == [audited.log]
