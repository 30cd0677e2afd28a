"""One end of a link without the other: the exchange of attach and detach, refusals, faults [2.6.3, 2.6.4]."""

import pytest

from amqp10.errors import ConnectionFault, ErrorCondition, LinkFault, SessionFault
from amqp10.protocol.lifecycle import IllegalTransition, LinkState
from amqp10.protocol.link import RECEIVER, SENDER, LinkEnd, OutputHandle, error_from
from amqp10.wire.messaging import Error, Source, Target
from amqp10.wire.performatives import Attach, Detach
from tests.kit.link_channel import LinkChannelInMemory

FAULT = LinkFault(ErrorCondition.NOT_FOUND, "there is no queue 'q'", {"queue": "q"})


def make(role: bool = SENDER) -> tuple[LinkChannelInMemory, LinkEnd]:
    channel = LinkChannelInMemory()
    return channel, LinkEnd(channel, name="orders", role=role, handle=OutputHandle(7))


def attach_of_peer(role: bool = RECEIVER) -> Attach:
    return Attach(name="orders", handle=4, role=role)


def test_we_attach_and_the_peer_answers():
    channel, end = make()
    end.send_attach(source=Source(address="a"), target=Target(), snd_settle_mode=1, initial_delivery_count=9)
    ((attach, _),) = channel.take()
    assert isinstance(attach, Attach)
    assert (attach.name, attach.handle, attach.role, attach.snd_settle_mode) == ("orders", 7, SENDER, 1)
    assert attach.initial_delivery_count == 9
    assert end.local is attach
    assert end.state is LinkState.ATTACH_SENT
    assert not end.attached
    end.attach_received(attach_of_peer())
    assert end.attached
    assert (end.incoming_handle, end.remote) == (4, attach_of_peer())


def test_the_peer_attaches_and_we_answer():
    channel, end = make(RECEIVER)
    end.attach_received(attach_of_peer(SENDER))
    assert end.state is LinkState.ATTACH_RCVD
    end.send_attach(
        source=None,
        target=Target(),
        rcv_settle_mode=1,
        max_message_size=10,
        offered_capabilities=("queue",),
        properties={"paired": True},
    )
    assert end.attached
    assert channel.taken(Attach) == [
        Attach(
            name="orders",
            handle=7,
            role=RECEIVER,
            rcv_settle_mode=1,
            target=Target(),
            max_message_size=10,
            offered_capabilities=("queue",),
            properties={"paired": True},
        )
    ]


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_refusal_is_an_attach_with_null_termini_and_a_detach(role):
    channel, end = make(role)
    end.attach_received(attach_of_peer(not role))
    end.refuse(FAULT)
    (attach, _), (detach, _) = channel.take()
    assert isinstance(attach, Attach)
    assert (attach.source, attach.target) == (None, None)
    assert attach.initial_delivery_count == (0 if role is SENDER else None)
    assert detach == Detach(
        handle=7,
        closed=True,
        error=Error(condition="amqp:not-found", description="there is no queue 'q'", info={"queue": "q"}),
    )
    assert end.state is LinkState.DETACH_SENT
    assert end.detach_received() is False
    assert end.state is LinkState.GONE


@pytest.mark.parametrize("closed", [True, False])
def test_the_peer_detaches_first_and_is_answered(closed):
    channel, end = make()
    end.attach_received(attach_of_peer())
    end.send_attach(source=None, target=None)
    channel.take()
    assert end.detach_received() is True
    assert end.state is LinkState.DETACH_RCVD
    end.detach(closed=closed)
    assert channel.taken(Detach) == [Detach(handle=7, closed=closed)]
    assert end.state is LinkState.GONE


def test_a_detach_of_ours_waits_for_the_answer():
    _, end = make()
    end.send_attach(source=None, target=None)
    end.detach()
    assert end.state is LinkState.DETACH_SENT
    end.attach_received(attach_of_peer())
    assert end.state is LinkState.DETACH_SENT
    assert not end.detach_received()
    assert end.state is LinkState.GONE


def test_what_the_peer_may_not_do_ends_the_session():
    _, end = make()
    with pytest.raises(SessionFault, match="'orders': closing received in state DETACHED") as fault:
        end.detach_received()
    assert fault.value.condition is ErrorCondition.ILLEGAL_STATE
    end.attach_received(attach_of_peer())
    with pytest.raises(SessionFault, match="opening received in state ATTACH_RCVD"):
        end.attach_received(attach_of_peer())


def test_what_we_may_not_do_is_a_bug():
    _, end = make()
    with pytest.raises(IllegalTransition):
        end.detach()
    end.send_attach(source=None, target=None)
    with pytest.raises(IllegalTransition):
        end.send_attach(source=None, target=None)


def test_an_error_keeps_what_the_fault_says_and_fits_a_frame():
    assert error_from(FAULT) == Error(
        condition="amqp:not-found", description="there is no queue 'q'", info={"queue": "q"}
    )
    long = error_from(ConnectionFault(ErrorCondition.NOT_ALLOWED, "ä" * 1000))
    assert long.info is None
    assert long.description is not None
    assert len(long.description.encode()) <= 400
    assert long.description.endswith("…")
