"""Passwords: right or wrong, remembered for a while, and no name betrayed."""

import pytest

from core.access.passwords import hash_password
from core.access.users import Users
from core.config.access import UserSettings

SALT = b"salt for the tests"


class Clock:
    """Stands still until moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_users(clock: Clock, cache_seconds: float = 10.0) -> Users:
    alice = UserSettings(name="alice", scram=hash_password("wonderland", salt=SALT))
    slow = UserSettings(name="slow", scram=hash_password("x", salt=SALT, iterations=5000))
    return Users([alice, slow], cache_seconds=cache_seconds, monotonic=clock, random_bytes=lambda length: bytes(length))


def test_keys_follow_the_rfc():
    keys = hash_password("pencil", salt=bytes.fromhex("5b6d99689d12358eeca04b141236fa81"))
    assert keys.render() == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
        "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


@pytest.mark.parametrize(("salt", "iterations"), [(b"short", 4096), (SALT, 4095)])
def test_weak_keys_are_not_made(salt: bytes, iterations: int):
    with pytest.raises(ValueError, match="must"):
        hash_password("pencil", salt=salt, iterations=iterations)


def test_a_password_with_control_characters_is_refused():
    with pytest.raises(ValueError, match="control"):
        hash_password("bell\x07", salt=SALT)


def test_a_right_password_stays_right_and_a_wrong_one_wrong():
    users = make_users(Clock())
    for _ in range(2):
        assert users.password_is_right("alice", "wonderland", loopback=False)
        assert not users.password_is_right("alice", "Wonderland", loopback=False)
        assert not users.password_is_right("bob", "wonderland", loopback=False)


def test_a_remembered_password_is_of_its_user_only():
    users = make_users(Clock())
    assert users.password_is_right("alice", "wonderland", loopback=False)
    assert not users.password_is_right("slow", "wonderland", loopback=False)
    assert not users.password_is_right("alicewonder", "land", loopback=False)


@pytest.mark.parametrize("cache_seconds", [0.0, 10.0])
def test_a_password_is_right_also_when_it_is_no_longer_remembered(cache_seconds: float):
    clock = Clock()
    users = make_users(clock, cache_seconds)
    assert users.password_is_right("alice", "wonderland", loopback=False)
    clock.now += 10.0
    assert users.password_is_right("alice", "wonderland", loopback=False)


def test_an_unknown_name_costs_as_many_iterations_as_the_dearest_user():
    users = make_users(Clock())
    assert users.keys("bob", loopback=False).iterations == 5000
    assert users.keys("bob", loopback=False) == users.keys("bob", loopback=True)
    assert len(users.keys("bob", loopback=False).salt) == 16
