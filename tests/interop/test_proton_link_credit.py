"""python-qpid-proton: link credit, drain and session windows, as a client sees them."""

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]


def bodies(received):
    return [got.message.body for got in received]


def here(peer, link):
    """What has come on a link when everything that the broker sent before is read."""
    peer.request("GET", "/queues/nowhere")  # answered behind what was under way on the same session
    return bodies(peer.received.get(link.name, []))


def test_no_message_beyond_the_link_credit(peer, queue):
    peer.publish(queue, *range(20))
    receiver = peer.receiver(queue)
    assert here(peer, receiver) == []
    for credit, total in ((5, 5), (1, 6), (4, 10)):
        receiver.flow(credit)
        assert here(peer, receiver) == list(range(total))


@pytest.mark.parametrize("messages", [0, 3, 10, 15])
def test_drain_with_nothing_some_enough_and_more(peer, queue, messages):
    peer.publish(queue, *range(messages))
    receiver = peer.receiver(queue)
    receiver.flow(10)
    assert bodies(peer.drain(receiver)) == list(range(min(messages, 10)))
    assert receiver.credit == 0
    peer.publish(queue, "later")
    assert here(peer, receiver) == []  # the drained link credit is used up
    receiver.flow(10)
    assert here(peer, receiver) == [*range(10, messages), "later"]


def test_drain_more_than_one_queue_grant(peer, queue):
    peer.publish(queue, *range(600))
    receiver = peer.receiver(queue)
    receiver.flow(700)
    assert bodies(peer.drain(receiver)) == list(range(600))
    assert receiver.credit == 0


def test_link_credit_taken_back(peer, queue):
    receiver = peer.receiver(queue)
    receiver.flow(10)
    assert here(peer, receiver) == []
    receiver.flow(-10)  # a flow sets link credit: proton announces 0
    assert receiver.credit == 0
    assert here(peer, receiver) == []
    peer.publish(queue, *range(5))
    assert here(peer, receiver) == []
    receiver.flow(2)
    assert here(peer, receiver) == [0, 1]


def test_the_largest_link_credit_that_proton_can_give(peer, queue):
    receiver = peer.receiver(queue)
    receiver.flow(2**31 - 1)
    peer.publish(queue, *range(300))
    assert bodies(peer.take(receiver, 300)) == list(range(300))
    assert receiver.credit == 2**31 - 1 - 300


def test_a_publisher_gets_170_and_more_when_half_is_used(peer, proton, queue):
    sender = peer.sender(queue)
    peer.until(lambda: sender.credit)
    assert sender.credit == 170
    deliveries = peer.send(sender, *(proton.Message(body=number) for number in range(84)))
    peer.settled(deliveries)
    assert sender.credit == 86
    peer.settled(peer.send(sender, proton.Message(body=84)))
    peer.until(lambda: sender.credit == 170, "the top-up")


def test_a_link_without_link_credit_holds_up_no_other(peer, queue):
    peer.publish(queue, *range(10))
    waiting, taking = peer.receiver(queue, name="waiting"), peer.receiver(queue, name="taking")
    peer.attached(waiting, taking)
    taking.flow(10)
    assert bodies(peer.take(taking, 10)) == list(range(10))
    assert here(peer, waiting) == []


def test_consumers_take_turns(peer, queue):
    first, second = peer.receiver(queue, name="first"), peer.receiver(queue, name="second")
    first.flow(10)
    second.flow(10)
    peer.attached(first, second)
    assert here(peer, first) == here(peer, second) == []
    peer.publish(queue, *range(10))
    assert sorted(here(peer, first) + here(peer, second)) == list(range(10))
    assert len(here(peer, first)) == 5


def test_a_session_window_of_two_frames(connect, proton, queue):
    """A message of a hundred frames fits through the window, and so do the messages after it."""
    peer = connect(max_frame_size=512).opened()
    session = peer.connection.session()
    session.incoming_capacity = 1024
    session.open()
    receiver = peer.receiver(queue, session=session)
    receiver.flow(2)
    body = bytes(50_000)
    peer.publish(queue, body, "next")
    assert bodies(peer.take(receiver, 2)) == [body, "next"]


def test_the_handler_of_the_examples_with_its_own_prefetch(broker, proton, queue):
    """Proton's handler grants 10 and tops up by itself."""
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    class Example(MessagingHandler):
        sent = 0
        confirmed = 0
        got = []

        def on_start(self, event):
            connection = event.container.connect(broker.url())
            event.container.create_receiver(connection, queue)
            event.container.create_sender(connection, queue)

        def on_sendable(self, event):
            while event.sender.credit and self.sent < 500:
                event.sender.send(proton.Message(body=self.sent))
                self.sent += 1

        def on_accepted(self, event):
            self.confirmed += 1
            self.close_when_done(event)

        def on_message(self, event):
            self.got.append(event.message.body)
            self.close_when_done(event)

        def close_when_done(self, event):
            if self.confirmed == len(self.got) == 500:
                event.connection.close()

    example = Example()
    Container(example).run()
    assert example.got == list(range(500))
