"""The ledger of a run that went to several places."""

from core.engine.confirms import Confirms, Ledger, Submission
from core.errors import ResourceDeleted
from core.interface import Mailbox, Outcome, Publisher, PublisherClosed
from core.message import Run
from tests.kit.engine import PLAIN, bodies, confirms

ACCEPTED, RELEASED = Outcome.ACCEPTED, Outcome.RELEASED


def ledger(count: int, places: str) -> Ledger:
    return Ledger(count, dict.fromkeys(places, 0))


def test_the_slowest_place_decides():
    run = ledger(10, "ab")
    run.took("a", 7)
    assert run.answers() == []
    run.took("b", 3)
    assert run.answers() == [(0, 3, ACCEPTED)]
    run.took("a", 10)
    run.took("b", 10)
    assert run.answers() == [(3, 10, ACCEPTED)]


def test_places_that_are_gone_do_not_count():
    run = ledger(10, "abc")
    run.took("a", 4)
    run.gone("b")
    run.gone("c")
    assert run.answers() == [(0, 4, ACCEPTED)]
    run.gone("a")
    assert run.answers() == [(4, 10, RELEASED)]


def test_what_no_place_took_is_released():
    run = ledger(10, "ab")
    run.took("a", 6)
    run.gone("a")
    assert run.answers() == []
    run.took("b", 2)
    assert run.answers() == [(0, 2, ACCEPTED)]
    run.gone("b")
    assert run.answers() == [(2, 6, ACCEPTED), (6, 10, RELEASED)]


def publisher() -> Publisher:
    return Publisher(Mailbox(lambda: None), "owner", None, "reference")


def test_answers_grow_within_a_turn_only():
    subject, one = Confirms(), publisher()
    subject.enter(one)
    first = Submission.to(["q"], one, Run(0, bodies(2), PLAIN))
    second = Submission.to(["q"], one, Run(2, bodies(2), PLAIN))
    subject.begin_turn()
    subject.took(first, "q", 0, 2)
    subject.took(second, "q", 0, 1)
    subject.end_turn()
    assert confirms(one.mailbox.take()) == [(0, 2, ACCEPTED)]
    subject.gone(second, "q", 1)
    subject.release(one, 4, 5)
    assert confirms(one.mailbox.take()) == [(3, 3, RELEASED), (4, 5, RELEASED)]
    assert (subject.accepted, subject.released) == (3, 3)


def test_outcomes_and_publishers_are_not_mixed():
    subject, one, two = Confirms(), publisher(), publisher()
    subject.enter(one)
    subject.enter(two)
    subject.begin_turn()
    subject.took(Submission.to(["q"], one, Run(0, bodies(1), PLAIN)), "q", 0, 1)
    subject.took(Submission.to(["q"], two, Run(1, bodies(1), PLAIN)), "q", 0, 1)
    subject.release(one, 1, 1)
    subject.end_turn()
    assert confirms(one.mailbox.take()) == [(0, 0, ACCEPTED), (1, 1, RELEASED)]
    assert confirms(two.mailbox.take()) == [(1, 1, ACCEPTED)]


def test_nobody_is_closed_twice_or_after_leaving():
    subject, one = Confirms(), publisher()
    subject.enter(one)
    error = ResourceDeleted("gone")
    subject.close(one, error)
    subject.close(one, error)
    (action,) = one.mailbox.take()
    assert isinstance(action, PublisherClosed)
    subject.leave(one)
    subject.close(one, error)
    subject.release(one, 0, 0)
    assert one.mailbox.take() == []
    assert subject.publishers == []
