"""The client for scripts, against a broker in a process of its own: no test of it awaits."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from amqp10.client import (
    Backoff,
    ClientSettings,
    ConnectionLost,
    LinkClosed,
    LinkWait,
    Message,
    NotAccepted,
    NotLetIn,
    ReceiverOptions,
    RequestRefused,
    SendTimedOut,
    TimedOut,
    Unreachable,
)
from amqp10.client.scripts import ScriptConnection, connect
from amqp10.wire.messaging import Released
from amqp10.wire.sections import Properties
from tests.kit.broker_process import BrokerAddress, broker_process

pytestmark = pytest.mark.slow

WITHIN_S = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerAddress]:
    with broker_process() as address:
        yield address


def connection_ids(connection: ScriptConnection) -> dict[object, str]:
    """The connections of the broker, by their clients' names."""
    return {row.get("container_id"): str(row["identity"]) for row in listed(connection, "connections")}


def listed(connection: ScriptConnection, kind: str) -> list[dict[str, object]]:
    """The rows of a kind."""
    body = connection.request("GET", f"/headgate/{kind}").body
    assert isinstance(body, dict)
    return body["items"]


def port_of(connection: ScriptConnection) -> object:
    """Where the connection is. A request that was under way when the connection was lost is made again."""
    while True:
        try:
            return listed(connection, "connections")[0]["local_port"]
        except ConnectionLost:
            continue


def test_a_script_goes_on_at_another_broker(broker: BrokerAddress):
    settings = ClientSettings(reconnect=Backoff(first_s=0.05))
    with ExitStack() as ending:
        other = ending.enter_context(broker_process())
        with connect([other.url(), broker.url()], settings) as connection:
            assert port_of(connection) == other.port
            ending.close()
            assert port_of(connection) == broker.port


def test_a_script_sends_and_receives(broker: BrokerAddress):
    with connect(broker.url()) as connection:
        assert "product" in connection.broker
        connection.request("PUT", "/queues/script", {})
        with connection.open_sender("/queues/script") as sender:
            sender.send(Message("one"), within_s=WITHIN_S)
            assert sender.send_many((Message(f"{number}") for number in range(600)), within_s=WITHIN_S) == 600
        with connection.open_receiver("/queues/script") as receiver:
            first = receiver.receive(within_s=WITHIN_S)
            assert (first.message.body, first.view.body) == ("one", "one")
            first.accept()
            bodies: list[object] = []
            while len(bodies) < 600:
                batch = receiver.receive_batch(100, within_s=WITHIN_S)
                bodies += [delivery.message.body for delivery in batch]
                receiver.accept(batch)
            assert bodies == [f"{number}" for number in range(600)]
            with pytest.raises(TimedOut, match=r"no message came from /queues/script within 0\.05 s"):
                receiver.receive(within_s=0.05)


def test_a_loop_takes_messages_ahead_and_the_next_call_goes_on_behind_it(broker: BrokerAddress):
    with connect(broker.url()) as connection, connection.open_receiver(None) as receiver:
        assert receiver.address is not None
        connection.open_sender(receiver.address).send_many(Message(number) for number in range(250))
        bodies = []
        for delivery in receiver:
            bodies.append(delivery.message.body)
            delivery.accept()
            if len(bodies) == 150:
                break
        while len(bodies) < 250:
            bodies += [delivery.message.body for delivery in receiver.receive_batch(500, within_s=WITHIN_S)]
        assert bodies == list(range(250))


def test_what_was_released_comes_again_and_what_was_rejected_does_not(broker: BrokerAddress):
    with connect(broker.url()) as connection:
        receiver = connection.open_receiver(None)
        sender = connection.open_sender(receiver.address)
        for body in ("released", "rejected", "failed"):
            sender.send(Message(body))
        deliveries = {}
        for delivery in receiver:
            deliveries[delivery.message.body] = delivery
            if len(deliveries) == 3:
                break
        deliveries["rejected"].reject()
        deliveries["released"].release()
        deliveries["failed"].modify()
        again = {receiver.receive(within_s=WITHIN_S).message.body for _ in range(2)}
        assert again == {"released", "failed"}
        with pytest.raises(TimedOut):
            receiver.receive(within_s=0.05)


def test_what_is_not_accepted_is_an_error_that_names_the_message(broker: BrokerAddress):
    with connect(broker.url()) as connection, connection.open_sender("/exchanges/amq.direct/nowhere") as sender:
        with pytest.raises(NotAccepted, match="message 0 was released: no queue takes it") as caught:
            sender.send(Message(b"lost"))
        assert caught.value.refused[0].fate == Released()
        with (
            pytest.raises(NotAccepted, match=r"2 of 2 .*message 0 \(message-id 'a'\)") as caught,
            sender.batch() as batch,
        ):
            batch.send_many(Message(b"lost", properties=Properties(message_id=name)) for name in "ab")
        assert [one.position for one in caught.value.refused] == [0, 1]


def test_a_time_out_says_why_the_broker_makes_the_script_wait(broker: BrokerAddress):
    told: list[tuple[str | None, LinkWait | None]] = []
    ended = threading.Event()

    def note(address: str | None, wait: LinkWait | None) -> None:
        told.append((address, wait))
        if wait is None:
            ended.set()

    with connect(broker.url(), ClientSettings(when_waiting=note)) as connection:
        arguments = {"x-max-length": 1, "x-overflow": "block"}
        connection.request("PUT", "/queues/small", {"arguments": arguments})
        with connection.open_sender("/queues/small") as sender:
            with (
                pytest.raises(NotAccepted, match=r"no answer within 1 s; .*queue-full \(queue small\)") as unsent,
                sender.batch(within_s=1) as batch,
            ):
                batch.send_many(map(Message, range(2000)))
            assert unsent.value.count + unsent.value.accepted <= 2000
            with pytest.raises(
                SendTimedOut, match=r"queue-full \(queue small\) since .*; consume from the queue"
            ) as late:
                sender.send(Message(b"one more"), within_s=0.5)
            assert not late.value.sent
            assert (sender.wait and sender.wait.culprit) == "queue small"
            connection.request("DELETE", "/queues/small/messages")
            assert ended.wait(WITHIN_S)
            sender.send(Message(b"there is room"), within_s=WITHIN_S)
    assert (told[0][0], told[0][1] and told[0][1].reason, told[-1]) == (
        "/queues/small",
        "queue-full",
        ("/queues/small", None),
    )


def test_a_lost_connection_comes_back(broker: BrokerAddress):
    settings = ClientSettings(container_id="lost", reconnect=Backoff(first_s=0.01))
    with connect(broker.url()) as other, connect(broker.url(), settings) as connection:
        connection.request("PUT", "/queues/lost", {})
        with connection.open_sender("/queues/lost") as sender, connection.open_receiver("/queues/lost") as receiver:
            sender.send_many(Message(number) for number in range(3))
            taken = next(iter(receiver))
            closed = connection_ids(other)["lost"]
            other.request("DELETE", f"/headgate/connections/{closed}")
            while connection_ids(other).get("lost") in (None, closed):
                pass  # a message that is sent meanwhile may be uncertain
            sender.send(Message(3), within_s=WITHIN_S)
            taken.accept()  # its link is gone, so this has no effect
            bodies = []
            while len(bodies) < 4:
                delivery = receiver.receive(within_s=WITHIN_S)
                bodies.append(delivery.message.body)
                delivery.accept()
            assert sorted(map(str, bodies)) == ["0", "1", "2", "3"], "those taken ahead before the loss are dropped"


def test_a_connection_that_is_over_says_so(broker: BrokerAddress):
    settings = ClientSettings(container_id="over", reconnect=None)
    with connect(broker.url()) as other, connect(broker.url(), settings) as connection:
        sender = connection.open_sender(connection.open_receiver(None).address)
        other.request("DELETE", f"/headgate/connections/{connection_ids(other)['over']}")
        with pytest.raises((ConnectionLost, NotAccepted)):
            sender.send_many(map(Message, range(100_000)), within_s=WITHIN_S)
        with pytest.raises(ConnectionLost):
            sender.send(Message(b"x"))
        with pytest.raises(NotAccepted) as caught:
            sender.send_many([Message(b"x")])
        assert isinstance(caught.value.__cause__, ConnectionLost)
    with pytest.raises(ConnectionLost, match="its block has ended"):
        sender.send(Message(b"x"))


def test_errors_come_out_as_themselves_and_no_thread_is_left(broker: BrokerAddress):
    before = threading.active_count()
    with pytest.raises(NotLetIn), connect(broker.url("guest:wrong")):
        pytest.fail("let in")
    with pytest.raises(Unreachable), connect("amqp://127.0.0.1:1"):
        pytest.fail("connected")
    with connect(broker.url(), ClientSettings(container_id="script")) as connection:
        with pytest.raises(RequestRefused):
            connection.request("GET", "/queues/nowhere")
        with pytest.raises(LinkClosed, match="nowhere"):
            connection.open_receiver("/queues/nowhere")
        with pytest.raises(ValueError, match="an encoded message"):
            connection.open_sender(None).send(b"no message")
    with pytest.raises(KeyError), connect(broker.url()):
        raise KeyError("mine")
    assert threading.active_count() == before


def test_an_interrupt_ends_a_call_and_leaves_no_thread(broker: BrokerAddress):
    """The link credit of the receiver shows that the script waits in the loop, or is about to."""
    before, script = threading.active_count(), threading.main_thread().ident
    assert script == threading.get_ident()

    def interrupt() -> None:
        with connect(broker.url()) as other:
            while not any(row["link_credit"] for row in rows(other, "waits")):
                pass
        signal.pthread_kill(script, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores the signal
    try:
        with pytest.raises(KeyboardInterrupt):
            receive_until_interrupted(broker, other)
    finally:
        signal.signal(signal.SIGINT, former)
        other.join()
    assert threading.active_count() == before
    with connect(broker.url()) as connection:
        assert rows(connection, "waits") == []


def receive_until_interrupted(broker: BrokerAddress, other: threading.Thread) -> None:
    """Receive from a queue to which nothing is sent."""
    with (
        connect(broker.url(), ClientSettings(container_id="waits")) as connection,
        connection.open_receiver(None) as receiver,
    ):
        other.start()
        for delivery in receiver:
            pytest.fail(f"{delivery} came")


def rows(connection: ScriptConnection, container_id: str) -> list[dict[str, object]]:
    """The links of a client."""
    own = connection_ids(connection).get(container_id)
    return [link for link in listed(connection, "links") if link["connection"] == own]


def test_threads_share_a_connection(broker: BrokerAddress):
    with connect(broker.url()) as connection:
        receiver = connection.open_receiver(None, options=ReceiverOptions(settled=True))
        sender = connection.open_sender(receiver.address)
        threads = [threading.Thread(target=sender.send, args=[Message(number)]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {receiver.receive(within_s=WITHIN_S).message.body for _ in range(8)} == set(range(8))


def test_a_slow_iterator_is_read_in_the_calling_thread(broker: BrokerAddress):
    threads = set()

    def messages() -> Iterator[Message]:
        for number in range(300):
            threads.add(threading.get_ident())
            yield Message(number)

    with connect(broker.url()) as connection:
        sender = connection.open_sender(connection.open_receiver(None).address)
        assert sender.send_many(messages()) == 300
    assert threads == {threading.get_ident()}
