"""The console sessions, with the time and the randomness of the test: how they are named, and when they end."""

from dataclasses import dataclass, field

import pytest

from core.access.rights import Rights, all_rights
from core.admin.console.sessions import SECRET_BYTES, SESSIONS_PER_USER_MAX, ConsoleSessions


@dataclass
class Setting:
    """Console sessions that last 10 s without use and 60 s in any case."""

    now: float = 0.0
    asked: list[int] = field(default_factory=list)
    sessions_max: int = 100

    def __post_init__(self) -> None:
        self.sessions = ConsoleSessions(
            idle=10.0,
            age_max=60.0,
            sessions_max=self.sessions_max,
            random_bytes=self.random_bytes,
            monotonic=lambda: self.now,
        )

    def random_bytes(self, count: int) -> bytes:
        self.asked.append(count)
        return len(self.asked).to_bytes(count)

    def begin(self, user: str = "alice", *, is_user: bool = True) -> str:
        return self.sessions.begin(all_rights(user), is_user=is_user)[0]

    def lasting(self, *secrets: str) -> list[bool]:
        return [self.sessions.find(secret) is not None for secret in secrets]


def test_the_secret_has_256_random_bits_and_only_its_digest_is_kept():
    setting = Setting()
    secret, session = setting.sessions.begin(all_rights("alice"), is_user=True)
    assert setting.asked == [SECRET_BYTES, SECRET_BYTES] == [32, 32]
    assert secret == (1).to_bytes(32).hex() != session.csrf_token
    assert setting.sessions.find(secret) is session
    assert secret not in repr(session)
    assert bytes.fromhex(secret) != session.digest


@pytest.mark.parametrize("secret", ["", "0" * 64, "é", "x" * 5000])
def test_a_secret_that_was_not_given_names_nothing(secret: str):
    setting = Setting()
    setting.begin()
    assert setting.sessions.find(secret) is None


def test_without_use_it_ends_and_use_keeps_it():
    setting = Setting()
    used, unused = setting.begin(), setting.begin()
    for setting.now in (6.0, 12.0):
        assert setting.lasting(used) == [True]
    assert setting.lasting(used, unused) == [True, False]
    setting.now = 22.0
    assert setting.lasting(used) == [False]
    assert len(setting.sessions) == 0


def test_with_use_it_ends_too():
    setting = Setting()
    secret = setting.begin()
    for setting.now in range(0, 60, 5):
        assert setting.lasting(secret) == [True]
    setting.now = 60.0
    assert setting.lasting(secret) == [False]


def test_looking_is_no_use():
    setting = Setting()
    _, session = setting.sessions.begin(all_rights("alice"), is_user=True)
    setting.now = 9.9
    assert setting.sessions.lasts(session)
    setting.now = 10.0
    assert not setting.sessions.lasts(session)


def test_it_ends_when_what_was_proven_is_so_no_more():
    setting = Setting()
    holds = [True]
    secret, session = setting.sessions.begin(all_rights("alice"), is_user=True, holds=lambda: holds[0])
    assert setting.lasting(secret) == [True]
    holds[0] = False
    assert not setting.sessions.lasts(session)
    assert setting.lasting(secret) == [False]
    holds[0] = True
    assert setting.lasting(secret) == [False]  # it has ended for good


def test_it_is_ended():
    setting = Setting()
    secret, session = setting.sessions.begin(all_rights("alice"), is_user=True)
    setting.sessions.end(session)
    setting.sessions.end(session)
    assert setting.lasting(secret) == [False]
    assert not setting.sessions.lasts(session)


def test_of_one_user_the_one_that_was_not_used_for_longest_ends():
    setting = Setting()
    other = setting.begin("bob")
    secrets = [setting.begin() for _ in range(SESSIONS_PER_USER_MAX)]
    setting.now = 1.0
    assert setting.lasting(secrets[0]) == [True]  # it is used now, and the second is the oldest
    newest = setting.begin()
    assert setting.lasting(other, *secrets, newest) == [True, True, False] + [True] * (SESSIONS_PER_USER_MAX - 1)


def test_of_all_one_of_the_same_user_ends_first():
    setting = Setting(sessions_max=3)
    bob, alice, later = setting.begin("bob"), setting.begin("alice"), setting.begin("alice")
    newest = setting.begin("alice")
    assert setting.lasting(bob, alice, later, newest) == [True, False, True, True]
    setting.begin("carol")  # she has none, so that of another user goes
    assert setting.lasting(bob, later, newest).count(True) == 2
    assert len(setting.sessions) == 3


def test_a_user_with_the_name_of_a_token_is_no_token():
    setting = Setting(sessions_max=2)
    token = setting.begin("administrator", is_user=False)
    users = [setting.begin("administrator") for _ in range(2)]
    assert setting.lasting(token, *users) == [True, False, True]


def test_what_has_ended_takes_no_place():
    setting = Setting(sessions_max=2)
    setting.begin("bob")
    setting.now = 9.0
    alice = setting.begin("alice")
    setting.now = 11.0
    carol = setting.begin("carol")
    assert setting.lasting(alice, carol) == [True, True]
    assert len(setting.sessions) == 2


def test_rights_are_those_of_the_user_at_each_request():
    setting = Setting()
    rights = Rights("alice", None, tags=frozenset(("monitoring",)))
    secret, _ = setting.sessions.begin(rights, is_user=True)
    rights.change(None, {}, frozenset(("monitoring", "policymaker")))
    found = setting.sessions.find(secret)
    assert found is not None
    assert found.rights.tags == {"monitoring", "policymaker"}
