"""Answers that take long: a bounded part of the work in each turn, answers in the order of the requests, and dropped
with their link."""

from collections.abc import Callable

import pytest

from amqp10.frontend.management_links import REQUEST_WORK, STEP_WORK
from amqp10.management.message import Response, decode_request, encode_response
from amqp10.management.node import RequestInProgress
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.wire.messaging import ACCEPTED, RELEASED
from amqp10.wire.performatives import Detach, Disposition, End, Flow
from amqp10.wire.types import ULong
from core.access.checked_engine import CheckedEngine
from core.slices import Walk
from core.work import Work
from tests.kit.link_pair import NODE, PAIRED, LinkPair
from tests.kit.management import encode_request
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker

WORK = 10 * STEP_WORK
STEPS = 100
QUICK = 6
"""Requests behind a slow one, which is still running when they have come."""
PATH = "/slow"


class SlowNode:
    """A management node that takes a hundred steps for ``/slow``, and one step for everything else."""

    def __init__(self) -> None:
        self.steps: list[object] = []
        """The message-id of the request of each step."""
        self.ended: list[object] = []
        self.work = Work()
        self.step_work = 0
        """What each step adds to ``work`` itself."""

    def serve(
        self, request: bytes, engine: CheckedEngine, owner: object, wake: Callable[[], None]
    ) -> RequestInProgress:
        serving = RequestInProgress(lambda: None)
        serving.walk = self._walk(request)
        return serving

    def _walk(self, request: bytes) -> Walk[bytes]:
        properties = decode_request(request).properties
        try:
            for _ in range(STEPS if properties.to == PATH else 1):
                self.steps.append(properties.message_id)
                self.work.spent += self.step_work
                yield
            return (yield from encode_response(Response(200), properties.message_id))
        finally:
            self.ended.append(properties.message_id)


class Slow:
    """A client of the slow node, and a broker that runs one round for each thing that the client sends."""

    def __init__(self, **settings: int) -> None:
        self.node = SlowNode()
        self.broker = InProcessBroker(make_settings(engine={"work_per_turn": {"peer": WORK}}, amqp10=settings))
        self.broker.node = self.node  # type: ignore[assignment]
        self.peer = self.broker.connect()
        self.node.work = self.peer.front_end._work
        self.peer.begin()
        self.pair = LinkPair(self.peer).attach()
        self.pair.grant(10)
        self.peer.frames.clear()
        self.broker.rounds_max = 1

    def finish(self) -> None:
        """Run the broker until nothing is left to do."""
        self.broker.rounds_max = None
        self.broker.run()

    @property
    def requests(self) -> ReceiverLink:
        """The broker's end of the link for requests."""
        link = self.peer.link(self.pair.requests)
        assert isinstance(link, ReceiverLink)
        return link


def test_a_turn_takes_some_steps_and_the_next_goes_on():
    slow = Slow()
    slow.pair.send("GET", PATH)
    begun = len(slow.node.steps)
    taken: list[int] = []
    while not slow.pair.take_answers():
        slow.broker.run()
        taken.append(len(slow.node.steps) - begun - sum(taken))
    assert begun + sum(taken) == STEPS
    assert 0 < begun < STEPS
    assert max(taken) == WORK // STEP_WORK


def test_work_that_a_step_counts_itself_ends_the_turn():
    slow = Slow()
    slow.node.step_work = WORK
    slow.pair.send("GET", PATH)
    while not slow.pair.take_answers():
        begun = len(slow.node.steps)
        slow.broker.run()
        assert len(slow.node.steps) - begun <= 1
    assert len(slow.node.steps) == STEPS


def test_many_requests_in_a_row_have_a_budget_too():
    slow = Slow()
    slow.pair.send("GET", PATH)
    slow.broker.rounds_max = 0
    for _ in range(QUICK):
        slow.pair.send("GET", "/quick")
    assert slow.node.ended == []
    slow.broker.rounds_max = 1
    ended = []
    while len(slow.node.ended) < 1 + QUICK:
        slow.broker.run()
        ended.append(len(slow.node.ended) - sum(ended))
    assert max(ended) <= WORK // (2 * STEP_WORK + REQUEST_WORK) + 1
    assert len(slow.pair.take_answers()) == 1 + QUICK


def test_requests_of_a_pair_are_answered_one_at_a_time_and_in_order():
    slow = Slow()
    asked = [slow.pair.send("GET", path) for path in (PATH, "/quick", PATH, "/quick")]
    slow.finish()
    assert [answer.correlation_id for answer in slow.pair.take_answers()] == [ULong(number) for number in asked]
    assert list(dict.fromkeys(slow.node.steps)) == slow.node.ended
    assert slow.node.ended == [ULong(number) for number in asked]


def test_two_pairs_take_turns():
    slow = Slow()
    other = LinkPair(slow.peer, handle=20, name="other")
    slow.broker.rounds_max = None
    other.attach()
    other.grant(10)
    slow.broker.rounds_max = 1
    slow.pair.send("GET", PATH)
    other.send("GET", "/quick")
    while not slow.node.ended:
        slow.broker.run()
    assert len(slow.node.steps) < STEPS  # the quick answer did not wait for the slow one


def test_a_request_holds_its_link_credit_until_its_answer_has_gone():
    slow = Slow()
    slow.pair.send("GET", PATH)
    assert slow.requests.credit.unconfirmed == 1
    slow.finish()
    assert slow.requests.credit.unconfirmed == 0


def end_session(slow: Slow) -> None:
    slow.peer.send(End())


def detach_requests(slow: Slow) -> None:
    slow.peer.detach(slow.pair.requests)


def detach_answers(slow: Slow) -> None:
    slow.peer.detach(slow.pair.answers)


@pytest.mark.parametrize("leave", [detach_requests, detach_answers, end_session, lambda slow: slow.peer.disconnect()])
def test_what_ends_half_way_drops_the_walk_and_what_waits_behind_it(leave: Callable[[Slow], None]):
    slow = Slow()
    begun = slow.pair.send("GET", PATH)
    slow.pair.send("GET", "/quick")
    leave(slow)
    steps = len(slow.node.steps)
    assert 0 < steps < STEPS
    slow.finish()
    assert slow.node.ended == [ULong(begun)]
    assert len(slow.node.steps) == steps
    assert slow.pair.take_answers() == []


@pytest.mark.parametrize("leave", [detach_requests, detach_answers])
def test_the_pair_can_be_used_again(leave: Callable[[Slow], None]):
    slow = Slow()
    slow.pair.send("GET", PATH)
    leave(slow)
    slow.finish()
    if leave is detach_requests:
        slow.pair.attach_requests()
    else:
        assert slow.requests.credit.unconfirmed == 0
        slow.pair.attach_answers()
    assert slow.pair.ask("GET", "/quick").status == 200


def unsettled(slow: Slow, path: str) -> int:
    """A request that is sent unsettled."""
    return slow.peer.transfer(handle=slow.pair.requests, payload=encode_request("GET", path, message_id=ULong(7)))


def mixed() -> Slow:
    """A client whose link for requests may carry unsettled ones."""
    slow = Slow()
    slow.broker.rounds_max = None
    slow.peer.detach(slow.pair.requests)
    slow.peer.attach_sender(NODE, handle=slow.pair.requests, name=slow.pair.name, properties=PAIRED)
    slow.peer.frames.clear()
    slow.broker.rounds_max = 1
    return slow


def test_a_request_is_accepted_once_it_is_answered():
    slow = mixed()
    number = unsettled(slow, PATH)
    assert slow.peer.take(Disposition) == []
    slow.finish()
    assert slow.peer.take(Disposition) == [Disposition(role=True, first=number, settled=True, state=ACCEPTED)]


def test_requests_that_lose_the_half_for_answers_are_released():
    slow = mixed()
    number = unsettled(slow, PATH)
    detach_answers(slow)
    slow.finish()
    assert slow.peer.take(Disposition) == [Disposition(role=True, first=number, settled=True, state=RELEASED)]


def test_a_drain_is_answered_behind_the_answers():
    slow = Slow()
    slow.pair.send("GET", PATH)
    slow.pair.grant(10, drain=True)
    of_answers: Callable[[Flow], bool] = lambda flow: flow.handle == slow.pair.answers  # noqa: E731
    assert slow.peer.take(Flow, of_answers) == []
    slow.finish()
    assert len(slow.pair.take_answers()) == 1
    assert [flow.link_credit for flow in slow.peer.take(Flow, of_answers)] == [0]


def test_an_answer_for_which_the_link_credit_was_taken_back_is_not_sent():
    slow = Slow()
    slow.pair.send("GET", PATH)
    slow.pair.grant(0)
    slow.finish()
    assert slow.pair.take_answers() == []
    assert slow.requests.credit.unconfirmed == 0


def test_a_request_without_link_credit_waits_to_be_refused():
    """The requests before it are answered first, whether that takes long or not."""
    slow = Slow()
    slow.pair.grant(1)
    slow.pair.send("GET", PATH)
    slow.pair.send("GET", "/quick")
    assert slow.peer.take(Detach) == []
    slow.finish()
    assert len(slow.pair.take_answers()) == 1
    (detach,) = slow.peer.take(Detach)
    assert detach.handle == slow.pair.requests
    assert detach.error is not None
    assert "insufficient credit" in (detach.error.description or "")
