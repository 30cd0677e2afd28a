"""Transfers in both directions, whole and in pieces, as Qpid's wire tests show them [2.6.14, 2.7.5]."""

import pytest

from amqp10.protocol.receiver_link import FRAMES_PER_DELIVERY_MAX
from amqp10.wire.messaging import ACCEPTED, Accepted, Modified, Received, Rejected, Source, Target
from amqp10.wire.performatives import Begin, Detach, Disposition, End, Transfer
from amqp10.wire.sections import Header, decode_header, encode_header, scan
from tests.kit.cases import case
from tests.kit.wire import InProcessBroker, WirePeer, body_of, data_message, numbered


class Sending:
    """A broker with one queue, and a client with a sender at handle 0. Its link credit is read."""

    def __init__(self, **attach_fields: object) -> None:
        self.broker = InProcessBroker()
        self.address = self.broker.queue()
        self.peer: WirePeer = self.broker.connect()
        self.peer.begin()
        self.peer.attach_sender(self.address, **attach_fields)
        self.peer.frames.clear()

    def queued(self) -> list[bytes]:
        """The bodies in the queue, taken by another client."""
        other = self.broker.connect()
        other.begin()
        other.attach_receiver(self.address, snd_settle_mode=1)
        other.grant(100)
        return other.bodies()


class Receiving:
    """A broker with one queue, and a client with a receiver at handle 1."""

    def __init__(self, *bodies: bytes, **attach_fields: object) -> None:
        self.broker = InProcessBroker()
        self.address = self.broker.queue()
        self.peer: WirePeer = self.broker.connect()
        self.peer.begin()
        self.attach = self.peer.attach_receiver(self.address, **attach_fields)
        self.broker.fill(bodies)


# --- single frames, towards the broker -------------------------------------------------------------------------------


@case("messaging.TransferTest", "transferHandleUnspecified")
def test_a_transfer_without_handle():
    """transferHandleUnspecified (messaging.TransferTest)"""
    c = Sending()
    c.peer.send_bytes(b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x14\x45")
    assert c.peer.closed_with("amqp:invalid-field")


@pytest.mark.parametrize("missing", ["delivery_id", "delivery_tag"])
@case("messaging.TransferTest", "transferDeliveryIdUnspecified")
@case("messaging.TransferTest", "transferDeliveryTagUnspecified")
def test_a_delivery_that_begins_without_id_or_tag(missing: str):
    """transferDeliveryIdUnspecified (messaging.TransferTest)
    transferDeliveryTagUnspecified (messaging.TransferTest)"""
    c = Sending()
    c.peer.send_all([c.peer.transfer_frame(**{missing: None})])
    assert c.peer.detached_with("amqp:invalid-field")
    assert not c.peer.take(End)
    assert c.queued() == []


@pytest.mark.parametrize("rcv_settle_mode", [None, 0])
@case("messaging.TransferTest", "transferUnsettled")
@case("messaging.TransferTest", "transferReceiverSettleModeFirst")
def test_an_unsettled_delivery_is_accepted_and_settled(rcv_settle_mode: int | None):
    """transferUnsettled (messaging.TransferTest)
    transferReceiverSettleModeFirst (messaging.TransferTest)"""
    c = Sending()
    c.peer.transfer(b"m", rcv_settle_mode=rcv_settle_mode)
    assert c.peer.expect(Disposition) == Disposition(role=True, first=0, settled=True, state=ACCEPTED)
    assert c.queued() == [b"m"]


@case("messaging.TransferTest", "transferWithoutPayload")
def test_a_delivery_without_payload():
    """transferWithoutPayload (messaging.TransferTest): a payload without a section is no message. The message before it
    is kept."""
    c = Sending()
    c.peer.transfer(b"good")
    c.peer.transfer(payload=b"")
    assert c.peer.detached_with("amqp:decode-error")
    assert c.queued() == [b"good"]


@case(
    "messaging.TransferTest",
    "transferMessagesWithTheSameDeliveryTagOnSeparateLinksBelongingToTheSameSession",
)
def test_the_same_tag_on_two_links():
    """transferMessagesWithTheSameDeliveryTagOnSeparateLinksBelongingToTheSameSession (messaging.TransferTest)"""
    c = Sending()
    c.peer.attach_sender(c.address, handle=1)
    c.peer.frames.clear()
    c.peer.transfer(b"a", handle=0, delivery_tag=b"same")
    c.peer.transfer(b"b", handle=1, delivery_tag=b"same")
    assert [each.state for each in c.peer.take(Disposition)] == [ACCEPTED, ACCEPTED]


@case("messaging.TransferTest", "transferReceiverSettleModeCannotBeSecondWhenLinkModeIsFirst")
def test_second_on_a_transfer_of_a_link_that_is_first():
    """transferReceiverSettleModeCannotBeSecondWhenLinkModeIsFirst (messaging.TransferTest)"""
    c = Sending(rcv_settle_mode=0)
    c.peer.transfer(rcv_settle_mode=1)
    assert c.peer.detached_with("amqp:invalid-field")
    assert c.queued() == []


@case("messaging.TransferTest", "durableTransferWithRejectedOutcome")
@case("messaging.TransferTest", "durableTransferWithoutRejectedOutcome")
@case("messaging.OutcomeTest", "transferMessageWithAttachSourceHavingExplicitlySetOutcomesToAccepted")
def test_a_durable_message_is_accepted_whatever_outcomes_the_source_names():
    """durableTransferWithRejectedOutcome (messaging.TransferTest)
    durableTransferWithoutRejectedOutcome (messaging.TransferTest)
    transferMessageWithAttachSourceHavingExplicitlySetOutcomesToAccepted (messaging.OutcomeTest)"""
    for outcomes in (("amqp:accepted:list", "amqp:rejected:list"), ("amqp:accepted:list",)):
        c = Sending(source=Source(outcomes=outcomes))
        c.peer.transfer(payload=encode_header(Header(durable=True)) + data_message(b"m"))
        assert c.peer.pick(Disposition).state == ACCEPTED


@case("messaging.TransferTest", "deliveryTagCanBeReusedAfterDeliveryIsSettled")
def test_a_tag_may_be_used_again_once_its_delivery_is_settled():
    """deliveryTagCanBeReusedAfterDeliveryIsSettled (messaging.TransferTest)"""
    c = Sending()
    for _ in range(2):
        c.peer.transfer(delivery_tag=b"again")
        assert c.peer.pick(Disposition).settled


@case("messaging.TransferTest", "transferMultipleDeliveries")
def test_several_deliveries_are_accepted():
    """transferMultipleDeliveries (messaging.TransferTest)"""
    c = Sending()
    c.peer.publish(numbered(3))
    assert c.peer.expect(Disposition) == Disposition(role=True, first=0, last=2, settled=True, state=ACCEPTED)


@case("messaging.TransferTest", "transferOnUnattachedHandle")
def test_a_transfer_on_a_handle_that_is_not_attached():
    """transferOnUnattachedHandle (messaging.TransferTest)"""
    c = Sending()
    c.peer.transfer(handle=9)
    assert c.peer.ended_with("amqp:session:unattached-handle")


@case("messaging.MessageFormatTest", "differentMessageFormatOnSameDeliveryFails")
def test_a_message_format_that_changes_inside_a_delivery():
    """differentMessageFormatOnSameDeliveryFails (messaging.MessageFormatTest)"""
    c = Sending()
    first, second = c.peer.frames_of(data_message(b"abc"), 5)
    second[0].message_format = 1
    c.peer.send_all([first, second])
    assert c.peer.detached_with("amqp:invalid-field")
    assert c.queued() == []


# --- in pieces -------------------------------------------------------------------------------------------------------


@case("messaging.MultiTransferTest", "multiTransferMessage")
@case("messaging.MultiTransferTest", "multiTransferMessageOmittingOptionalTagAndID")
def test_a_message_in_pieces():
    """[FC] multiTransferMessage (messaging.MultiTransferTest): with id and tag in every frame.
    [FC] multiTransferMessageOmittingOptionalTagAndID (messaging.MultiTransferTest): and in the first only."""
    for repeated in (True, False):
        c = Sending()
        frames = c.peer.frames_of(data_message(b"abcdef"), 4)
        if repeated:
            for transfer, _ in frames:
                transfer.delivery_id, transfer.delivery_tag = frames[0][0].delivery_id, frames[0][0].delivery_tag
        c.peer.send_all(frames)
        assert c.peer.pick(Disposition).state == ACCEPTED
        assert c.queued() == [b"abcdef"]


def test_a_last_piece_that_looks_like_a_whole_message():
    """The last transfer has id and tag, no `more`, and a payload that begins as a section does. Only the link's state
    tells it from a whole message."""
    inner = data_message(b"inner")
    message = data_message(bytes(100) + inner)
    c = Sending()
    c.peer.transfer(b"first")
    frames = c.peer.frames_of(message, len(message) - len(inner))
    frames[1][0].delivery_id, frames[1][0].delivery_tag = frames[0][0].delivery_id, frames[0][0].delivery_tag
    assert frames[1][1] == inner
    c.peer.send_all(frames)
    c.peer.transfer(b"next")
    assert [each.first for each in c.peer.take(Disposition)] == [0, 1, 2]
    assert c.queued() == [b"first", bytes(100) + inner, b"next"]


@case("messaging.MultiTransferTest", "multiTransferMessageHavingTransfersWithoutPayload")
def test_a_message_with_empty_pieces():
    """[FC] multiTransferMessageHavingTransfersWithoutPayload (messaging.MultiTransferTest)"""
    c = Sending()
    frames = c.peer.frames_of(data_message(b"abcdef"), 4)
    empty = (Transfer(handle=0, more=True), b"")
    c.peer.send_all([(frames[0][0], b""), empty, (Transfer(handle=0, more=True), frames[0][1]), empty, *frames[1:]])
    assert c.peer.pick(Disposition).state == ACCEPTED
    assert c.queued() == [b"abcdef"]


@case("messaging.MultiTransferTest", "abortMultiTransferMessage")
def test_an_aborted_message():
    """[FC] abortMultiTransferMessage (messaging.MultiTransferTest)"""
    c = Sending()
    c.peer.send_all(c.peer.frames_of(data_message(b"abcdef"), 4)[:2])
    c.peer.send(Transfer(handle=0, aborted=True))
    c.peer.transfer(b"whole")
    assert [each.first for each in c.peer.take(Disposition)] == [1]
    assert c.queued() == [b"whole"]


@case("messaging.MultiTransferTest", "multiTransferInterleaved")
def test_messages_in_pieces_on_two_links_at_once():
    """[FC] multiTransferInterleaved (messaging.MultiTransferTest)"""
    c = Sending()
    c.peer.attach_sender(c.address, handle=1)
    c.peer.frames.clear()
    first = c.peer.frames_of(data_message(b"first."), 6, handle=0)
    second = c.peer.frames_of(data_message(b"second"), 6, handle=1)
    c.peer.send_all([first[0], second[0], second[1], first[1]])
    assert sorted(each.first for each in c.peer.take(Disposition)) == [0, 1]
    assert c.queued() == [b"second", b"first."]


@case("messaging.MultiTransferTest", "illegallyInterleavedMultiTransferOnSingleLink")
def test_messages_in_pieces_that_mix_on_one_link():
    """[FC] illegallyInterleavedMultiTransferOnSingleLink (messaging.MultiTransferTest)"""
    c = Sending()
    first = c.peer.frames_of(data_message(b"first."), 6)
    second = c.peer.frames_of(data_message(b"second"), 6)
    c.peer.send_all([first[0], second[0]])
    assert c.peer.detached_with("amqp:invalid-field")
    assert c.queued() == []


@case("extensions.qpid.message.TransferLimitTest", "transferLimitExceededClosesLink")
@case("extensions.qpid.message.TransferLimitTest", "transfersAtExactLimitSucceed")
def test_the_limit_of_frames_for_one_delivery():
    """[FC] transferLimitExceededClosesLink (extensions.qpid.message.TransferLimitTest)
    [FC] transfersAtExactLimitSucceed (extensions.qpid.message.TransferLimitTest): the test sets the link's count to
    right before the limit, because sending a quarter of a million frames would show no more."""
    for beyond in (0, 1):
        c = Sending()
        first, *rest = c.peer.frames_of(data_message(b"abcdef"), 4)
        c.peer.send_all([first])
        c.peer.link(0).partial.frames = FRAMES_PER_DELIVERY_MAX - len(rest) + beyond
        c.peer.send_all(rest)
        if beyond:
            assert c.peer.detached_with("amqp:link:transfer-limit-exceeded")
            assert c.queued() == []
        else:
            assert c.queued() == [b"abcdef"]


# --- towards the client ----------------------------------------------------------------------------------------------


@case("messaging.TransferTest", "receiveTransferUnsettled")
@case("amqp_dotnet_SUITE", "redelivery")
def test_a_delivery_that_is_never_settled_goes_back():
    """receiveTransferUnsettled (messaging.TransferTest)
    redelivery (amqp_dotnet_SUITE)"""
    c = Receiving(b"m")
    c.peer.grant(1)
    ((transfer, _),) = c.peer.deliveries()
    assert not transfer.settled
    c.peer.disconnect()
    assert c.broker.ready() == 1
    other = c.broker.connect()
    other.begin()
    other.attach_receiver(c.address)
    other.grant(1)
    ((_, payload),) = other.deliveries()
    assert decode_header(payload, *scan(payload).header).first_acquirer is False


@case("messaging.TransferTest", "receiveTransferReceiverSettleFirst")
def test_rcv_settle_mode_first():
    """receiveTransferReceiverSettleFirst (messaging.TransferTest)"""
    c = Receiving(b"m", rcv_settle_mode=0)
    assert c.attach.rcv_settle_mode == 0
    c.peer.grant(1)
    c.peer.deliveries()
    c.peer.dispose(0, state=ACCEPTED, settled=True)
    assert c.peer.nothing_came()
    assert c.broker.unacknowledged() == c.broker.ready() == 0


@pytest.mark.parametrize("outcome", [ACCEPTED, Rejected()])
@case("messaging.TransferTest", "receiveTransferReceiverSettleSecond")
@case("messaging.TransferTest", "receiveTransferReceiverSettleSecondWithRejectedOutcome")
def test_rcv_settle_mode_second(outcome: object):
    """receiveTransferReceiverSettleSecond (messaging.TransferTest)
    receiveTransferReceiverSettleSecondWithRejectedOutcome (messaging.TransferTest)"""
    c = Receiving(b"m", rcv_settle_mode=1)
    assert c.attach.rcv_settle_mode == 1
    c.peer.grant(1)
    c.peer.deliveries()
    c.peer.dispose(0, state=outcome, settled=False)
    assert c.peer.expect(Disposition) == Disposition(role=False, first=0, settled=True, state=outcome)
    c.peer.dispose(0, state=outcome, settled=True)
    assert c.peer.nothing_came()
    assert c.broker.unacknowledged() == c.broker.ready() == 0


@case("messaging.TransferTest", "receiveTransferReceiverSettleSecondWithImplicitDispositionState")
def test_rcv_settle_mode_second_without_a_state():
    """receiveTransferReceiverSettleSecondWithImplicitDispositionState (messaging.TransferTest): an unsettled
    disposition without a state has no effect. A settled one without a state means the default outcome of the source,
    which is released."""
    c = Receiving(b"m", rcv_settle_mode=1)
    c.peer.grant(1)
    c.peer.deliveries()
    c.peer.dispose(0, settled=False)
    assert c.peer.nothing_came()
    assert c.broker.unacknowledged() == 1
    c.peer.dispose(0, settled=True)
    assert c.broker.ready() == 1


@case("messaging.TransferTest", "receiveTransferReceiverIndicatesNonTerminalDeliveryState")
def test_received_in_the_middle_of_a_message():
    """receiveTransferReceiverIndicatesNonTerminalDeliveryState (messaging.TransferTest)"""
    broker = InProcessBroker()
    address = broker.queue()
    broker.fill([b"x" * 800])
    peer = broker.connect(max_frame_size=512)
    peer.begin(incoming_window=1)
    peer.attach_receiver(address)
    peer.grant(1, incoming_window=1)
    ((first, piece),) = peer.deliveries()
    assert first.more
    peer.dispose(0, state=Received(section_number=0, section_offset=0), settled=False)
    assert peer.nothing_came()
    peer.flow(incoming_window=10)
    ((last, rest),) = peer.deliveries()
    assert not last.more
    assert body_of(piece + rest) == b"x" * 800
    peer.dispose(0, state=Accepted())
    assert broker.unacknowledged() == broker.ready() == 0


@case("messaging.TransferTest", "receiveTransferSenderSettleModeSettled")
def test_snd_settle_mode_settled():
    """receiveTransferSenderSettleModeSettled (messaging.TransferTest)"""
    c = Receiving(b"m", snd_settle_mode=1)
    assert c.attach.snd_settle_mode == 1
    c.peer.grant(1)
    ((transfer, _),) = c.peer.deliveries()
    assert transfer.settled
    assert c.broker.unacknowledged() == 0


@case("messaging.TransferTest", "receiveMultipleDeliveries")
def test_one_disposition_for_several_deliveries():
    """receiveMultipleDeliveries (messaging.TransferTest)"""
    c = Receiving(*numbered(3))
    c.peer.grant(3)
    assert c.peer.bodies() == numbered(3)
    c.peer.dispose(0, 2, state=ACCEPTED)
    assert c.broker.unacknowledged() == c.broker.ready() == 0


@case("messaging.OutcomeTest", "modifiedOutcomeWithUndeliverableHere")
def test_undeliverable_here():
    """modifiedOutcomeWithUndeliverableHere (messaging.OutcomeTest): the next message comes, and the first stays for
    other links."""
    c = Receiving(b"not here", b"next")
    c.peer.grant(1)
    assert c.peer.bodies() == [b"not here"]
    c.peer.dispose(0, state=Modified(delivery_failed=True, undeliverable_here=True))
    c.peer.grant(5)
    assert c.peer.bodies() == [b"next"]
    c.peer.detach(1)
    other = c.broker.connect()
    other.begin()
    other.attach_receiver(c.address)
    other.grant(5)
    assert other.bodies() == [b"not here", b"next"]


def test_a_session_goes_on_after_links_have_failed():
    """Faults of links end those links only: a fourth link works after three were detached with an error."""
    c = Sending()
    c.peer.transfer(rcv_settle_mode=1)
    assert c.peer.attach_sender("/queues/missing", handle=1).target is None
    assert c.peer.attach_receiver(None, handle=2, source=Source(), target=Target()).source is None
    assert len(c.peer.take(Detach)) == 3
    assert c.peer.attach_sender(c.address, handle=3).target is not None
    c.peer.transfer(handle=3)
    assert c.queued() == [b"x"]
    assert not c.peer.take(Begin)
