"""The output of a session: its order, equal shares of the window, and no frame sent twice [2.7.4, 2.7.6]."""

import pytest

from amqp10.flow.link_credit import ReceiverCredit
from amqp10.protocol.link import RECEIVER, SENDER, LinkEnd, OutputHandle
from amqp10.protocol.receiver_link import ReceiverLink
from amqp10.protocol.sender_link import SenderLink
from amqp10.protocol.session_output import SessionOutput
from amqp10.wire.messaging import ACCEPTED, RELEASED, Error, Modified, Rejected, Source, Target
from amqp10.wire.performatives import Attach, Disposition, Flow, Transfer
from tests.kit.link_channel import LinkChannelInMemory


class Owing:
    """The output of a session, and links that are attached to the session."""

    def __init__(self, **channel: int) -> None:
        self.channel = LinkChannelInMemory(**channel)
        self.output = SessionOutput()
        self.channel.dispositions = self.output.as_receiver

    def sender(self, handle: int, link_credit: int = 100) -> SenderLink:
        link = SenderLink(self.channel, LinkEnd(self.channel, name="", role=SENDER, handle=OutputHandle(handle)))
        link.end.attach_received(Attach(name="", handle=handle, role=RECEIVER))
        link.attach(source=Source(), target=Target(), snd_settle_mode=0, rcv_settle_mode=0)
        link.credit.flow_received(delivery_count=0, link_credit=link_credit, drain=False)
        self.channel.take()
        return link

    def receiver(self, handle: int) -> ReceiverLink:
        link = ReceiverLink(self.channel, LinkEnd(self.channel, name="", role=RECEIVER, handle=OutputHandle(handle)))
        link.end.attach_received(Attach(name="", handle=handle, role=SENDER, initial_delivery_count=0))
        rule = ReceiverCredit(maximum=4, top_up_at=2, unconfirmed_limit=4)
        link.attach(source=Source(), target=Target(), snd_settle_mode=2, rcv_settle_mode=0, credit=rule)
        self.channel.take()
        return link

    def send(self, link: SenderLink, n: int, size: int = 1) -> None:
        link.send_run(0, [b"x" * size] * n, b"")
        self.output.sending[link] = None

    def flush(self) -> list[object]:
        """The frames that were sent, in order: dispositions and flows whole, of transfers the handle."""
        self.output.flush(self.channel)
        return [each.handle if isinstance(each, Transfer) else each for each, _ in self.channel.take()]


def test_nothing_is_owed():
    owing = Owing()
    assert owing.flush() == []
    assert owing.channel.session_flows == 0
    assert not owing.output.blocked


def test_dispositions_then_link_credit_then_transfers_then_the_session():
    owing = Owing()
    sender, receiver = owing.sender(1), owing.receiver(2)
    owing.output.flow_due = True
    owing.send(sender, 2)
    sender.answer_flow(available=7, drained=False)
    receiver.credit.received(3)
    owing.output.refills[receiver] = None
    owing.output.echoes[receiver] = None
    owing.output.as_sender.add(5, 5, RELEASED, settled=True)
    owing.output.as_receiver.add(1, 3, ACCEPTED, settled=True)
    out = owing.flush()
    assert out[0] == Disposition(role=RECEIVER, first=1, last=3, settled=True, state=ACCEPTED)
    assert out[1] == Disposition(role=SENDER, first=5, settled=True, state=RELEASED)
    flows = [(each.handle, each.available) for each in out if isinstance(each, Flow)]
    assert flows == [(2, None), (2, None), (1, 7)]
    assert [type(each).__name__ for each in out[2:]] == ["Flow", "Flow", "int", "int", "Flow"]
    assert owing.channel.session_flows == 1
    assert owing.flush() == []


@pytest.mark.parametrize(
    "state",
    [None, ACCEPTED, RELEASED, Rejected(error=Error(condition="amqp:not-allowed")), Modified(delivery_failed=True)],
)
@pytest.mark.parametrize("settled", [True, False])
def test_every_state_is_encoded(state, settled):
    owing = Owing()
    owing.output.as_receiver.add(2**32 + 7, 2**32 + 9, state, settled=settled)
    owing.output.as_receiver.add(2**32 + 20, 2**32 + 20, state, settled=settled)
    several, one = owing.flush()
    assert several == Disposition(role=RECEIVER, first=7, last=9, settled=settled, state=state)
    assert one in (
        Disposition(role=RECEIVER, first=20, settled=settled, state=state),
        Disposition(role=RECEIVER, first=20, last=20, settled=settled, state=state),
    )


def test_the_session_flow_comes_with_a_top_up_of_the_window():
    owing = Owing()
    owing.channel.window.received(5)
    owing.flush()
    assert owing.channel.session_flows == 1
    assert owing.channel.window.incoming_window == 10
    owing.flush()
    assert owing.channel.session_flows == 1


def test_a_burst_of_wishes_gets_one_answer():
    owing = Owing()
    receiver = owing.receiver(2)
    for _ in range(3):
        owing.output.echoes[receiver] = None
        owing.output.flow_due = True
    (flow,) = owing.flush()
    assert isinstance(flow, Flow)
    assert owing.channel.session_flows == 1


def test_a_link_that_is_gone_is_not_echoed():
    owing = Owing()
    receiver = owing.receiver(2)
    owing.output.echoes[receiver] = None
    receiver.end.detach()
    owing.channel.take()
    assert owing.flush() == []


def test_what_is_forgotten_is_not_owed():
    owing = Owing()
    sender, receiver = owing.sender(1), owing.receiver(2)
    owing.send(sender, 2)
    receiver.credit.received(3)
    owing.output.refills[receiver] = None
    owing.output.echoes[receiver] = None
    for link in (sender, receiver, owing.sender(3), owing.receiver(4)):
        owing.output.forget(link)
    assert owing.flush() == []
    assert not owing.output.blocked


def test_links_have_equal_shares_of_the_window():
    owing = Owing(remote_window=10)
    for handle in (1, 2, 3):
        owing.send(owing.sender(handle), 9)
    assert [owing.flush().count(handle) for handle in (1,)] == [4]
    assert owing.output.blocked
    owing.channel.window.remote_incoming_window = 6
    turn = owing.flush()
    assert [turn.count(handle) for handle in (1, 2, 3)] == [2, 2, 2]


def test_what_one_link_leaves_goes_to_the_others():
    owing = Owing(remote_window=10)
    owing.send(owing.sender(1), 1)
    owing.send(owing.sender(2), 20)
    turn = owing.flush()
    assert (turn.count(1), turn.count(2)) == (1, 9)
    assert turn[0] == 1


def test_a_delivery_of_many_frames_does_not_hold_up_the_others():
    owing = Owing(remote_window=4)
    owing.send(owing.sender(1), 1, size=5000)
    owing.send(owing.sender(2), 2)
    assert sorted(owing.flush()) == [1, 1, 2, 2]
    owing.channel.window.remote_incoming_window = 100
    assert set(owing.flush()) == {1}
    assert not owing.output.blocked


def test_no_room_in_the_output_blocks_every_link():
    owing = Owing(room=0)
    owing.send(owing.sender(1), 3)
    assert owing.flush() == []
    assert owing.output.blocked
    owing.channel.room = 1000
    assert owing.flush() == [1, 1, 1]


def test_an_answer_is_not_blocked():
    owing = Owing(remote_window=0, room=0)
    sender = owing.sender(1)
    sender.answer_flow(available=0, drained=True)
    owing.output.sending[sender] = None
    (flow,) = owing.flush()
    assert isinstance(flow, Flow)
    assert not owing.output.blocked
