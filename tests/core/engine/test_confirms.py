"""The ledger of a run whose messages went to several queues."""

import hypothesis.strategies as st
from hypothesis import given

from core.engine.confirms import Confirms, OutcomeRange, RunProgress, Submission
from core.errors import HomeLost, LimitReached, ResourceDeleted
from core.interface import Confirmed, Mailbox, Outcome, Publisher, PublisherClosed
from core.message import Run
from tests.kit.engine import PLAIN, bodies, confirms

ACCEPTED, REJECTED, RELEASED, UNCERTAIN = Outcome
FULL, LOST = LimitReached("full"), HomeLost("lost")


def ledger(count: int, places: str) -> RunProgress:
    return RunProgress(count, dict.fromkeys(places, 0))


def answers(run: RunProgress) -> list[tuple[int, int, Outcome]]:
    return [(start, stop, outcome) for start, stop, outcome, _ in run.answers()]


def test_the_slowest_place_decides():
    run = ledger(10, "ab")
    run.took("a", 7)
    assert answers(run) == []
    run.took("b", 3)
    assert answers(run) == [(0, 3, ACCEPTED)]
    run.took("a", 10)
    run.took("b", 10)
    assert answers(run) == [(3, 10, ACCEPTED)]


def test_places_that_are_gone_do_not_count():
    run = ledger(10, "abc")
    run.took("a", 4)
    run.gone("b")
    run.gone("c")
    assert answers(run) == [(0, 4, ACCEPTED)]
    run.gone("a")
    assert answers(run) == [(4, 10, RELEASED)]


def test_what_no_place_took_is_released():
    run = ledger(10, "ab")
    run.took("a", 6)
    run.gone("a")
    assert answers(run) == []
    run.took("b", 2)
    assert answers(run) == [(0, 2, ACCEPTED)]
    run.gone("b")
    assert answers(run) == [(2, 6, ACCEPTED), (6, 10, RELEASED)]


def test_one_place_that_rejects_is_enough():
    run = ledger(10, "ab")
    run.took("a", 10)
    assert answers(run) == []
    run.took("b", 2)
    run.refused("b", OutcomeRange(2, 5, REJECTED, FULL))
    assert answers(run) == [(0, 2, ACCEPTED), (2, 5, REJECTED)]
    run.took("b", 10)
    assert answers(run) == [(5, 10, ACCEPTED)]


def test_rejections_of_several_places_overlap():
    run = ledger(10, "abc")
    run.refused("a", OutcomeRange(0, 6, REJECTED, FULL))
    run.took("a", 10)
    run.took("b", 3)
    run.refused("b", OutcomeRange(3, 8, REJECTED, FULL))
    run.took("b", 10)
    run.took("c", 5)
    assert answers(run) == [(0, 5, REJECTED)]
    run.gone("c")
    assert answers(run) == [(5, 6, REJECTED), (6, 8, REJECTED), (8, 10, ACCEPTED)]
    assert run.refusals == []


def test_rejected_stays_rejected_when_the_place_goes():
    run = ledger(6, "ab")
    run.took("a", 2)
    run.refused("a", OutcomeRange(2, 4, REJECTED, FULL))
    run.gone("a")
    run.took("b", 1)
    run.gone("b")
    assert answers(run) == [(0, 2, ACCEPTED), (2, 4, REJECTED), (4, 6, RELEASED)]


@given(st.data())
def test_every_message_is_answered_once_and_by_the_rule(data):
    """The ledger is compared with a model that keeps a set of answers for each message."""
    count = data.draw(st.integers(1, 12))
    run = ledger(count, "abc")
    came = dict.fromkeys("abc", 0)
    given_by: list[set[str]] = [set() for _ in range(count)]
    answered: list[Outcome] = []
    while came:
        place = data.draw(st.sampled_from(sorted(came)))
        what = data.draw(st.sampled_from(["took", "took", "rejected", "uncertain", "gone"]))
        start = came[place]
        stop = data.draw(st.integers(start + 1, count))
        if what == "gone":
            run.gone(place)
        elif what == "took":
            run.took(place, stop)
        elif what == "uncertain":
            run.refused(place, OutcomeRange(start, stop, UNCERTAIN, LOST))
        else:
            run.refused(place, OutcomeRange(start, stop, REJECTED, FULL))
        for number in range(start, count if what == "gone" else stop):
            given_by[number].add(what)
        came[place] = stop
        if what == "gone" or stop == count:
            del came[place]
        for low, high, outcome, error in run.answers():
            assert low == len(answered)
            assert error is {REJECTED: FULL, UNCERTAIN: LOST}.get(outcome)
            answered += [outcome] * (high - low)
        assert len(answered) == min(came.values(), default=count)
    refusals = {"rejected": REJECTED, "uncertain": UNCERTAIN}
    for outcome, by in zip(answered, given_by, strict=True):
        allowed = {refusals[what] for what in by & refusals.keys()}
        assert outcome in (allowed or {ACCEPTED if "took" in by else RELEASED})


def publisher() -> Publisher:
    return Publisher(Mailbox(lambda: None), "owner", None, "reference")


def test_answers_grow_within_a_turn_only():
    subject, one = Confirms(), publisher()
    subject.enter(one)
    first = Submission.to(["q"], one, Run(0, bodies(2), PLAIN))
    second = Submission.to(["q"], one, Run(2, bodies(2), PLAIN))
    subject.in_turn = True
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
    subject.in_turn = True
    subject.took(Submission.to(["q"], one, Run(0, bodies(1), PLAIN)), "q", 0, 1)
    subject.took(Submission.to(["q"], two, Run(1, bodies(1), PLAIN)), "q", 0, 1)
    subject.release(one, 1, 1)
    subject.end_turn()
    assert confirms(one.mailbox.take()) == [(0, 0, ACCEPTED), (1, 1, RELEASED)]
    assert confirms(two.mailbox.take()) == [(1, 1, ACCEPTED)]


def test_no_publisher_is_closed_twice_or_after_leaving():
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


def test_rejections_carry_their_reason_and_are_joined_with_their_like_only():
    subject, one = Confirms(), publisher()
    subject.enter(one)
    run = Submission.to(["q"], one, Run(0, bodies(9), PLAIN))
    subject.in_turn = True
    subject.took(run, "q", 0, 2)
    subject.reject(run, "q", 2, 4, FULL)
    subject.reject(run, "q", 4, 6, FULL)
    subject.reject(run, "q", 6, 9, LimitReached("fuller"))
    subject.end_turn()
    actions = one.mailbox.take()
    assert confirms(actions) == [(0, 1, ACCEPTED), (2, 5, REJECTED), (6, 8, REJECTED)]
    assert [str(a.error) for a in actions if isinstance(a, Confirmed)] == ["None", "full", "fuller"]
    assert (subject.accepted, subject.rejected, subject.released) == (2, 7, 0)


def test_the_engines_own_publishers_are_answered_at_once_and_not_counted():
    subject, own = Confirms(), publisher()
    subject.enter_own(own)
    run = Submission.to(["q"], own, Run(0, bodies(4), PLAIN))
    subject.in_turn = True
    subject.took(run, "q", 0, 2)
    assert confirms(own.mailbox.take()) == [(0, 1, ACCEPTED)]
    subject.took(run, "q", 2, 4)
    subject.end_turn()
    assert confirms(own.mailbox.take()) == [(2, 3, ACCEPTED)]
    assert (subject.accepted, subject.publishers) == (0, [])
    subject.leave(own)
    subject.release(own, 4, 4)
    assert own.mailbox.take() == []
