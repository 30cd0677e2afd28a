"""Logins with a token: by PLAIN and AMQPLAIN, what waits, what is told, and the renewal of a token."""

import json

import pytest
from structlog.testing import LogCapture

from core.access.exchange import FAILURE, LATER, WAIT, Reply
from core.access.login import Access, LoginPeer
from core.access.mechanisms import Amqplain, PlainMechanism
from core.access.token_keys import read_keys
from tests.kit.audited import Audited
from tests.kit.logins import Held, from_here, user
from tests.kit.tokens import NOW, Clocks, ec_key, key_set, log_in, make_token, oauth2, token_access

URL = oauth2(jwks_file=None, jwks_url="https://login.example.org/keys")


def plain(access: Access, token: str, name: str = "any", peer: LoginPeer | None = None) -> Reply:
    return PlainMechanism(access, peer or from_here()).start().respond(f"\0{name}\0{token}".encode())


def test_plain_and_amqplain_take_a_token_as_the_password_with_any_name():
    access = token_access()
    assert plain(access, make_token()) == ("success", b"alice")
    token = make_token().encode()
    fields = b"\x05LOGINS" + (0).to_bytes(4) + b"\x08PASSWORDS" + len(token).to_bytes(4) + token
    peer = from_here()
    assert Amqplain(access, peer).start().respond(fields) == ("success", b"alice")
    assert access.rights_of(peer, "alice").may("read", "q")
    assert access.tokens.outcomes["accepted"] == 2


def test_a_users_password_goes_on_to_work_and_has_that_users_rights():
    access = token_access(users=(user("alice", "wonderland"),))
    peer = from_here()
    assert plain(access, "wonderland", "alice", peer) == ("success", b"alice")
    assert access.rights_of(peer, "alice") is access.users.rights_of("alice")
    assert plain(access, make_token(scope=""), "alice", peer) == ("success", b"alice")
    assert not access.rights_of(peer, "alice").welcome, "those of the token, not those of the user with its name"


def test_two_tokens_of_one_user_have_rights_of_their_own():
    access = token_access()
    one, two = (log_in(access, make_token(scope=f"broker.read:*/{name}")) for name in "ab")
    assert access.rights_of(one, "alice").may("read", "a")
    assert not access.rights_of(two, "alice").may("read", "a")


def test_with_a_user_name_in_the_settings_only_that_one_takes_tokens():
    access = token_access(settings=oauth2(user_name="oauth"), users=(user("alice", "wonderland"),))
    assert plain(access, make_token(), "oauth") == ("success", b"alice")
    assert plain(access, make_token(), "alice") == FAILURE
    assert plain(access, "wonderland", "alice") == ("success", b"alice")


def test_without_settings_a_token_is_a_wrong_password():
    access = token_access()
    access.tokens = None
    assert plain(access, make_token()) == FAILURE


@pytest.mark.parametrize("length", [16_385, 2**20])
def test_a_token_that_is_too_long_and_a_password_that_is(length: int):
    log = LogCapture()
    access = token_access(log=log)
    assert plain(access, "ey" + "A" * length + "..") == FAILURE
    assert (log.entries[-1]["event"], log.entries[-1]["reason"]) == ("token-refused", "too-long")
    assert plain(access, "A" * length) == FAILURE
    assert log.entries[-1]["event"] == "login-failed"


def test_a_refused_token_is_logged_with_the_reason_and_without_the_token():
    log = LogCapture()
    access = token_access(log=log)
    token = make_token(exp=NOW - 1)
    assert plain(access, token) == FAILURE
    (entry,) = log.entries
    assert (entry["reason"], entry["log_level"], entry["mechanism"]) == ("expired", "warning", "PLAIN")
    assert "exp is 1699999999" in entry["text"]
    assert not any(part in str(log.entries) for part in token.split("."))
    assert access.tokens.outcomes["expired"] == 1


def test_refused_tokens_do_not_lock_out_others():
    access = token_access()
    for _ in range(500):
        assert plain(access, make_token(exp=NOW - 1)) == FAILURE
    assert plain(access, make_token()) == ("success", b"alice")


def test_the_signature_is_checked_in_a_thread():
    held, woken = Held(), []
    access = token_access(submit=held.submit)
    peer = from_here(wake=lambda: woken.append(1))
    exchange = PlainMechanism(access, peer).start()
    assert exchange.respond(b"\0x\0" + make_token().encode()) == WAIT
    assert not woken
    held.run()
    assert woken
    assert exchange.respond(b"") == ("success", b"alice")
    assert exchange.check.token == "", "the connection may live for long"


def test_when_no_thread_is_free_the_login_is_put_off():
    access = token_access(submit=Held(most=0).submit)
    assert plain(access, make_token()) == LATER
    held = Held()
    access = token_access(submit=held.submit)
    exchange = PlainMechanism(access, from_here()).start()
    exchange.respond(b"\0x\0" + make_token().encode())
    held.checks[0].give_up("waited-too-long")
    assert exchange.respond(b"") == LATER


def test_a_token_with_an_unknown_key_waits_for_one_fetch():
    clocks, wanted, woken = Clocks(), [], []
    access = token_access(settings=URL, clocks=clocks)
    access.tokens.keys.fetches_wanted = lambda: wanted.append(1)
    new = ec_key("new")
    exchanges = [PlainMechanism(access, from_here(wake=lambda: woken.append(1))).start() for _ in range(3)]
    for exchange in exchanges:
        assert exchange.respond(b"\0x\0" + make_token(new).encode()) == WAIT
    assert plain(access, make_token()) == ("success", b"alice"), "those with a key that is known do not wait"
    access.tokens.keys.fetched(read_keys(key_set(ec_key(), new)))
    assert [exchange.respond(b"") for exchange in exchanges] == [("success", b"alice")] * 3
    assert (wanted, len(woken) >= 3) == ([1], True)
    assert plain(access, make_token(ec_key("newer"))) == FAILURE, "not again so soon"
    clocks.advance(30.0)
    assert plain(access, make_token(ec_key("newer"))) == WAIT
    assert len(wanted) == 2


def test_a_key_that_the_fetch_has_not_brought_is_a_failure_and_no_keys_at_all_are_not():
    access = token_access(settings=URL)
    exchange = PlainMechanism(access, from_here()).start()
    assert exchange.respond(b"\0x\0" + make_token(ec_key("new")).encode()) == WAIT
    access.tokens.keys.failed()
    assert exchange.respond(b"") == FAILURE
    assert access.tokens.outcomes["key"] == 1
    access = token_access(settings=URL, keys=b"")
    exchange = PlainMechanism(access, from_here()).start()
    assert exchange.respond(b"\0x\0" + make_token().encode()) == WAIT
    access.tokens.keys.failed()
    assert exchange.respond(b"") == LATER
    assert plain(access, make_token()) == LATER


def test_tokens_that_are_not_accepted_any_more():
    access, held = token_access(), Held()
    peer = log_in(access, make_token())
    rights = access.rights_of(peer, "alice")
    access.submit = held.submit
    exchange = PlainMechanism(access, from_here()).start()
    exchange.respond(b"\0x\0" + make_token().encode())
    access.tokens.replace(oauth2(algorithms=["RS256"]))
    held.run()
    assert exchange.respond(b"") == FAILURE
    access.tokens.replace(type(oauth2())())
    assert plain(access, make_token()) == WAIT, "a wrong password, which is hashed"
    assert rights.renewed(make_token().encode()).reply == FAILURE
    assert access.tokens.outcomes["off"] == 1


# --- renewal ---------------------------------------------------------------------------------------------------------


def test_a_new_token_changes_the_rights_in_place_and_their_end():
    access = token_access()
    rights = access.rights_of(log_in(access, make_token(scope="broker.read:*/a")), "alice")
    answer = rights.renewed(make_token(scope="broker.read:*/b", exp=NOW + 7200).encode())
    assert answer.reply == ("success", b"alice")
    assert (rights.may("read", "a"), rights.may("read", "b")) == (False, True)
    assert rights.expires_at == NOW + 7200


@pytest.mark.parametrize(
    ("claims", "words"),
    [({"sub": "bob"}, "of 'bob', not of 'alice'"), ({"exp": NOW - 9}, "expired 9 s ago"), ({"aud": "x"}, "aud")],
)
def test_a_new_token_that_is_refused_leaves_the_old_one(claims: dict[str, object], words: str):
    access = token_access()
    rights = access.rights_of(log_in(access, make_token()), "alice")
    answer = rights.renewed(make_token(**claims).encode())
    assert answer.reply == FAILURE
    assert words in answer.why
    assert rights.may("read", "a")
    assert rights.expires_at == NOW + 3600
    for nonsense in (b"", b"\xff\xfe\x00", b"ey" * 2**20):
        assert rights.renewed(nonsense).reply == FAILURE


# --- the audit log ---------------------------------------------------------------------------------------------------


def test_logins_and_renewals_are_recorded_without_the_token():
    audited, access = Audited(), token_access()
    peer = from_here(audit=audited.peer())
    tokens = [make_token(), make_token(aud="x"), make_token(exp=NOW + 7200), make_token(sub="bob")]
    for token in tokens[:2]:
        PlainMechanism(access, peer).start().respond(b"\0any\0" + token.encode())
    rights = access.rights_of(peer, "alice")
    for token in tokens[2:]:
        rights.renewed(token.encode())
    access.submit = Held(most=0).submit
    PlainMechanism(access, peer).start().respond(b"\0any\0" + tokens[0].encode())
    records = audited.taken()
    assert [(one["mechanism"], one["result"], one["user"]) for one in records] == [
        ("PLAIN", "done", "alice"),
        ("PLAIN", "refused", ""),
        ("renewal", "done", "alice"),
        ("renewal", "refused", "alice"),
        ("PLAIN", "put-off", ""),
    ]
    assert "without oauth2.resource_server_id" in records[1]["reason"]
    assert "of 'bob', not of 'alice'" in records[3]["reason"]
    assert not [part for token in tokens for part in token.split(".") if part in json.dumps(records)]
