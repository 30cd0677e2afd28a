"""Each mechanism against a real client of it, and against everything that is not one."""

import itertools
from collections.abc import Callable

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.access.exchange import FAILURE, Reply, SaslMechanism
from core.access.mechanisms import Anonymous, Plain, ScramSha256, offered
from core.access.passwords import hash_password
from core.access.users import Users
from core.config.access import UserSettings

SALT = b"salt for the tests"
ALICE = UserSettings(name="alice", scram=hash_password("wonderland", salt=SALT))


def counting_bytes() -> Callable[[int], bytes]:
    """Bytes that differ from call to call and not from run to run."""
    numbers = itertools.count()
    return lambda length: next(numbers).to_bytes(length)


def make_users(*configured: UserSettings) -> Users:
    return Users(configured, cache_seconds=10.0, monotonic=lambda: 0.0, random_bytes=counting_bytes())


USERS = make_users(ALICE)
GUEST_ONLY = make_users()


def plain(users: Users, response: bytes, *, loopback: bool = True) -> Reply:
    return Plain(users, loopback).start().respond(response)


def scram(users: Users, name: str, password: str, *, loopback: bool = True) -> tuple[Reply, scramp.ScramClient]:
    """The whole exchange with scramp's client, up to the last reply."""
    exchange = ScramSha256(users, loopback, counting_bytes()).start()
    client = scramp.ScramClient(["SCRAM-SHA-256"], name, password)
    step, data = exchange.respond(client.get_client_first().encode())
    assert step == "challenge"
    client.set_server_first(data.decode())
    step, data = exchange.respond(client.get_client_final().encode())
    if step != "challenge":
        return (step, data), client
    client.set_server_final(data.decode())
    return exchange.respond(b""), client


def test_plain_lets_in_who_knows_the_password():
    assert plain(USERS, b"\0alice\0wonderland") == ("success", b"alice")
    assert plain(USERS, b"alice\0alice\0wonderland") == ("success", b"alice")


@pytest.mark.parametrize(
    "response",
    [
        b"\0alice\0Wonderland",
        b"\0alice\0",
        b"\0bob\0wonderland",
        b"\0\0",
        b"bob\0alice\0wonderland",
        b"alice\0wonderland",
        b"\0alice\0wonderland\0",
        b"\0alice\0\xff",
        b"\0alice\0bad\x07",
        b"\0" + b"a" * 256 + b"\0wonderland",
        b"\0alice\0" + b"w" * 1025,
    ],
)
def test_plain_refuses_everybody_else_without_saying_why(response: bytes):
    assert plain(USERS, response) == FAILURE


@pytest.mark.parametrize("mechanism", [Plain(USERS, True), ScramSha256(USERS, True, counting_bytes())])
def test_a_missing_initial_response_is_asked_for_once(mechanism: SaslMechanism):
    exchange = mechanism.start()
    assert exchange.respond(b"") == ("challenge", b"")
    assert exchange.respond(b"") == FAILURE


def test_plain_goes_on_after_being_asked():
    exchange = Plain(USERS, True).start()
    exchange.respond(b"")
    assert exchange.respond(b"\0alice\0wonderland") == ("success", b"alice")


def test_scram_lets_in_who_knows_the_password_and_proves_itself():
    reply, _ = scram(USERS, "alice", "wonderland")
    assert reply == ("success", b"alice")


@pytest.mark.parametrize(("name", "password"), [("alice", "Wonderland"), ("bob", "wonderland")])
def test_scram_refuses_a_wrong_password_and_an_unknown_name_alike(name: str, password: str):
    reply, _ = scram(USERS, name, password)
    assert reply == FAILURE


def test_scram_shows_an_unknown_name_a_salt_that_stays_the_same():
    def challenge(name: str) -> list[str]:
        first = f"n,,n={name},r=abcdefgh".encode()
        _, data = ScramSha256(USERS, True, counting_bytes()).start().respond(first)
        return data.decode().split(",")[1:]

    assert challenge("bob") == challenge("bob")
    assert challenge("bob") != challenge("carol")
    assert challenge("bob")[1] == challenge("alice")[1] == "i=4096"


@pytest.mark.parametrize("last", [b"x", b"\0"])
def test_scram_ends_with_an_empty_response_only(last: bytes):
    exchange = ScramSha256(USERS, True, counting_bytes()).start()
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "wonderland")
    client.set_server_first(exchange.respond(client.get_client_first().encode())[1].decode())
    assert exchange.respond(client.get_client_final().encode())[0] == "challenge"
    assert exchange.respond(last) == FAILURE


@settings(max_examples=300, deadline=None)
@given(
    responses=st.lists(
        st.one_of(
            st.binary(max_size=64),
            st.text("abnry=,0123456789/+p", max_size=40).map(str.encode),
            st.just(b"n,,n=alice,r=abcdefgh"),
            st.just(b"c=biws,r=abcdefgh000000000000000000000000000000000001,p=AAAA"),
        ),
        max_size=3,
    )
)
def test_scram_answers_anything_and_lets_in_nobody_by_luck(responses: list[bytes]):
    exchange = ScramSha256(USERS, True, counting_bytes()).start()
    for response in responses:
        step, _ = exchange.respond(response)
        assert step != "success"
        if step == "failure":
            break


def test_without_users_guest_may_connect_from_this_machine_only():
    assert plain(GUEST_ONLY, b"\0guest\0guest", loopback=True) == ("success", b"guest")
    assert plain(GUEST_ONLY, b"\0guest\0guest", loopback=False) == FAILURE
    assert scram(GUEST_ONLY, "guest", "guest", loopback=True)[0] == ("success", b"guest")
    assert scram(GUEST_ONLY, "guest", "guest", loopback=False)[0] == FAILURE


def test_with_users_there_is_no_guest():
    assert plain(USERS, b"\0guest\0guest") == FAILURE


def anonymous(users: Users, *, loopback: bool, allowed: bool) -> Reply:
    return Anonymous(users, loopback, allowed).start().respond(b"trace\xff")


def offered_names(users: Users, *, loopback: bool, allowed: bool) -> list[str]:
    mechanisms = offered(users, loopback=loopback, anonymous=allowed, random_bytes=counting_bytes())
    return [mechanism.name for mechanism in mechanisms]


ANONYMOUS_CASES = pytest.mark.parametrize(
    ("users", "loopback", "allowed", "identity"),
    [
        (GUEST_ONLY, True, False, "guest"),
        (GUEST_ONLY, True, True, "guest"),
        (GUEST_ONLY, False, False, None),
        (GUEST_ONLY, False, True, "anonymous"),
        (USERS, True, False, None),
        (USERS, True, True, "anonymous"),
        (USERS, False, True, "anonymous"),
    ],
)


@ANONYMOUS_CASES
def test_anonymous_is_guest_on_this_machine_while_there_is_no_other_user(
    users: Users, loopback: bool, allowed: bool, identity: str | None
):
    expected = FAILURE if identity is None else ("success", identity.encode())
    assert anonymous(users, loopback=loopback, allowed=allowed) == expected


@ANONYMOUS_CASES
def test_anonymous_is_offered_where_it_lets_in(users: Users, loopback: bool, allowed: bool, identity: str | None):
    names = ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]
    assert offered_names(users, loopback=loopback, allowed=allowed) == names[: 2 if identity is None else 3]


def test_guest_goes_when_a_user_comes_and_comes_back_when_the_last_one_goes():
    users = make_users()
    begun = Anonymous(users, True, False).start()
    assert users.names == ["guest"]
    users.replace([ALICE])
    assert users.names == ["alice"]
    assert begun.respond(b"") == FAILURE, "offered before the user came"
    assert plain(users, b"\0guest\0guest") == FAILURE
    assert plain(users, b"\0alice\0wonderland") == ("success", b"alice")
    assert "ANONYMOUS" not in offered_names(users, loopback=True, allowed=False)
    users.replace([])
    assert plain(users, b"\0alice\0wonderland") == FAILURE, "also with a password that was right a moment ago"
    assert plain(users, b"\0guest\0guest") == ("success", b"guest")
    assert anonymous(users, loopback=True, allowed=False) == ("success", b"guest")
