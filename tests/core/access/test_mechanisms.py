"""Each mechanism against a real client of it, and against bytes that no client of it sends."""

import base64

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from core.access.exchange import FAILURE, LATER, Reply, SaslMechanism
from core.access.login import Access
from core.access.mechanisms import (
    AnonymousMechanism,
    PlainMechanism,
    Scram,
    offered,
    offered_on_091,
    withheld,
)
from core.config.access import SCRAM_MECHANISMS, HashName, UserSettings
from tests.kit.logins import from_here, make_access, user

ALICE = user("alice", "wonderland")
UNLIMITED = {
    "failed_logins_per_user_and_address": 1_000_000,
    "failed_logins_per_address": 1_000_000,
    "failed_logins_per_user": 1_000_000,
}
HATTER = user("hatter", "wonderland", hash_name="sha512", iterations=5000)
USERS = make_access(ALICE, **UNLIMITED)
BOTH = make_access(ALICE, HATTER, **UNLIMITED)
GUEST_ONLY = make_access()


def plain(access: Access, response: bytes, *, loopback: bool = True) -> Reply:
    return PlainMechanism(access, from_here(loopback=loopback)).start().respond(response)


def scram(
    access: Access, name: str, password: str, *, loopback: bool = True, hash_name: HashName = "sha256"
) -> tuple[Reply, scramp.ScramClient]:
    """The whole exchange with scramp's client, up to the last reply."""
    exchange = Scram(access, from_here(loopback=loopback), hash_name).start()
    client = scramp.ScramClient([SCRAM_MECHANISMS[hash_name]], name, password)
    step, data = exchange.respond(client.get_client_first().encode())
    assert step == "challenge"
    client.set_server_first(data.decode())
    step, data = exchange.respond(client.get_client_final().encode())
    if step != "challenge":
        return (step, data), client
    client.set_server_final(data.decode())
    return exchange.respond(b""), client


def test_plain_lets_in_a_client_with_the_password():
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
def test_plain_refuses_every_other_client_without_a_reason(response: bytes):
    assert plain(USERS, response) == FAILURE


@pytest.mark.parametrize("mechanism", [PlainMechanism(USERS, from_here()), Scram(USERS, from_here(), "sha256")])
def test_a_missing_initial_response_is_asked_for_once(mechanism: SaslMechanism):
    exchange = mechanism.start()
    assert exchange.respond(b"") == ("challenge", b"")
    assert exchange.respond(b"") == FAILURE


def test_plain_goes_on_after_being_asked():
    exchange = PlainMechanism(USERS, from_here()).start()
    exchange.respond(b"")
    assert exchange.respond(b"\0alice\0wonderland") == ("success", b"alice")


def test_scram_lets_in_a_client_with_the_password_and_proves_itself():
    reply, _ = scram(USERS, "alice", "wonderland")
    assert reply == ("success", b"alice")


@pytest.mark.parametrize(("name", "password"), [("alice", "Wonderland"), ("bob", "wonderland")])
def test_scram_refuses_a_wrong_password_and_an_unknown_name_alike(name: str, password: str):
    reply, _ = scram(USERS, name, password)
    assert reply == FAILURE


def test_scram_shows_an_unknown_name_a_salt_that_stays_the_same():
    def challenge(name: str) -> list[str]:
        first = f"n,,n={name},r=abcdefgh".encode()
        _, data = Scram(USERS, from_here(), "sha256").start().respond(first)
        return data.decode().split(",")[1:]

    assert challenge("bob") == challenge("bob")
    assert challenge("bob") != challenge("carol")
    assert challenge("bob")[1] == challenge("alice")[1] == "i=4096"


@pytest.mark.parametrize(("name", "hash_name"), [("alice", "sha256"), ("hatter", "sha512")])
def test_keys_let_in_with_their_hash_and_a_wrong_proof_with_none(name: str, hash_name: HashName):
    assert scram(BOTH, name, "wonderland", hash_name=hash_name)[0] == ("success", name.encode())
    assert scram(BOTH, name, "Wonderland", hash_name=hash_name)[0] == FAILURE
    assert plain(BOTH, f"\0{name}\0wonderland".encode()) == ("success", name.encode())


@pytest.mark.parametrize(("name", "hash_name"), [("alice", "sha512"), ("hatter", "sha256")])
def test_keys_of_the_other_hash_are_like_an_unknown_name(name: str, hash_name: HashName):
    assert scram(BOTH, name, "wonderland", hash_name=hash_name)[0] == FAILURE
    own, unknown = (BOTH.users.keys(one, loopback=True, hash_name=hash_name) for one in (name, "bob"))
    assert (own.hash, own.iterations) == (unknown.hash, unknown.iterations)
    assert [len(part) for part in (own.salt, own.stored_key, own.server_key)] == [
        len(part) for part in (unknown.salt, unknown.stored_key, unknown.server_key)
    ]


def test_the_salts_of_an_unknown_name_differ_by_mechanism_as_those_of_a_user_do():
    for name in ("alice", "hatter", "bob"):
        assert len({BOTH.users.keys(name, loopback=True, hash_name=one).salt for one in SCRAM_MECHANISMS}) == 2


@pytest.mark.parametrize("hash_name", SCRAM_MECHANISMS)
@pytest.mark.parametrize("first", [b"p=tls-exporter,,n=alice,r=abcdefgh", b"p=tls-unique,,n=alice,r=abcdefgh"])
def test_a_client_that_requires_channel_binding_is_refused(first: bytes, hash_name: HashName):
    assert Scram(BOTH, from_here(encrypted=True), hash_name).start().respond(first) == FAILURE


@pytest.mark.parametrize("binding", ["eSws", "cD10bHMtdW5pcXVlLCw=", "bixhPXgs"])
def test_a_last_message_with_another_channel_binding_than_the_first_is_refused(binding: str):
    """They say: the client could bind; it does; it acts for another user."""
    exchange = Scram(BOTH, from_here(), "sha512").start()
    client = scramp.ScramClient(["SCRAM-SHA-512"], "hatter", "wonderland")
    client.set_server_first(exchange.respond(client.get_client_first().encode())[1].decode())
    final = client.get_client_final()
    assert final.startswith("c=biws,")
    assert exchange.respond(final.replace("c=biws", f"c={binding}").encode()) == FAILURE


def test_a_proof_cut_to_the_length_of_the_other_hash_is_refused():
    exchange = Scram(BOTH, from_here(), "sha512").start()
    client = scramp.ScramClient(["SCRAM-SHA-512"], "hatter", "wonderland")
    client.set_server_first(exchange.respond(client.get_client_first().encode())[1].decode())
    start, _, proof = client.get_client_final().rpartition("p=")
    cut = base64.b64encode(base64.b64decode(proof)[:32]).decode()
    assert exchange.respond(f"{start}p={cut}".encode()) == FAILURE


@pytest.mark.parametrize("last", [b"x", b"\0"])
def test_scram_ends_with_an_empty_response_only(last: bytes):
    exchange = Scram(USERS, from_here(), "sha256").start()
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "wonderland")
    client.set_server_first(exchange.respond(client.get_client_first().encode())[1].decode())
    assert exchange.respond(client.get_client_final().encode())[0] == "challenge"
    assert exchange.respond(last) == FAILURE


def test_scram_goes_no_step_further_after_one_that_was_not_passed():
    access = make_access(ALICE, failed_logins_per_user_and_address=1)

    def answers() -> list[str]:
        exchange = Scram(access, from_here(), "sha256").start()
        return [exchange.respond(response)[0] for response in (b"n,,n=alice,r=abcdefgh", b"x", b"", b"")]

    assert answers() == ["challenge", "failure", "failure", "failure"]
    assert answers() == ["later", "failure", "failure", "failure"]


def test_a_proof_is_not_looked_at_when_others_have_failed_since_it_was_begun():
    access = make_access(ALICE, failed_logins_per_user_and_address=1)
    exchange = Scram(access, from_here(), "sha256").start()
    client = scramp.ScramClient(["SCRAM-SHA-256"], "alice", "wonderland")
    client.set_server_first(exchange.respond(client.get_client_first().encode())[1].decode())
    assert plain(access, b"\0alice\0guess") == FAILURE
    assert exchange.respond(client.get_client_final().encode()) == LATER


def test_a_response_that_is_too_long_to_be_one_is_not_looked_at():
    exchange = Scram(make_access(ALICE), from_here(), "sha256").start()
    assert exchange.respond(b"n,,n=alice,r=" + b"r" * 1300) == FAILURE


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
def test_scram_answers_any_bytes_and_lets_in_no_client_by_luck(responses: list[bytes]):
    exchange = Scram(USERS, from_here(), "sha256").start()
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


def anonymous(access: Access, *, loopback: bool) -> Reply:
    return AnonymousMechanism(access, from_here(loopback=loopback)).start().respond(b"trace\xff")


def offered_names(access: Access, *, loopback: bool) -> list[str]:
    return [mechanism.name for mechanism in offered(access, from_here(loopback=loopback))]


ANONYMOUS_CASES = pytest.mark.parametrize(
    ("users", "loopback", "allowed", "identity"),
    [
        ((), True, False, "guest"),
        ((), True, True, "guest"),
        ((), False, False, None),
        ((), False, True, "anonymous"),
        ((ALICE,), True, False, None),
        ((ALICE,), True, True, "anonymous"),
        ((ALICE,), False, True, "anonymous"),
    ],
)


@ANONYMOUS_CASES
def test_anonymous_is_guest_on_this_machine_while_there_is_no_other_user(
    users: tuple[UserSettings, ...], loopback: bool, allowed: bool, identity: str | None
):
    expected = FAILURE if identity is None else ("success", identity.encode())
    assert anonymous(make_access(*users, anonymous=allowed), loopback=loopback) == expected


@ANONYMOUS_CASES
def test_anonymous_is_offered_where_it_lets_in(
    users: tuple[UserSettings, ...], loopback: bool, allowed: bool, identity: str | None
):
    names = ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]
    access = make_access(*users, anonymous=allowed, plain_without_tls=True)
    assert offered_names(access, loopback=loopback) == names[: 2 if identity is None else 3]


def test_guest_goes_when_a_user_comes_and_comes_back_when_the_last_one_goes():
    access = make_access()
    begun = AnonymousMechanism(access, from_here()).start()
    assert access.users.names == ["guest"]
    access.users.replace([ALICE])
    assert access.users.names == ["alice"]
    assert begun.respond(b"") == FAILURE, "offered before the user came"
    assert plain(access, b"\0guest\0guest") == FAILURE
    assert plain(access, b"\0alice\0wonderland") == ("success", b"alice")
    assert "ANONYMOUS" not in offered_names(access, loopback=True)
    access.users.replace([])
    assert plain(access, b"\0alice\0wonderland") == FAILURE, "also with a password that was right a moment ago"
    assert plain(access, b"\0guest\0guest") == ("success", b"guest")
    assert anonymous(access, loopback=True) == ("success", b"guest")


def test_scram_is_offered_with_the_hash_that_all_users_have():
    names = offered_names(make_access(HATTER), loopback=True)
    assert names == ["SCRAM-SHA-512", "PLAIN"]
    assert offered_names(BOTH, loopback=True) == ["PLAIN"], "a client would choose one that its user's keys do not fit"
    assert offered_names(BOTH, loopback=False) == ["SCRAM-SHA-512", "SCRAM-SHA-256"], "there is nothing else"


PASSWORDS_091 = ["PLAIN", "AMQPLAIN"]


@pytest.mark.parametrize(
    ("where", "setting", "taken"),
    [
        ({"loopback": True}, False, True),
        ({"loopback": False}, False, False),
        ({"loopback": False, "encrypted": True}, False, True),
        ({"loopback": False}, True, True),
    ],
)
def test_a_password_is_taken_with_tls_from_this_machine_or_where_it_is_allowed(
    where: dict[str, bool], setting: bool, taken: bool
):
    access, peer = make_access(ALICE, plain_without_tls=setting), from_here(**where)
    assert [one.name for one in offered(access, peer)] == ["SCRAM-SHA-256", *["PLAIN"] * taken]
    assert [one.name for one in offered_on_091(access, peer)] == PASSWORDS_091 * taken
    reasons = withheld(access, peer)
    assert sorted(reasons) == ([] if taken else sorted(PASSWORDS_091))
    assert all("access.plain_without_tls" in reason and "amqps://" in reason for reason in reasons.values())


def test_amqplain_is_offered_by_setting():
    assert [one.name for one in offered_on_091(make_access(ALICE, amqplain=False), from_here())] == ["PLAIN"]
