"""Users: their keys, passwords that were right shortly before, and answers that do not tell which names exist."""

import hmac
from hashlib import pbkdf2_hmac, sha512

import pytest

from core.access.passwords import hash_password
from core.access.users import Users
from core.config.access import ITERATIONS
from tests.kit.logins import SALT, make_access, user

ALICE, SLOW = user("alice", "wonderland"), user("slow", "x", iterations=5000)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_users(clock: Clock) -> Users:
    return make_access(ALICE, SLOW, monotonic=clock, password_cache=10.0).users


def test_keys_follow_the_rfc():
    keys = hash_password("pencil", salt=bytes.fromhex("5b6d99689d12358eeca04b141236fa81"), iterations=4096)
    assert keys.render() == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
        "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


def test_keys_of_sha512_are_those_of_pbkdf2():
    keys = hash_password("pencil", salt=SALT, iterations=4096, hash_name="sha512")
    salted = pbkdf2_hmac("sha512", b"pencil", SALT, 4096)
    assert keys.stored_key == sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    assert keys.server_key == hmac.digest(salted, b"Server Key", "sha512")
    assert keys.render().startswith("SCRAM-SHA-512$4096:")


@pytest.mark.parametrize(("salt", "iterations"), [(b"short", 4096), (SALT, 4095)])
def test_weak_keys_are_not_made(salt: bytes, iterations: int):
    with pytest.raises(ValueError, match="must"):
        hash_password("pencil", salt=salt, iterations=iterations)


def test_a_password_with_control_characters_is_refused():
    with pytest.raises(ValueError, match="control"):
        hash_password("bell\x07", salt=SALT)


def test_new_keys_have_as_many_iterations_as_owasp_asks_for():
    assert hash_password("pencil", salt=SALT).iterations == ITERATIONS == 600_000


def test_a_remembered_password_is_of_its_user_only_and_not_for_ever():
    clock = Clock()
    users = make_users(clock)
    users.remember("alice", "wonderland", loopback=False)
    assert users.remembers("alice", "wonderland", loopback=False)
    assert not users.remembers("alice", "Wonderland", loopback=False)
    assert not users.remembers("slow", "wonderland", loopback=False)
    assert not users.remembers("alicewonder", "land", loopback=False)
    clock.now += 10.0
    assert not users.remembers("alice", "wonderland", loopback=False)


def test_nothing_is_remembered_of_users_that_have_changed():
    users = make_users(Clock())
    users.remember("alice", "wonderland", loopback=False)
    users.replace([ALICE])
    assert not users.remembers("alice", "wonderland", loopback=False)


def test_other_keys_are_of_another_password_until_it_is_proved():
    users = make_users(Clock())
    users.remember("alice", "wonderland", loopback=False)
    users.set_keys("alice", hash_password("wonderland", salt=b"another salt", iterations=4096))
    assert not users.remembers("alice", "wonderland", loopback=False)


def test_an_unknown_name_has_a_salt_and_a_count_like_any_user_and_always_the_same():
    users = make_users(Clock())
    for name in ("bob", "carol", "dave"):
        assert users.keys(name, loopback=False) == users.keys(name, loopback=True)
        assert len(users.keys(name, loopback=False).salt) == 16
    counts = {users.keys(f"name-{number}", loopback=False).iterations for number in range(50)}
    assert counts == {4096, 5000}, "a count that no user has, or that only users have, would betray names"


def test_guest_costs_little_and_so_does_an_unknown_user():
    users = make_access().users
    assert users.keys("guest", loopback=True).iterations == users.keys("bob", loopback=True).iterations == 4096
