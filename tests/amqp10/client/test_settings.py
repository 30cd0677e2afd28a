"""How long the client waits before it connects again."""

from hypothesis import given
from hypothesis import strategies as st

from amqp10.client import Backoff


def test_delays_double_up_to_the_longest():
    backoff = Backoff(first_s=0.1, longest_s=10.0)
    delays = [backoff.delay_s(attempt, 1.0) for attempt in range(9)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


@given(st.integers(0, 10**9), st.floats(0, 1))
def test_the_second_half_of_a_delay_is_random(attempt, fraction):
    backoff = Backoff()
    shortest, longest = backoff.delay_s(attempt, 0.0), backoff.delay_s(attempt, 1.0)
    assert 2 * shortest == longest <= backoff.longest_s
    assert shortest <= backoff.delay_s(attempt, fraction) <= longest


def test_attempts_are_without_limit_unless_there_is_one():
    assert Backoff().allows(10**9)
    limited = Backoff(attempts_max=2)
    assert [limited.allows(attempt) for attempt in range(4)] == [True, True, False, False]
