"""What a client of AMQP 1.0 may try with queues and exchanges, and how it is told that it must not."""

from collections.abc import Callable

from amqp10.wire.messaging import Accepted, Rejected
from amqp10.wire.performatives import Attach, Detach, Disposition
from amqp10.wire.sections import Properties, encode_properties
from core.access.rights import Rights
from tests.kit.link_pair import LinkPair
from tests.kit.wire import InProcessBroker, WirePeer, data_message

UNAUTHORIZED = "amqp:unauthorized-access"

Act = Callable[[WirePeer], str | None]
"""Does something; returns the text of the refusal, or None."""


def _refusal_of_attach(peer: WirePeer, answer: Attach, *, sends: bool) -> str | None:
    detaches = peer.take(Detach)
    if not detaches:
        return None
    error = detaches[0].error
    assert error is not None
    assert error.condition == UNAUTHORIZED
    assert (answer.target if sends else answer.source) is None, "the terminus of a refused attach is null"
    return error.description


def sends_to(address: str | None, **fields: object) -> Act:
    """Attach a sender to this address."""

    def act(peer: WirePeer) -> str | None:
        return _refusal_of_attach(peer, peer.attach_sender(address, **fields), sends=True)

    return act


def receives_from(address: str | None, **fields: object) -> Act:
    """Attach a receiver to this address."""

    def act(peer: WirePeer) -> str | None:
        return _refusal_of_attach(peer, peer.attach_receiver(address, **fields), sends=False)

    return act


def publishes(to: str, *, settled: bool = False) -> Act:
    """Send a message to this address over the anonymous terminus."""

    def act(peer: WirePeer) -> str | None:
        assert sends_to(None)(peer) is None
        peer.frames.clear()
        peer.transfer(payload=encode_properties(Properties(to=to)) + data_message(b"x"), settled=settled)
        if settled:
            detaches = peer.take(Detach)
            assert not detaches or detaches[0].error.info["delivery-tag"]
            return detaches[0].error.description if detaches else None
        (disposition,) = peer.take(Disposition)
        if isinstance(disposition.state, Accepted):
            return None
        assert isinstance(disposition.state, Rejected)
        assert disposition.state.error.condition == UNAUTHORIZED
        return disposition.state.error.description

    return act


def requests(method: str, to: str, body: object = None) -> Act:
    """Send a request to the management node."""

    def act(peer: WirePeer) -> str | None:
        pair = LinkPair(peer).attach()
        pair.grant(1)
        answer = pair.ask(method, to, body)
        assert answer.status < 300 or answer.status == 403, answer.body
        return str(answer.body) if answer.status == 403 else None

    return act


def connected(broker: InProcessBroker, rights: Rights) -> WirePeer:
    """A client with a session, whose user has these rights."""
    broker.rights = rights
    peer = broker.connect()
    peer.begin()
    return peer
