"""python-qpid-proton: outcomes, redelivery, and unsettled messages of links that end."""

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]


def bodies(received):
    return [got.message.body for got in received]


def dispose(got, state, *, failed=False, undeliverable=False, annotations=None):
    local = got.delivery.local
    local.failed, local.undeliverable, local.annotations = failed, undeliverable, annotations
    got.delivery.update(state)
    got.delivery.settle()


def again(peer, queue, credit=10):
    """Everything in the queue, as a new link gets it."""
    receiver = peer.receiver(queue, name="again")
    receiver.flow(credit)
    return peer.drain(receiver)


@pytest.mark.parametrize("state", ["ACCEPTED", "REJECTED"])
def test_outcomes_that_end_a_message(peer, proton, queue, state):
    peer.publish(queue, "one")
    receiver = peer.receiver(queue)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    dispose(got, getattr(proton.Delivery, state))
    assert again(peer, queue) == []


@pytest.mark.parametrize(
    ("state", "fields", "delivery_count"),
    [
        ("RELEASED", {}, 0),
        ("MODIFIED", {}, 0),
        ("MODIFIED", {"failed": True}, 1),
    ],
)
def test_outcomes_that_give_a_message_back(peer, proton, queue, state, fields, delivery_count):
    peer.publish(queue, "one")
    receiver = peer.receiver(queue)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    assert got.message.first_acquirer
    assert got.message.delivery_count == 0
    dispose(got, getattr(proton.Delivery, state), **fields)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    assert got.message.body == "one"
    assert not got.message.first_acquirer
    assert got.message.delivery_count == delivery_count


def test_settling_without_an_outcome_releases(peer, queue):
    peer.publish(queue, "one")
    receiver = peer.receiver(queue)
    receiver.flow(1)
    peer.take(receiver, 1)[0].delivery.settle()
    assert bodies(again(peer, queue)) == ["one"]


def test_modified_brings_annotations(peer, proton, queue):
    peer.publish(queue, "one")
    receiver = peer.receiver(queue)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    dispose(got, proton.Delivery.MODIFIED, annotations={proton.symbol("x-opt-why"): "busy"})
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    assert got.message.annotations[proton.symbol("x-opt-why")] == "busy"


def test_undeliverable_here_comes_never_to_this_link_again(peer, proton, queue):
    peer.publish(queue, "not for me", "next")
    receiver = peer.receiver(queue)
    receiver.flow(1)
    (got,) = peer.take(receiver, 1)
    dispose(got, proton.Delivery.MODIFIED, failed=True, undeliverable=True)
    receiver.flow(2)
    assert bodies(peer.take(receiver, 1)) == ["next"]
    (got,) = again(peer, queue)
    assert (got.message.body, got.message.delivery_count) == ("not for me", 1)


def test_what_is_given_back_goes_to_its_place(peer, proton, queue):
    peer.publish(queue, *range(8))
    receiver = peer.receiver(queue)
    receiver.flow(6)
    taken = peer.take(receiver, 6)
    for number in (4, 1, 3):
        dispose(taken[number], proton.Delivery.RELEASED)
    for number in (0, 2, 5):
        dispose(taken[number], proton.Delivery.ACCEPTED)
    assert bodies(again(peer, queue)) == [1, 3, 4, 6, 7]


@pytest.mark.parametrize("ended", ["link", "session", "connection"])
def test_what_was_not_settled_comes_back_in_order(peer, connect, proton, queue, ended):
    peer.publish(queue, *range(10))
    other = connect().opened()
    session = other.session()
    receiver = other.receiver(queue, session=session)
    receiver.flow(7)
    taken = other.take(receiver, 7)
    dispose(taken[3], proton.Delivery.ACCEPTED)
    endpoint = {"link": receiver, "session": session, "connection": other.connection}[ended]
    endpoint.close()
    other.closed(endpoint)
    got = again(peer, queue, 20)
    assert bodies(got) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert [one.message.first_acquirer for one in got] == 6 * [False] + 3 * [True]


def test_two_consumers_of_which_one_goes(peer, queue):
    """The other consumer gets the unsettled messages of the first at once, in order."""
    going, staying = peer.receiver(queue, name="going"), peer.receiver(queue, name="staying")
    going.flow(10)
    staying.flow(20)
    peer.attached(going, staying)
    peer.publish(queue, *range(10))
    gone = bodies(peer.take(going, 5))
    kept = bodies(peer.take(staying, 5))
    assert sorted(gone + kept) == list(range(10))
    going.close()
    assert bodies(peer.take(staying, 5)) == gone


def test_thousands_settled_by_one_range(peer, proton, queue):
    peer.publish(queue, *range(2000))
    receiver = peer.receiver(queue)
    receiver.flow(2000)
    for got in peer.take(receiver, 2000):
        dispose(got, proton.Delivery.ACCEPTED)
    receiver.close()
    peer.closed(receiver)
    assert peer.request("GET", queue).body["message_count"] == 0


# --- deliveries that are not finished --------------------------------------------------------------------------------


def begin_to_send(peer, sender, tag, n):
    """Send the first frames of a longer delivery."""
    peer.until(lambda: sender.credit)
    delivery = sender.delivery(tag)
    sender.stream(b"\x00\x53\x75\xb0\x00\x01\x00\x00" + bytes(n))
    peer.request("GET", "/queues/nowhere")
    return delivery


def test_an_aborted_delivery_leaves_nothing(peer, proton, queue):
    sender = peer.sender(queue)
    before = begin_to_send(peer, sender, "partial", 20_000)
    before.abort()
    deliveries = peer.send(sender, proton.Message(body="whole"))
    peer.settled(deliveries)
    assert bodies(again(peer, queue)) == ["whole"]


def test_a_delivery_that_its_link_leaves_unfinished(peer, queue):
    sender = peer.sender(queue)
    begin_to_send(peer, sender, "partial", 20_000)
    sender.close()
    peer.closed(sender)
    assert again(peer, queue) == []


def test_a_connection_that_breaks_inside_a_delivery(peer, connect, queue):
    other = connect().opened()
    begin_to_send(other, other.sender(queue), "partial", 20_000)
    other.connection.transport.close_tail()
    other.connection.transport.close_head()
    peer.publish(queue, "whole")
    assert bodies(again(peer, queue)) == ["whole"]
