"""AMQPLAIN: the right table logs a client in, and no other bytes do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.access.exchange import FAILURE, Reply
from core.access.login import Access
from core.access.mechanisms import FIELDS_MAX, NAME_BYTES_MAX, PASSWORD_BYTES_MAX, Amqplain, long_strings
from tests.kit.logins import from_here, make_access, user

ALICE = user("älice", "wonderland")


def users() -> Access:
    """The user, without the failures of other tests, which would put off the next attempt."""
    return make_access(ALICE)


def field(name: str, value: bytes, kind: bytes = b"S") -> bytes:
    return bytes((len(name),)) + name.encode() + kind + len(value).to_bytes(4) + value


def login(name: str, password: bytes) -> bytes:
    return field("LOGIN", name.encode()) + field("PASSWORD", password)


def answer(response: bytes, access: Access | None = None, *, loopback: bool = True) -> Reply:
    return Amqplain(access or users(), from_here(loopback=loopback)).start().respond(response)


def test_the_right_password_lets_in_whatever_the_order():
    assert answer(login("älice", b"wonderland")) == ("success", "älice".encode())
    assert answer(field("PASSWORD", b"wonderland") + field("LOGIN", "älice".encode()))[0] == "success"


def test_other_fields_do_no_harm():
    assert answer(field("MORE", b"") + login("älice", b"wonderland"))[0] == "success"


def test_guest_is_for_loopback_peers():
    assert answer(login("guest", b"guest"), make_access()) == ("success", b"guest")
    assert answer(login("guest", b"guest"), make_access(), loopback=False) == FAILURE


@pytest.mark.parametrize(
    "response",
    [
        login("älice", b"Wonderland"),
        login("alice", b"wonderland"),
        login("", b""),
        login("älice", b"\xff"),
        field("LOGIN", b"\xff") + field("PASSWORD", b"wonderland"),
        field("LOGIN", "älice".encode()),
        field("PASSWORD", b"wonderland"),
        field("LOGIN", "älice".encode(), b"x") + field("PASSWORD", b"wonderland"),
        login("älice", b"wonderland") + field("LOGIN", b"other"),
        login("älice", b"wonderland") + b"\x00",
        login("älice", b"wonderland")[:-1],
        b"\x00" + login("älice", b"wonderland"),
        b"\0alice\0wonderland",
        login("a" * (NAME_BYTES_MAX + 1), b"wonderland"),
        login("älice", b"w" * (PASSWORD_BYTES_MAX + 1)),
    ],
)
def test_everything_else_fails_without_a_reason(response):
    assert answer(response) == FAILURE


def test_an_empty_response_is_challenged_once():
    exchange = Amqplain(users(), from_here()).start()
    assert exchange.respond(b"") == ("challenge", b"")
    assert exchange.respond(b"") == FAILURE


def test_a_table_with_too_many_fields_is_refused():
    fields = b"".join(field(f"F{number}", b"") for number in range(FIELDS_MAX))
    assert long_strings(fields) == {f"F{number}": b"" for number in range(FIELDS_MAX)}
    assert long_strings(fields + field("LAST", b"")) is None


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything(data):
    assert answer(data) in (FAILURE, ("challenge", b""))
    assert answer(field("LOGIN", data) + data) == FAILURE


NAMES = st.text(st.characters(codec="ascii"), max_size=20)


@given(st.dictionaries(NAMES, st.binary(max_size=50), max_size=FIELDS_MAX))
def test_long_strings_reads_what_it_understands(fields):
    assert long_strings(b"".join(field(name, value) for name, value in fields.items())) == fields
