"""Each field of flows, transfers, dispositions and of the ends that a client of AMQP 1.0 may set; and of a publisher's
attach what is about link credit.

The marks are rows of ``docs/protocol/fields.md``, as in ``test_fields.py``.
"""

import pytest

from amqp10.wire.messaging import ACCEPTED, Error, Modified, Received, Rejected
from amqp10.wire.performatives import Close, Detach, Disposition, End, Flow, Transfer
from amqp10.wire.sections import Header, decode_header, scan
from amqp10.wire.types import Described, ULong
from tests.kit.asking_client import AskingClient
from tests.kit.fates import does, ignores, refuses

NOT_IMPLEMENTED, INVALID_FIELD = "amqp:not-implemented", "amqp:invalid-field"
TRANSACTIONAL = Described(ULong(0x34), [b"txn"])


@does(
    "attach",
    "properties (headgate:max-link-credit)",
    "the most link credit that the publisher can use; the answer has what holds, unless another node decides of it. Not"
    " a positive integer: `amqp:invalid-field`",
)
def test_the_link_credit_that_a_publisher_can_use():
    c = AskingClient()
    answer = c.peer.attach_sender(c.address, handle=11, properties={"headgate:max-link-credit": 1000})
    assert (answer.properties or {})["headgate:max-link-credit"] == ULong(1000)
    c.peer.attach_sender(c.address, handle=12, properties={"headgate:max-link-credit": "all"})
    assert c.peer.detached_with(INVALID_FIELD)


# --- flow ------------------------------------------------------------------------------------------------------------


@does(
    "flow",
    "next-incoming-id, incoming-window",
    "how many transfer frames the broker may send; more counted than sent: end",
)
@does("flow", "next-outgoing-id", "accepted with any value [2.5.6]")
@ignores("flow", "outgoing-window", "shown in rows; limits nothing")
@does("flow", "handle", "selects the link; not attached: end, `amqp:session:unattached-handle`")
@does("flow", "delivery-count, link-credit", "of a receiver: its link credit; of a sender: its delivery-count")
@does("flow", "drain, echo", "answered by a flow, after the waiting deliveries")
@ignores("flow", "properties (any other)", "information about the link [2.7.4]")
def test_flows():
    c = AskingClient()
    c.source()
    c.peer.grant(2, incoming_window=1, outgoing_window=0, properties={"mine": 1})
    assert len(c.peer.bodies()) == 1
    c.peer.grant(9, drain=True, echo=True, next_outgoing_id=77)
    assert len(c.peer.bodies()) == 2
    answer = c.peer.pick(Flow)
    assert (answer.drain, answer.link_credit, answer.next_incoming_id) == (True, 0, 77)
    c.peer.flow(handle=9, delivery_count=0, link_credit=1)
    assert c.peer.ended_with("amqp:session:unattached-handle")


@does("flow", "available", "of a sender: shown in the row of its link")
def test_what_a_sender_has():
    c = AskingClient()
    c.target()
    c.peer.flow(handle=0, delivery_count=0, available=9)
    assert c.peer.link(0).credit.available == 9


@refuses("flow", "delivery-count, link-credit, available, drain (without handle)", "end, `amqp:invalid-field` [2.7.4]")
@pytest.mark.parametrize("field", [{"delivery_count": 0}, {"link_credit": 5}, {"available": 0}, {"drain": True}])
def test_link_credit_for_no_link(field: dict[str, object]):
    c = AskingClient()
    c.peer.flow(**field)
    assert c.peer.ended_with(INVALID_FIELD)


@refuses("flow", "properties (txn-id)", "acquiring within a transaction: detach, `amqp:not-implemented`")
def test_nothing_is_acquired_within_a_transaction():
    c = AskingClient()
    c.source()
    c.peer.grant(1, properties={"txn-id": b"t"})
    assert c.refused(NOT_IMPLEMENTED)
    assert not c.peer.deliveries()


# --- transfer --------------------------------------------------------------------------------------------------------


@does("transfer", "handle", "selects the link; not attached, or a link on which the client receives: end")
@does(
    "transfer",
    "delivery-id, delivery-tag",
    "required in the first frame; missing, or changed inside a delivery: detach",
)
@does("transfer", "settled", "the broker sends no outcome; against the link's mode: `amqp:invalid-field`, detach")
@does("transfer", "more, aborted", "the delivery continues, or is discarded")
@ignores("transfer", "batchable", "a hint; the broker always sends outcomes in ranges [2.7.5]")
@ignores("transfer", "state (received)", "has a meaning only for resumed deliveries [3.4.1]")
def test_transfers():
    c = AskingClient()
    c.target()
    state = Received(section_number=0, section_offset=0)
    c.peer.transfer(settled=True, batchable=True, state=state)
    assert not c.peer.take(Disposition)
    c.peer.send_all(c.peer.frames_of(b"\x00\x53\x75\xa0\x03abc", 4))
    assert c.peer.pick(Disposition).state == ACCEPTED
    c.peer.transfer(more=True)
    c.peer.send(Transfer(handle=0, aborted=True, state=TRANSACTIONAL, resume=True))
    assert c.broker.ready() == 5
    c.peer.transfer(delivery_tag=None)
    assert c.peer.detached_with(INVALID_FIELD)


@refuses("transfer", "message-format (other than 0)", "`amqp:not-implemented`, detach")
@does("transfer", "message-format", "0 is the only one [3.2.16]")
@refuses("transfer", "resume", "`amqp:not-implemented`, detach")
@refuses("transfer", "state (any other, such as a transactional one)", "`amqp:not-implemented`, detach")
@pytest.mark.parametrize(
    "field", [{"message_format": 1}, {"resume": True}, {"state": TRANSACTIONAL}, {"state": ACCEPTED}]
)
@pytest.mark.parametrize("later", [False, True])
def test_what_a_transfer_may_not_ask_for(field: dict[str, object], later: bool):
    c = AskingClient()
    c.target()
    if later and "message_format" not in field:
        c.peer.transfer(more=True)
        c.peer.send(Transfer(handle=0, **field), b"x")  # type: ignore[arg-type]
    else:
        c.peer.transfer(**field)
    assert c.refused(NOT_IMPLEMENTED)


@does("transfer", "rcv-settle-mode", "the same as the link's mode")
@refuses(
    "transfer",
    "rcv-settle-mode (not the link's)",
    "second where the link has first: `amqp:invalid-field` [2.7.5]; first where it has second: `amqp:not-implemented`",
)
@pytest.mark.parametrize(
    ("link", "transfer", "condition"), [(0, 0, None), (1, 1, None), (0, 1, INVALID_FIELD), (1, 0, NOT_IMPLEMENTED)]
)
def test_the_receiver_settles_as_the_link_says(link: int, transfer: int, condition: str | None):
    c = AskingClient()
    c.peer.attach_sender(c.address, rcv_settle_mode=link)
    c.peer.transfer(rcv_settle_mode=transfer)
    if condition is not None:
        assert c.refused(condition)
    else:
        assert c.peer.pick(Disposition).settled is not bool(link)


# --- disposition -----------------------------------------------------------------------------------------------------


@does("disposition", "role, first, last", "select the deliveries; `last` before `first`: end, `amqp:invalid-field`")
@does("disposition", "settled", "without a state: the default outcome, released")
@does("disposition", "state", "the four outcomes")
@ignores("disposition", "state (received)", "has no effect: deliveries are not resumed [3.4.1]")
@ignores("disposition", "batchable", "a hint [2.7.6]")
@ignores("received", "section-number, section-offset", "deliveries are not resumed [3.4.1]")
def test_dispositions():
    c = AskingClient()
    c.source()
    c.peer.grant(3)
    assert len(c.peer.deliveries()) == 3
    c.peer.dispose(0, settled=False, state=Received(section_number=0, section_offset=0), batchable=True)
    assert c.broker.unacknowledged() == 3
    c.peer.dispose(0, 1, state=ACCEPTED)
    assert c.broker.unacknowledged() == 1
    c.peer.dispose(2)
    assert (c.broker.unacknowledged(), c.broker.ready()) == (0, 1)


@refuses("disposition", "state (any other, such as a transactional one)", "end, `amqp:not-implemented`")
@pytest.mark.parametrize("role", [True, False])
def test_a_state_that_is_not_known(role: bool):
    c = AskingClient()
    c.peer.send(Disposition(role=role, first=0, settled=True, state=TRANSACTIONAL))
    assert c.peer.ended_with(NOT_IMPLEMENTED)


@does("modified", "delivery-failed, undeliverable-here, message-annotations", "[Settlement](settlement.md)")
def test_modified():
    c = AskingClient()
    c.source()
    c.peer.grant(1)
    c.peer.deliveries()
    c.peer.dispose(0, state=Modified(delivery_failed=True, message_annotations={"x-why": "late"}))
    c.peer.grant(1)
    ((_, payload),) = c.peer.deliveries()
    bounds = scan(payload)
    assert bounds.header is not None
    assert decode_header(payload, *bounds.header) == Header(delivery_count=1)
    assert b"x-why" in payload
    c.peer.dispose(1, state=Modified(undeliverable_here=True))
    c.peer.grant(3)
    assert len(c.peer.bodies()) == 2


@ignores(
    "rejected",
    "error",
    "for people; it would be in the delivery-annotations of the message's next hop, and a rejected message has none"
    " but to a dead letter exchange, where `x-death` says why [3.4.3]",
)
def test_why_a_client_rejects():
    c = AskingClient()
    c.source()
    c.peer.grant(1)
    c.peer.deliveries()
    c.peer.dispose(0, state=Rejected(error=Error(condition="my:reason", description="why", info={"a": 1})))
    assert (c.broker.ready(), c.broker.unacknowledged()) == (2, 0)


# --- the ends --------------------------------------------------------------------------------------------------------


@does("detach", "handle", "selects the link; not attached: end, `amqp:session:unattached-handle`")
@ignores(
    "detach",
    "closed",
    "every detach closes the link: no terminus is kept, as the attach said; the answer has the same value",
)
@ignores("detach", "error", "information; the broker logs it")
@ignores("error", "condition, description, info", "information, wherever a client sends it [2.8.14]")
@ignores("end", "error", "information")
@ignores("close", "error", "information; the broker logs it")
@pytest.mark.parametrize("closed", [False, True])
def test_errors_and_closed_of_detach_end_and_close(closed: bool):
    c = AskingClient()
    error = Error(condition="my:reason", description="why", info={"a": 1})
    c.source()
    c.peer.grant(1)
    c.peer.send(Detach(handle=1, closed=closed, error=error))
    answer = c.peer.pick(Detach)
    assert (answer.closed, answer.error) == (closed, None)
    assert (c.broker.ready(), c.broker.unacknowledged()) == (3, 0)
    c.peer.send(End(error=error))
    assert c.peer.pick(End).error is None
    c.peer.send(Close(error=error))
    assert c.peer.pick(Close).error is None
