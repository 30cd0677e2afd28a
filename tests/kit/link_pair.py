"""A client of the management node with its two links, on a :class:`~tests.kit.wire.WirePeer`."""

from amqp10.wire.messaging import Source, Target
from amqp10.wire.performatives import Attach
from amqp10.wire.types import ULong
from tests.kit.management import Answer, decode_answer, encode_request
from tests.kit.wire import WirePeer

NODE = "/management"
PAIRED: dict[str, object] = {"paired": True}


class LinkPair:
    """One pair of links: requests go out on ``handle``, answers come in on the handle after it."""

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
        """Attach both links, the one for requests first."""
        self.attach_requests()
        self.attach_answers()
        return self

    def attach_requests(self) -> Attach:
        """Attach the link for requests."""
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
        """Attach the link for answers."""
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
        """Give link credit for answers."""
        self.peer.grant(link_credit, handle=self.answers, channel=self.channel, **fields)

    def send(self, method: str, to: str, body: object = None) -> int:
        """Send a request and do not wait for its answer; returns its message-id."""
        message_id = self._next_message_id
        self._next_message_id += 1
        payload = encode_request(method, to, body, message_id=ULong(message_id))
        self.peer.transfer(handle=self.requests, channel=self.channel, settled=True, payload=payload)
        return message_id

    def take_answers(self) -> list[Answer]:
        """Take the answers that have come."""
        return [decode_answer(payload) for _, payload in self.peer.deliveries()]

    def ask(self, method: str, to: str, body: object = None) -> Answer:
        """Send a request, with link credit for one answer; returns that answer."""
        self.grant(1)
        message_id = self.send(method, to, body)
        (answer,) = self.take_answers()
        assert answer.correlation_id == ULong(message_id)
        return answer
