"""python-qpid-proton with adaptive flow control: a sender without a target waits for the queues that it used last, and
batches of receivers change nothing of what they get."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.kit.broker_process import BrokerAddress, broker_process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    """A broker with adaptive flow control."""
    file: Path = tmp_path_factory.mktemp("configuration") / "broker.toml"
    file.write_text('[amqp10]\nflow = "adaptive"\n')
    with broker_process("--config", str(file), "--admin", "off") as address:
        yield address


def row(operator, link):
    """The broker's figures of a link."""
    rows = operator.request("GET", "/headgate/links").body["items"]
    (identity,) = {shown["identity"] for shown in rows if shown["name"] == link.name}
    return operator.request("GET", f"/headgate/links/{quote(identity, safe='')}").body


def test_a_sender_without_a_target_waits_for_a_full_queue_and_goes_on(peer, connect, proton, queue_name):
    operator, address = connect().opened(), f"/queues/{queue_name}"
    arguments = {"x-queue-type": "classic", "x-max-length": 5, "x-overflow": "block"}
    assert peer.request("PUT", address, {"arguments": arguments}).subject == "201"
    sender = peer.sender(None, name="relay")
    peer.until(lambda: sender.credit)

    def send(n):
        deliveries = peer.send(sender, *(proton.Message(address=address, body="x") for _ in range(n)))
        peer.settled(deliveries)
        assert {delivery.remote_state for delivery in deliveries} == {proton.Delivery.ACCEPTED}

    send(5)
    assert (row(operator, sender)["withheld"], row(operator, sender)["full_queue"]) == (True, queue_name)
    peer.request("GET", address)
    left = sender.credit
    send(left)
    peer.request("GET", address)
    assert sender.credit == 0
    shown = row(operator, sender)
    why = operator.request("GET", f"/headgate/links/{quote(shown['identity'], safe='')}/why").body
    assert (why["reason"], why["culprit"]) == ("queue-full", f"queue {queue_name}")
    receiver = peer.receiver(address, name="takes all")
    receiver.flow(1000)
    for got in peer.take(receiver, 5 + left):
        got.delivery.update(proton.Delivery.ACCEPTED)
        got.delivery.settle()
    peer.until(lambda: sender.credit, "link credit")
    assert row(operator, sender)["full_queue"] is None
    send(1)


def test_a_receiver_gets_what_its_link_credit_allows_in_order_whatever_it_settles(peer, proton, queue):
    peer.publish(queue, *range(700))
    receiver = peer.receiver(queue, name="receiver")
    receiver.flow(600)
    held = peer.take(receiver, 600)
    assert [got.message.body for got in held] == list(range(600))
    for got in held:
        got.delivery.update(proton.Delivery.ACCEPTED)
        got.delivery.settle()
    receiver.flow(600)
    assert [got.message.body for got in peer.take(receiver, 100)] == list(range(600, 700))
