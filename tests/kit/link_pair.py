"""A client of the management node over its two links, on a :class:`~tests.kit.wire.WirePeer`."""

from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.types import ULong
from tests.kit.management import Answer, decode_answer, encode_request
from tests.kit.wire import WirePeer

NODE = "/management"
PAIRED: dict[str, object] = {"paired": True}


class LinkPair:
    """One pair: requests go out on ``handle``, answers come in on the handle after it."""

    def __init__(
        self, peer: WirePeer, *, handle: int = 10, channel: int = 0, name: str = "management-link-pair"
    ) -> None:
        self.peer = peer
        self.channel = channel
        self.requests, self.answers = handle, handle + 1
        self.name = name
        self._granted = 0
        self._next_message_id = 1

    def attach(self) -> "LinkPair":
        """Both halves, the one for requests first."""
        self.attach_requests()
        self.attach_answers()
        return self

    def attach_requests(self) -> Attach:
        """The half that we send on."""
        return self.peer.attach_sender(
            NODE,
            handle=self.requests,
            channel=self.channel,
            name=self.name,
            snd_settle_mode=1,
            source=Source(address=NODE),
            properties=PAIRED,
        )

    def attach_answers(self) -> Attach:
        """The half that we receive on."""
        return self.peer.attach_receiver(
            NODE,
            handle=self.answers,
            channel=self.channel,
            name=self.name,
            snd_settle_mode=1,
            target=Target(address=NODE),
            properties=PAIRED,
        )

    def grant(self, link_credit: int, **fields: object) -> None:
        """Link credit for answers."""
        self.peer.grant(link_credit, handle=self.answers, channel=self.channel, **fields)

    def send(self, method: str, to: str, body: object = None) -> int:
        """A request without waiting for its answer; returns its message-id."""
        message_id = self._next_message_id
        self._next_message_id += 1
        payload = encode_request(method, to, body, message_id=ULong(message_id))
        self.peer.transfer(handle=self.requests, channel=self.channel, settled=True, payload=payload)
        return message_id

    def take_answers(self) -> list[Answer]:
        """The answers that have come."""
        return [decode_answer(payload) for _, payload in self.peer.deliveries()]

    def ask(self, method: str, to: str, body: object = None) -> Answer:
        """A request and its answer, with link credit for just that."""
        self.grant(1)
        message_id = self.send(method, to, body)
        (answer,) = self.take_answers()
        assert answer.correlation_id == ULong(message_id)
        return answer
