"""Answers of the home node become confirms: in any order for one queue, in the run's order for several."""

from core.engine.confirms import Confirms, Submission
from core.engine.forwarding.sent_runs import SentRuns
from core.errors import HomeLost, PreconditionFailed
from core.interface import Confirmed, Mailbox, Outcome, Publisher
from core.message import Attributes, Run

HERE, THERE = "here", "there"
LOST = HomeLost("the connection is lost")


class Sent:
    """One publisher, and the messages that it has sent to a place."""

    def __init__(self) -> None:
        self.confirms = Confirms()
        self.publisher = Publisher(Mailbox(lambda: None), self, None, None)
        self.confirms.enter(self.publisher)
        self.runs = SentRuns(HERE)

    def submission(self, count: int, *places: str, first: int = 0) -> Submission:
        return Submission.to(places or (HERE,), self.publisher, Run(first, [b"x"] * count, Attributes()))

    def answers(self) -> list[tuple[int, int, Outcome]]:
        taken = self.publisher.mailbox.take()
        assert all(isinstance(one, Confirmed) for one in taken)
        return [(one.first, one.last, one.outcome) for one in taken if isinstance(one, Confirmed)]


def test_answers_for_parts_in_any_order():
    sent = Sent()
    sent.runs.add(0, sent.submission(5), 0, 5)
    sent.runs.add(5, sent.submission(5, first=5), 0, 5)
    sent.runs.answer(sent.confirms, 3, 6, Outcome.ACCEPTED)
    assert sent.answers() == [(3, 4, Outcome.ACCEPTED), (5, 6, Outcome.ACCEPTED)]
    sent.runs.answer(sent.confirms, 1, 1, Outcome.RELEASED)
    sent.runs.answer(sent.confirms, 0, 0, Outcome.ACCEPTED)
    assert sent.answers() == [(1, 1, Outcome.RELEASED), (0, 0, Outcome.ACCEPTED)]
    assert sent.runs.count == 4
    sent.runs.give_up(sent.confirms, LOST)
    assert sent.answers() == [(2, 2, Outcome.UNCERTAIN), (7, 9, Outcome.UNCERTAIN)]
    assert sent.runs.count == 0


def test_a_rejection_has_its_error():
    sent = Sent()
    sent.runs.add(0, sent.submission(1), 0, 1)
    error = PreconditionFailed("full")
    sent.runs.answer(sent.confirms, 0, 0, Outcome.REJECTED, error)
    (answer,) = sent.publisher.mailbox.take()
    assert isinstance(answer, Confirmed)
    assert answer.error is error


def test_the_home_may_be_uncertain_itself():
    sent = Sent()
    sent.runs.add(0, sent.submission(2), 0, 2)
    sent.runs.answer(sent.confirms, 0, 1, Outcome.UNCERTAIN)
    (answer,) = sent.publisher.mailbox.take()
    assert isinstance(answer, Confirmed)
    assert (answer.first, answer.last, answer.outcome) == (0, 1, Outcome.UNCERTAIN)
    assert "does not know whether the queue has the message" in str(answer.error)


def test_what_the_home_releases_is_uncertain_if_it_went_to_another_queue_too():
    sent = Sent()
    both = sent.submission(2, HERE, THERE)
    sent.runs.add(0, both, 0, 2)
    sent.confirms.took(both, THERE, 0, 2)
    sent.runs.answer(sent.confirms, 0, 1, Outcome.RELEASED)
    assert sent.answers() == [(0, 1, Outcome.UNCERTAIN)]


def test_an_early_answer_for_messages_of_several_queues_waits():
    sent = Sent()
    both = sent.submission(4, HERE, THERE)
    sent.runs.add(0, both, 0, 4)
    sent.confirms.took(both, THERE, 0, 4)
    sent.runs.answer(sent.confirms, 2, 3, Outcome.ACCEPTED)
    assert sent.answers() == []
    sent.runs.answer(sent.confirms, 0, 1, Outcome.ACCEPTED)
    assert sent.answers() == [(0, 1, Outcome.ACCEPTED), (2, 3, Outcome.ACCEPTED)]


def test_what_only_another_queue_has_answered_is_uncertain_when_the_home_node_is_lost():
    sent = Sent()
    both = sent.submission(4, HERE, THERE)
    sent.runs.add(0, both, 0, 4)
    sent.confirms.took(both, THERE, 0, 4)
    sent.runs.answer(sent.confirms, 1, 2, Outcome.ACCEPTED)
    sent.runs.give_up(sent.confirms, LOST)
    assert sent.answers() == [(0, 0, Outcome.UNCERTAIN), (1, 2, Outcome.ACCEPTED), (3, 3, Outcome.UNCERTAIN)]
