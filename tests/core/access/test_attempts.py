"""Which clients have to wait after failed logins: the guesser, and as few others as possible."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.access.attempts import ADDRESS, USER, USER_AND_ADDRESS, Attempts, network_of
from core.config.access import AccessSettings

HERE, THERE = "192.0.2.1", "192.0.2.2"


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_attempts(clock: Clock, **chosen: object) -> Attempts:
    limits = {
        "failed_logins_per_user_and_address": 3,
        "failed_logins_per_address": 6,
        "failed_logins_per_user": 9,
        "failed_logins_window": 60.0,
        "failed_logins_remembered_max": 100,
    }
    return Attempts(AccessSettings.model_validate(limits | chosen), monotonic=clock)


def fail(attempts: Attempts, user: str, host: str, times: int) -> None:
    for _ in range(times):
        assert attempts.limit_reached(user, host) is None
        attempts.failed(user, host)


def test_a_guesser_waits_and_the_user_elsewhere_does_not():
    attempts = make_attempts(Clock())
    fail(attempts, "alice", HERE, 3)
    assert attempts.limit_reached("alice", HERE) == USER_AND_ADDRESS
    assert attempts.limit_reached("alice", THERE) is None
    assert attempts.limit_reached("bob", HERE) is None


def test_one_may_be_tried_again_with_each_part_of_the_window():
    clock = Clock()
    attempts = make_attempts(clock)
    fail(attempts, "alice", HERE, 3)
    clock.now += 19.9
    assert attempts.limit_reached("alice", HERE) == USER_AND_ADDRESS
    clock.now += 0.2
    fail(attempts, "alice", HERE, 1)
    assert attempts.limit_reached("alice", HERE) == USER_AND_ADDRESS
    clock.now += 60.1
    fail(attempts, "alice", HERE, 3)


def test_an_address_that_tries_many_names_waits():
    attempts = make_attempts(Clock())
    attempts.succeeded("known", HERE)
    for number in range(6):
        fail(attempts, f"user-{number}", HERE, 1)
    assert attempts.limit_reached("known", HERE) is None, "behind the same proxy, say"
    assert attempts.limit_reached("alice", HERE) == ADDRESS
    assert attempts.limit_reached("alice", THERE) is None


def test_what_names_no_user_counts_for_the_address():
    attempts = make_attempts(Clock())
    fail(attempts, "", HERE, 6)
    assert attempts.limit_reached("alice", HERE) == attempts.limit_reached("", HERE) == ADDRESS


def test_a_user_tried_from_everywhere_is_kept_out_only_where_it_has_not_been():
    attempts = make_attempts(Clock())
    attempts.succeeded("alice", "198.51.100.1")
    for number in range(9):
        fail(attempts, "alice", f"192.0.2.{number}", 1)
    assert attempts.limit_reached("alice", "203.0.113.1") == USER
    assert attempts.limit_reached("alice", "198.51.100.1") is None
    assert attempts.limit_reached("bob", "203.0.113.1") is None


def test_a_login_that_succeeds_forgets_the_failures_beside_it():
    attempts = make_attempts(Clock())
    fail(attempts, "alice", HERE, 2)
    attempts.succeeded("alice", HERE)
    fail(attempts, "alice", HERE, 2)


def test_what_is_remembered_is_bounded():
    attempts = make_attempts(Clock())
    for number in range(1000):
        attempts.failed(f"user-{number}", f"10.0.{number // 250}.{number % 250}")
        attempts.succeeded(f"user-{number}", HERE)
    assert len(attempts._buckets) == len(attempts._proven) == 100


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::/64"),
        ("2001:db8::1:2", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no address", "no address"),
    ],
)
def test_an_ipv6_network_is_one_address(host: str, network: str):
    assert network_of(host) == network


@settings(max_examples=100, deadline=None)
@given(pauses=st.lists(st.floats(0, 90), max_size=60))
def test_never_more_tries_than_the_limit_and_what_leaks(pauses: list[float]):
    clock = Clock()
    attempts = make_attempts(clock, failed_logins_per_address=1000, failed_logins_per_user=1000)
    tried = 0
    for pause in pauses:
        clock.now += pause
        if attempts.limit_reached("alice", HERE) is None:
            attempts.failed("alice", HERE)
            tried += 1
    assert tried <= 3 + 3 * (clock.now - 100.0) / 60.0 + 0.001
