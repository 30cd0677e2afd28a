"""How long a link waits before it looks for its leader again, and when it gives up."""

from amqp10.client.journey import FIRST_DELAY_S, GIVE_UP_S, LASTED_S, LONGEST_DELAY_S, Journey


def test_the_first_attempt_is_made_at_once_and_the_delays_grow_up_to_the_longest():
    journey = Journey()
    delays = [journey.again(100.0) for _ in range(9)]
    assert delays[:4] == [0.0, FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert delays[-1] == LONGEST_DELAY_S


def test_it_gives_up_after_a_while():
    journey = Journey()
    assert journey.again(100.0) == 0.0
    assert journey.again(100.0 + GIVE_UP_S) is not None
    assert journey.again(100.1 + GIVE_UP_S) is None


def test_a_link_that_was_usable_for_a_moment_only_has_not_arrived():
    journey = Journey()
    journey.again(100.0)
    journey.arrived(100.0)
    assert journey.again(100.0 + LASTED_S / 2) == FIRST_DELAY_S


def test_a_link_that_lasted_begins_anew():
    journey = Journey()
    for now in (0.0, 0.1, 0.2):
        journey.again(now)
    journey.arrived(1.0)
    assert journey.again(1000.0) == 0.0
    assert journey.again(1000.0) == FIRST_DELAY_S


def test_an_arrival_forgets_a_refusal():
    journey = Journey(stays=True, refused=True)
    journey.arrived(0.0)
    assert (journey.stays, journey.refused) == (False, False)
