"""The script of python-qpid-proton, driven step by step."""

from contextlib import suppress
from importlib.metadata import version as version_of

from proton import Delivery, Link, Message, symbol

from tests.kit.proton_peer import ProtonPeer

QUEUE, OTHER = "/queues/recorded-proton", "/queues/recorded-proton-other"
CONTAINER = "recorded-proton"
SIZES = (0, 1, 200, 255, 256, 5_000, 40_000)
MANUAL = {"rcv_settle_mode": Link.RCV_FIRST}


def version() -> str:
    """The client and its version."""
    return f"python-qpid-proton {version_of('python-qpid-proton')}"


def converse(url: str) -> None:
    """Run the script: one connection after the other."""
    anonymous(url.replace("guest:guest@", ""))
    peer = ProtonPeer(url, {}, CONTAINER).opened()
    declare(peer)
    publish(peer)
    consume(peer)
    outcomes(peer)
    links(peer)
    refusals(peer)
    peer.request("DELETE", OTHER)
    peer.close()
    small_frames(url)


def anonymous(url: str) -> None:
    """Log in without a name."""
    peer = ProtonPeer(url, {"allowed_mechs": "ANONYMOUS"}, CONTAINER)
    with suppress(AssertionError):  # a broker that refuses ANONYMOUS closes the connection
        peer.opened()
    peer.close()


def declare(peer: ProtonPeer) -> None:
    """Queues, exchanges and bindings by management, and requests that are refused."""
    classic = {"arguments": {"x-queue-type": "classic"}}
    for method, path, body in [
        ("PUT", QUEUE, classic),
        ("PUT", QUEUE, classic),
        ("PUT", QUEUE, {"arguments": {"x-queue-type": "quorum"}}),
        ("PUT", OTHER, {"durable": False, "arguments": {"x-max-length": 3, "x-overflow": "reject-publish"}}),
        ("PUT", "/queues/recorded-proton-bad", {"arguments": {"x-no-such": 1}}),
        ("PUT", "/exchanges/recorded-proton", {"type": "topic", "durable": False}),
        ("PUT", "/exchanges/recorded-proton", {"type": "fanout"}),
        ("POST", "/bindings", {"source": "recorded-proton", "destination_queue": "recorded-proton",
                               "binding_key": "a.*", "arguments": {}}),
        ("GET", "/bindings?src=recorded-proton&dstq=recorded-proton&key=a.%2A", None),
        ("GET", "/queues/nowhere", None),
        ("BREW", "/queues/nowhere", None),
        ("DELETE", "/exchanges/amq.topic", None),
    ]:  # fmt: skip
        peer.request(method, path, body)


def publish(peer: ProtonPeer) -> None:
    """Unsettled and settled messages of many sizes, to a queue, an exchange and the anonymous terminus."""
    sender = peer.sender(QUEUE)
    for size in SIZES:
        peer.settled(peer.send(sender, Message(body=bytes(size), durable=size > 200)))
    peer.settled(peer.send(sender, rich_message()))
    sender.close()
    settled = peer.sender(QUEUE, name="settled", snd_settle_mode=Link.SND_SETTLED)
    for size in (10, 20_000):
        peer.send(settled, Message(body="s" * size))
        peer.until(lambda: not settled.queued, "the settled message to be written")
    settled.close()
    routed = peer.sender("/exchanges/recorded-proton/a.b")
    peer.settled(peer.send(routed, Message(body="routed")))
    unrouted = peer.sender("/exchanges/recorded-proton/nothing")
    peer.settled(peer.send(unrouted, Message(body="unroutable")))
    anonymous_terminus = peer.sender(None, name="anonymous terminus")
    for address in (QUEUE, "/queues/nowhere", "nonsense", None):
        peer.settled(peer.send(anonymous_terminus, Message(body="by to", address=address)))
    full = peer.sender(OTHER)
    for _ in range(4):
        peer.settled(peer.send(full, Message(body="until full")))
    for link in (routed, unrouted, anonymous_terminus, full):
        link.close()


def rich_message() -> Message:
    """A message with a value in every section."""
    return Message(
        id="id",
        user_id=b"guest",
        address="to",
        subject="subject",
        reply_to="/queues/reply",
        correlation_id=7,
        content_type="text/plain",
        content_encoding="identity",
        expiry_time=2_000_000_000,
        creation_time=1_000_000_000,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="other group",
        priority=9,
        durable=True,
        ttl=3_600.0,
        annotations={symbol("x-opt-any"): [1, "two", {"three": 3.0}]},
        properties={"text": "täxt", "number": -1, "real": 0.5, "none": None, "yes": True},
        body={"list": [1, 2, 3], "bytes": b"\0\xff"},
    )


def consume(peer: ProtonPeer) -> None:
    """Link credit in several amounts, drain, echo, and accepting one by one and in a range."""
    receiver = peer.receiver(QUEUE, **MANUAL)
    peer.attached(receiver)
    for amount in (1, 3, 2):
        peer.flow(receiver, amount)
        for one in peer.take(receiver, amount):
            one.delivery.update(Delivery.ACCEPTED)
            one.delivery.settle()
    receiver.flow(20)
    for one in peer.drain(receiver):
        one.delivery.update(Delivery.ACCEPTED)
        one.delivery.settle()
    receiver.flow(5)
    peer.drain(receiver)
    receiver.close()
    peer.until(lambda: receiver.state & receiver.REMOTE_CLOSED, "the detach")


def outcomes(peer: ProtonPeer) -> None:
    """Every outcome of a consumer, and messages that come again."""
    peer.publish(QUEUE, "accept", "reject", "release", "modify", "undeliverable", "keep")
    receiver = peer.receiver(QUEUE, name="outcomes", **MANUAL)
    peer.flow(receiver, 6)
    for one in peer.take(receiver, 6):
        state = {
            "accept": Delivery.ACCEPTED,
            "reject": Delivery.REJECTED,
            "release": Delivery.RELEASED,
            "modify": Delivery.MODIFIED,
            "undeliverable": Delivery.MODIFIED,
        }.get(one.message.body)
        if state is None:
            continue
        one.delivery.local.failed = one.message.body == "modify"
        one.delivery.local.undeliverable = one.message.body == "undeliverable"
        if one.message.body == "modify":
            one.delivery.local.annotations = {symbol("x-opt-why"): "busy"}
        one.delivery.update(state)
        one.delivery.settle()
    peer.flow(receiver, 2)
    for one in peer.take(receiver, 2):
        one.delivery.update(Delivery.ACCEPTED)
        one.delivery.settle()
    receiver.close()
    last = peer.receiver(QUEUE, name="settled by the broker", snd_settle_mode=Link.SND_SETTLED)
    peer.flow(last, 10)
    peer.take(last, 2)
    peer.drain(last)
    last.close()


def links(peer: ProtonPeer) -> None:
    """A dynamic node, second settle mode, a session that ends, and detaching without closing."""
    answers = peer.receiver(None, name="dynamic")
    peer.attached(answers)
    address = answers.remote_source.address
    peer.publish(address, "to the dynamic node")
    peer.flow(answers, 1)
    peer.take(answers, 1)[0].delivery.settle()
    second = peer.receiver(QUEUE, name="second", rcv_settle_mode=Link.RCV_SECOND)
    peer.publish(QUEUE, "second")
    peer.flow(second, 1)
    (one,) = peer.take(second, 1)
    one.delivery.update(Delivery.ACCEPTED)
    peer.until(lambda: one.delivery.settled, "settlement")
    one.delivery.settle()
    session = peer.session()
    ended = peer.receiver(QUEUE, name="of a session that ends", session=session)
    peer.flow(ended, 3)
    peer.publish(QUEUE, "unsettled when the session ends")
    peer.take(ended, 1)
    session.close()
    peer.until(lambda: session.state & session.REMOTE_CLOSED, "the end")
    for link in (answers, second):
        link.detach()
        peer.until(lambda link=link: link.state & link.REMOTE_CLOSED or True, "the detach")


def refusals(peer: ProtonPeer) -> None:
    """Links that the broker refuses, each with its reason."""
    for number, address in enumerate(("/queues/nowhere", "orders", "/queue/old", "/queues/%zz")):
        peer.closed(peer.sender(address, name=f"refused sender {number}"))
        peer.closed(peer.receiver(address, name=f"refused receiver {number}"))
    peer.closed(peer.receiver("/exchanges/amq.topic/a", name="an exchange is no source"))


def small_frames(url: str) -> None:
    """Deliveries of many frames in both directions, with a small session window of the client."""
    peer = ProtonPeer(url, {"max_frame_size": 1024}, CONTAINER).opened()
    peer.publish(QUEUE, "b" * 30_000)
    receiver = peer.receiver(QUEUE, **MANUAL)
    peer.flow(receiver, 10)
    for one in peer.take(receiver, 2):
        one.delivery.update(Delivery.ACCEPTED)
        one.delivery.settle()
    peer.drain(receiver)
    receiver.close()
    peer.request("DELETE", f"{QUEUE}/messages")
    peer.request("DELETE", QUEUE)
    peer.request("DELETE", "/exchanges/recorded-proton")
    peer.close()
