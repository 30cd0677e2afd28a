"""Link credit on both ends and the queue grant, situation by situation; ``tests/machines`` has the models."""

import pytest

from amqp10.errors import ErrorCondition, LinkFault
from amqp10.flow.link_credit import QueueGrant, ReceiverCredit, SenderCredit

LARGEST = 2**32 - 1
INITIAL_COUNTS = (0, 10, 2**31 - 1, LARGEST)


def sender(*, initial=0, link_credit=0, sent=0) -> SenderCredit:
    credit = SenderCredit(initial)
    credit.flow_received(delivery_count=initial, link_credit=link_credit, drain=False)
    credit.sent(sent)
    return credit


# --- our sending end ------------------------------------------------------------------------------------------------


def test_the_example_of_the_formula():
    """delivery-count 20 and link-credit 6 at the receiver, delivery-count 21 at the sender: 20 + 6 - 21 = 5."""
    credit = sender(initial=20, link_credit=1, sent=1)
    credit.flow_received(delivery_count=20, link_credit=6, drain=False)
    assert credit.delivery_count == 21
    assert credit.link_credit == 5


def test_there_is_no_link_credit_before_the_first_flow():
    credit = SenderCredit(10)
    assert credit.link_credit == 0
    with pytest.raises(AssertionError):
        credit.sent(1)


@pytest.mark.parametrize("initial", INITIAL_COUNTS)
@pytest.mark.parametrize("link_credit", [1, 10, 2**31 - 1, 2**31, LARGEST, 0])
def test_a_flow_sets_the_link_credit_up_and_down(initial, link_credit):
    credit = sender(initial=initial, link_credit=10, sent=1)
    seen = credit.delivery_count
    assert seen == (initial + 1) % 2**32
    credit.flow_received(delivery_count=seen, link_credit=link_credit, drain=False)
    assert credit.link_credit == link_credit


@pytest.mark.parametrize("initial", INITIAL_COUNTS)
@pytest.mark.parametrize(("link_credit", "left"), [(12, 7), (6, 1), (5, 0), (4, 0), (0, 0), (LARGEST, LARGEST - 5)])
def test_messages_on_their_way_are_taken_off_and_never_below_zero(initial, link_credit, left):
    credit = sender(initial=initial, link_credit=5, sent=5)
    credit.flow_received(delivery_count=initial, link_credit=link_credit, drain=False)
    assert credit.link_credit == left


@pytest.mark.parametrize("initial", INITIAL_COUNTS)
def test_without_delivery_count_the_receiver_has_seen_the_initial_one(initial):
    """A late flow without the field grants less than was meant: 3, counted from before ten messages, are none."""
    credit = sender(initial=initial, link_credit=10, sent=10)
    credit.flow_received(delivery_count=None, link_credit=3, drain=False)
    assert credit.link_credit == 0
    credit.flow_received(delivery_count=None, link_credit=13, drain=False)
    assert credit.link_credit == 3


def test_a_flow_without_link_credit_changes_only_drain():
    credit = sender(link_credit=10, sent=4)
    credit.flow_received(delivery_count=0, link_credit=None, drain=True)
    assert credit.link_credit == 6
    assert credit.drain is True
    credit.flow_received(delivery_count=4, link_credit=6, drain=False)
    assert credit.drain is False


@pytest.mark.parametrize("initial", INITIAL_COUNTS)
@pytest.mark.parametrize("link_credit", [0, 10, 600, 2**31, LARGEST])
def test_draining_uses_up_the_link_credit_and_advances_the_count(initial, link_credit):
    credit = sender(initial=initial, link_credit=link_credit)
    assert credit.drained() == link_credit
    assert credit.link_credit == 0
    assert credit.delivery_count == (initial + link_credit) % 2**32
    assert credit.drained() == 0


def test_no_more_is_sent_than_the_link_credit():
    credit = sender(link_credit=3)
    with pytest.raises(AssertionError):
        credit.sent(4)
    with pytest.raises(AssertionError):
        credit.sent(-1)


# --- our receiving end ----------------------------------------------------------------------------------------------


def publisher(*, left=170, unconfirmed=0) -> ReceiverCredit:
    """A publisher's link with the default rule, in the given state."""
    credit = ReceiverCredit(maximum=170, top_up_at=85, unconfirmed_limit=170)
    while credit.unconfirmed < unconfirmed:
        n = min(170, unconfirmed - credit.unconfirmed)
        credit.grant(n)
        credit.received(n)
    credit.grant(left)
    return credit


@pytest.mark.parametrize("unconfirmed", [0, 169, 170, 171, 255])
@pytest.mark.parametrize("left", [0, 84, 85, 86, 169, 170])
def test_more_is_granted_at_half_unless_too_much_waits_for_its_confirm(left, unconfirmed):
    credit = publisher(left=left, unconfirmed=unconfirmed)
    since = 0 if unconfirmed < 170 else 85 - left  # messages that came after the link credit was down to 85
    due = left <= 85 and unconfirmed - since < 170
    assert credit.refill() is due
    assert credit.link_credit == (170 - since if due else left)
    assert credit.refill() is False


@pytest.mark.parametrize("run", [1, 2, 84, 85, 86, 100, 169, 170])
def test_a_run_gets_no_less_than_its_messages_would_get_one_by_one(run):
    in_runs, singly = publisher(), publisher()
    while in_runs.link_credit:
        n = min(run, in_runs.link_credit)
        in_runs.received(n)
        in_runs.refill()
        for _ in range(min(n, singly.link_credit)):
            singly.received(1)
            singly.refill()
        assert in_runs.unconfirmed + in_runs.link_credit >= singly.unconfirmed + singly.link_credit
    assert singly.unconfirmed == 255
    assert 255 <= in_runs.unconfirmed < 255 + 85


def test_a_publisher_has_at_most_255_messages_under_way():
    """85 + 170 = 255: fewer than the 256 of a queue grant."""
    credit = ReceiverCredit(maximum=170, top_up_at=85, unconfirmed_limit=170)
    assert credit.refill()
    while credit.link_credit:
        credit.received(1)
        credit.refill()
        assert credit.unconfirmed + credit.link_credit <= 339
    assert credit.unconfirmed == 255


def test_a_confirm_lets_the_rule_grant_again():
    credit = publisher(left=0, unconfirmed=255)
    assert not credit.refill()
    credit.confirmed(1)
    assert credit.refill()


def test_nothing_is_granted_while_it_is_withheld():
    credit = publisher(left=0)
    credit.withheld = True
    assert not credit.refill()
    credit.withheld = False
    assert credit.refill()


def test_without_a_rule_the_user_grants():
    credit = ReceiverCredit()
    assert not credit.refill()
    credit.grant(LARGEST, drain=True)
    assert (credit.link_credit, credit.drain) == (LARGEST, True)
    credit.grant(0)
    assert (credit.link_credit, credit.drain) == (0, False)


@pytest.mark.parametrize("link_credit", [-1, 2**32])
def test_a_grant_is_a_uint(link_credit):
    with pytest.raises(AssertionError):
        ReceiverCredit().grant(link_credit)


@pytest.mark.parametrize("initial", INITIAL_COUNTS)
def test_messages_use_up_the_link_credit(initial):
    credit = ReceiverCredit()
    credit.delivery_count = initial
    credit.grant(7)
    credit.received(7)
    assert credit.link_credit == 0
    assert credit.delivery_count == (initial + 7) % 2**32
    assert credit.unconfirmed == 7


@pytest.mark.parametrize("excess", [1, 2, 170])
def test_messages_beyond_the_link_credit_are_a_fault(excess):
    credit = ReceiverCredit()
    credit.grant(5)
    with pytest.raises(LinkFault, match=f"{5 + excess} message.s. received with a link-credit of 5") as raised:
        credit.received(5 + excess)
    assert raised.value.condition == ErrorCondition.TRANSFER_LIMIT_EXCEEDED
    assert credit.link_credit == 5
    assert credit.unconfirmed == 0


def test_what_was_granted_before_may_be_on_its_way():
    """Four of ten granted messages have come when the user lowers the link credit to 2. Six may still come, and no
    seventh."""
    credit = ReceiverCredit()
    credit.grant(10)
    credit.received(4)
    credit.grant(2)
    assert (credit.link_credit, credit.room) == (2, 6)
    credit.received(3)
    assert (credit.link_credit, credit.room) == (0, 3)
    credit.received(3)
    with pytest.raises(LinkFault, match="link-credit of 0"):
        credit.received(1)
    credit.grant(1)
    assert credit.room == 1


def test_more_confirms_than_messages_are_our_mistake():
    credit = publisher(unconfirmed=2)
    credit.confirmed(2)
    with pytest.raises(AssertionError):
        credit.confirmed(1)


@pytest.mark.parametrize("initial", INITIAL_COUNTS)
@pytest.mark.parametrize(
    ("advanced", "taken"), [(0, 0), (1, 1), (9, 9), (10, 10), (11, 0), (-1, 0), (-10, 0), (2**31, 0)]
)
def test_a_sender_that_advances_its_count_uses_up_link_credit(initial, advanced, taken):
    credit = ReceiverCredit()
    credit.delivery_count = initial
    credit.grant(10)
    told = (initial + advanced) % 2**32
    assert credit.flow_received(delivery_count=told, available=3) == taken
    assert credit.link_credit == 10 - taken
    assert credit.delivery_count == (initial + taken) % 2**32
    assert credit.available == 3


def test_a_drain_that_crosses_a_lowered_link_credit_is_taken():
    """A flow asks to drain ten. Then the user lowers the link credit to 5, and then the sender's answer to the first
    flow comes."""
    credit = ReceiverCredit()
    credit.grant(10, drain=True)
    credit.grant(5)
    assert credit.flow_received(delivery_count=10, available=0) == 10
    assert (credit.delivery_count, credit.link_credit, credit.room) == (10, 0, 0)


def test_a_senders_flow_may_leave_everything_out():
    credit = ReceiverCredit()
    credit.grant(10)
    credit.flow_received(delivery_count=0, available=3)
    assert credit.flow_received(delivery_count=None, available=None) == 0
    assert (credit.available, credit.link_credit) == (3, 10)


# --- the queue grant ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("link_credit", "granted"), [(0, 0), (1, 1), (256, 256), (257, 256), (LARGEST, 256)])
def test_the_engine_gets_the_link_credit_in_batches(link_credit, granted):
    grant = QueueGrant(256)
    assert grant.request(link_credit) == granted
    assert grant.outstanding == granted
    assert grant.requested


def test_the_next_batch_comes_when_the_last_one_has_gone():
    grant = QueueGrant(256)
    grant.request(600)
    assert grant.next_batch(600) is None  # unanswered
    grant.delivered(256)
    assert grant.replied(0, 600) is None
    assert grant.next_batch(600) is None  # all of it waits
    grant.begun(255)
    assert grant.next_batch(345) is None  # one still waits
    grant.begun(1)
    assert grant.next_batch(344) == 256
    grant.delivered(256)
    grant.replied(0, 344)
    grant.begun(256)
    assert grant.next_batch(88) == 88
    grant.delivered(80)
    grant.replied(0, 88)
    grant.begun(80)
    assert grant.next_batch(8) is None  # eight are outstanding still
    grant.delivered(8)
    grant.begun(8)
    assert grant.next_batch(0) is None


def test_while_a_grant_is_unanswered_only_the_newest_request_counts():
    grant = QueueGrant(256)
    assert grant.request(10) == 10
    assert grant.request(100) is None
    assert grant.request(20) is None
    grant.delivered(5)
    assert grant.replied(0, 15) == 10  # of 15 allowed, 5 wait already
    assert grant.replied(0, 15) is None
    assert not grant.requested


def test_what_waits_counts_against_a_reduced_link_credit():
    grant = QueueGrant(256)
    grant.request(10)
    grant.delivered(8)
    grant.replied(0, 10)
    assert grant.request(5) == 0
    assert (grant.outstanding, grant.waiting) == (0, 8)


def test_what_is_drained_is_no_longer_outstanding():
    grant = QueueGrant(256)
    grant.request(100)
    grant.delivered(30)
    assert grant.replied(70, 100) is None
    assert grant.outstanding == 0


def test_deliveries_behind_a_reply_count_to_the_earlier_grant():
    grant = QueueGrant(256)
    assert grant.request(99) == 99
    assert grant.request(198) is None
    grant.delivered(79)
    assert grant.replied(0, 198, untaken=20) == 99  # of 198 allowed, 79 wait and 20 are on their way
    grant.delivered(20)
    grant.delivered(99)
    assert (grant.outstanding, grant.waiting) == (0, 198)


def test_the_ledger_refuses_impossible_calls():
    grant = QueueGrant(256)
    with pytest.raises(AssertionError):
        grant.replied(0, 10)
    grant.request(5)
    with pytest.raises(AssertionError):
        grant.replied(6, 10)
    fresh = QueueGrant(256)
    with pytest.raises(AssertionError):
        fresh.delivered(1)
    with pytest.raises(AssertionError):
        QueueGrant(256).begun(1)
