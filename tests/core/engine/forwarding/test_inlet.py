"""What an inlet asks the home node, and when it answers the grants of its consumer."""

import pytest

from core.engine.forwarding.inlet import PROBE_SECONDS, Inlet
from core.engine.queue.consumers import Attachment
from core.engine.queue.queue_counters import QueueCounters
from core.interface import ConsumeOptions, Consumer, Delivered, GrantReply, Mailbox
from core.message import UNSENT, Attributes
from tests.kit.home_node import RecordedReceiver


class Case:
    """An inlet with its consumer, whose client gives link credit."""

    def __init__(self, *, in_order: bool = False) -> None:
        self.mailbox = Mailbox(lambda: None)
        self.attachment = Attachment(Consumer(1, "q", self.mailbox, ConsumeOptions(), None))
        self.inlet = Inlet(self.attachment, QueueCounters(), lambda inlet, error: None, in_order=in_order)
        self.link = RecordedReceiver()
        self.inlet.link = self.link

    def grant(self, n: int, now: float, *, asked: bool = False, drain: bool = False) -> None:
        """Set the grant, and have it passed on."""
        attachment = self.attachment
        attachment.grant, attachment.drain, attachment.asked = n, drain, asked
        attachment.replies_due += 1
        self.inlet.pass_on(now)

    def came(self, n: int) -> None:
        """Messages come from the home node."""
        self.inlet.delivered(
            self.attachment.consumer.next_number, [b"x"] * n, Attributes(), delivery_count=0, first_acquirer=True
        )

    def replies(self) -> list[tuple[int, int]]:
        """Available and drained of the answers since the last call."""
        return [(action.available, action.drained) for action in self.mailbox.take() if isinstance(action, GrantReply)]


def test_a_grant_for_which_the_client_has_asked_is_answered_by_the_home_node():
    case = Case()
    case.grant(10, 0.0, asked=True)
    assert case.link.grants == [(10, False, True)]
    assert case.replies() == []
    case.came(3)
    case.inlet.answered(7)
    assert case.replies() == [(7, 0)]


def test_other_grants_are_answered_at_once_and_ask_now_and_then():
    case = Case()
    for number in range(5):
        case.grant(10 + number, number / 4 * PROBE_SECONDS)
        assert case.replies() == [(0, 0)] if not number else [(20, 0)]
        if not number:
            case.inlet.answered(20)
            assert case.replies() == []
    assert [echo for _, _, echo in case.link.grants] == [True, False, False, False, True]


def test_the_ready_messages_are_those_the_home_node_told_of_less_those_that_came():
    case = Case()
    case.grant(30, 0.0)
    case.inlet.answered(20)
    case.came(15)
    assert case.inlet.available == 5
    case.came(15)
    assert case.inlet.available == 0


@pytest.mark.parametrize("drain", [False, True])
def test_a_client_that_asks_waits_for_an_answer_of_its_own_grant(drain):
    """The answer that is out belongs to an earlier grant, which brought messages before it."""
    case = Case()
    case.grant(10, 0.0)
    case.mailbox.take()
    case.grant(5, 0.0, asked=True, drain=drain)
    assert case.link.grants == [(10, False, True)]
    case.inlet.answered(3)
    assert case.link.grants[1:] == [(5, drain, True)]
    assert case.replies() == []
    case.came(3)
    case.inlet.answered(0)
    assert case.replies() == [(0, 2 if drain else 0)]


def test_a_later_grant_waits_while_a_client_waits_for_an_answer():
    case = Case()
    case.grant(10, 0.0, asked=True)
    case.grant(20, 0.0)
    assert len(case.link.grants) == 1
    case.inlet.answered(4)
    assert case.link.grants[1:] == [(20, False, False)]
    assert case.replies() == [(4, 0), (4, 0)]


def test_what_comes_beyond_a_grant_that_was_lowered_goes_back_unsent():
    case = Case()
    case.grant(10, 0.0)
    case.grant(2, 0.0)
    case.inlet.delivered(7, [b"x"] * 5, Attributes(), delivery_count=0, first_acquirer=True)
    assert case.link.settled == [(9, 11, UNSENT)]
    delivered = [action for action in case.mailbox.take() if isinstance(action, Delivered)]
    assert [len(action.entries) for action in delivered] == [2]


def delivered(case: Case) -> int:
    """How many messages the consumer has got since the last call. Answers are dropped."""
    return sum(len(action.entries) for action in case.mailbox.take() if isinstance(action, Delivered))


def test_of_a_stream_what_comes_behind_a_delivery_that_went_back_goes_back_too():
    case = Case(in_order=True)
    case.grant(10, 0.0)
    case.inlet.answered(0)
    case.came(2)
    assert delivered(case) == 2
    case.inlet.settle(1, 1, UNSENT)
    case.inlet.delivered(2, [b"x"] * 3, Attributes(), delivery_count=0, first_acquirer=True)
    assert case.link.settled == [(1, 1, UNSENT), (2, 4, UNSENT)]
    assert case.link.grants[1:] == [(0, False, True)], "it asks behind what is on its way"
    case.grant(5, 0.0)
    assert case.replies() == []
    case.inlet.answered(4)
    assert case.link.grants[2:] == [(5, False, False)]
    assert case.replies() == [(4, 0)]
    case.came(4)
    assert delivered(case) == 4


@pytest.mark.parametrize("drain", [False, True])
def test_of_a_stream_an_answer_that_was_out_before_is_not_the_one_behind(drain):
    case = Case(in_order=True)
    case.grant(10, 0.0, asked=True, drain=drain)
    case.came(2)
    case.inlet.settle(0, 1, UNSENT)
    assert case.link.grants[1:] == [(0, False, False)]
    case.inlet.answered(0)
    assert case.link.grants[2:] == [(0, False, True)]
    case.inlet.delivered(2, [b"x"] * 3, Attributes(), delivery_count=0, first_acquirer=True)
    case.inlet.answered(0)
    assert case.link.grants[3:] == [(8, drain, True)], "the client still waits for its answer"
    assert (delivered(case), case.replies()) == (2, [])
    case.came(5)
    case.inlet.answered(0)
    assert case.replies() == [(0, 3 if drain else 0)]


def test_of_a_stream_a_grant_comes_anew_without_an_answer_to_a_client_that_has_one():
    case = Case(in_order=True)
    case.grant(10, 0.0)
    case.inlet.answered(0)
    case.came(2)
    case.inlet.settle(0, 1, UNSENT)
    case.mailbox.take()
    case.inlet.answered(2)
    assert case.link.grants[2:] == [(8, False, False)]
    assert case.replies() == []
