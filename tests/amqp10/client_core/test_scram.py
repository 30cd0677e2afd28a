"""SCRAM against scramp's server, against the example of RFC 7677, and against servers that break the rules."""

import subprocess
import sys

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.client_core.scram import HASHES, ScramAttempt, ScramCredentials, ScramName

TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def attempt() -> ScramAttempt:
    """As in the example [RFC 7677 3]."""
    return ScramCredentials("user", "pencil", lambda: "rOprNGfwEbeRWgbNEkqO").start()


def test_the_example_of_the_rfc():
    client = attempt()
    assert client.initial_response() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.respond(SERVER_FINAL) == b""
    client.finish(b"")


def converse(identity: str, password: str, kept: str, name: ScramName = "SCRAM-SHA-256") -> ScramAttempt:
    """A whole conversation with scramp's server, which keeps the keys of the password ``kept``."""
    mechanism = scramp.ScramMechanism(name)
    keys = mechanism.make_auth_info(kept, salt=b"0123456789abcdef", iteration_count=4096)
    asked: list[str] = []
    server = mechanism.make_server(lambda user: asked.append(user) or keys)
    client = ScramCredentials(identity, password, lambda: "ours", name).start()
    server.set_client_first(client.initial_response().decode())
    assert asked == [identity]
    server.set_client_final(client.respond(server.get_server_first().encode()).decode())
    client.finish(server.get_server_final().encode())
    return client


@settings(max_examples=30)
@given(identity=TEXTS, password=TEXTS, name=st.sampled_from(sorted(HASHES)))
def test_a_right_password(identity: str, password: str, name: ScramName):
    converse(identity, password, password, name)


def test_a_password_that_saslprep_changes():
    converse("alice", "I\u00adX \u2168", "IX IX")


@pytest.mark.parametrize("name", HASHES)
def test_a_wrong_password(name: ScramName):
    with pytest.raises(scramp.ScramException):
        converse("alice", "guess", "secret", name)


@pytest.mark.parametrize(("identity", "password"), [("", "secret"), ("a\tb", "secret"), ("alice", "\u0627\u0031")])
def test_credentials_that_cannot_be_used(identity: str, password: str):
    with pytest.raises(ValueError, match="cannot be used with SCRAM"):
        ScramAttempt(identity, password, "ours")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b"e=unknown-user",
        b"m=ext," + SERVER_FIRST,
        SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        SERVER_FIRST.replace(b"s=W", b"s=!"),
        SERVER_FIRST.replace(b"4096", b"4095"),
        SERVER_FIRST.replace(b"4096", b"10000000"),
        SERVER_FIRST.replace(b"4096", b"-1"),
        SERVER_FIRST.replace(b"4096", "٤٠٩٦".encode()),
        SERVER_FIRST.replace(b",i=4096", b""),
    ],
)
def test_a_first_message_that_breaks_the_rules(message: bytes):
    with pytest.raises(ValueError, match="the server's SCRAM message is refused"):
        attempt().respond(message)


def test_extensions_behind_the_first_message_are_ignored():
    assert attempt().respond(SERVER_FIRST + b",x=1").startswith(b"c=biws,")


@pytest.mark.parametrize("message", [b"", b"e=invalid-proof", b"v=!", b"v=AAAA", SERVER_FINAL.replace(b"v=6", b"v=7")])
def test_a_server_that_does_not_prove_that_it_knows_the_password(message: bytes):
    for last in (ScramAttempt.respond, ScramAttempt.finish):
        client = attempt()
        client.respond(SERVER_FIRST)
        with pytest.raises(ValueError, match="the server's SCRAM message is refused"):
            last(client, message)


def test_a_success_too_early_and_a_message_too_many():
    with pytest.raises(ValueError, match="has proven nothing"):
        attempt().finish(SERVER_FINAL)
    client = attempt()
    client.respond(SERVER_FIRST)
    client.respond(SERVER_FINAL)
    with pytest.raises(ValueError, match="goes on after its last word"):
        client.respond(b"")


def test_scramp_is_not_imported_for_printable_ascii():
    program = (
        "import sys; from amqp10.client_core.scram import ScramAttempt; ScramAttempt('user', 'pencil', 'x');"
        "sys.exit('scramp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
