"""Requests about the messages of a queue under /headgate/queues."""

import pytest

from core.interface import QueueTarget
from tests.kit.engine import queue
from tests.kit.management import NOW, Console

SOURCE = "/headgate/queues/q%2F1"


@pytest.fixture
def console() -> Console:
    """A broker with three messages in queue q/1, and another queue."""
    made = Console()
    for name in ("q/1", "other/2"):
        made.broker.declare_queue(queue(name), "x")
    made.publish(QueueTarget("q/1"), 3)
    return made


def run(console: Console) -> None:
    while console.broker.turn(NOW):
        pass


def moved(console: Console) -> object:
    run(console)
    return console.ask("GET", SOURCE).body["last_move"]


def test_messages_are_shown_and_stay(console):
    for query, count in (("", 3), ("?count=2", 2)):
        answer = console.ask("GET", f"{SOURCE}/messages{query}")
        assert (answer.status, len(answer.body)) == (200, count)
    assert answer.body[1] == {
        "sequence": 1,
        "bytes": 7,
        "priority": 4,
        "durable": False,
        "delivery_count": 0,
        "expires_at": None,
    }
    assert console.ask("GET", SOURCE).body["messages_ready"] == 3


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("?to=other%2F2", 3),
        ("?to=other%2F2&count=2", 2),
        ("?exchange=amq.topic&key=k.1&count=1", 1),
        ("?exchange=amq.fanout", 3),
    ],
)
def test_messages_are_moved_to_a_queue_or_an_exchange(console, query, count):
    console.ask(
        "POST",
        "/bindings",
        {"source": "amq.topic", "destination_queue": "other/2", "binding_key": "k.*"} | {"arguments": {}},
    )
    console.ask(
        "POST",
        "/bindings",
        {"source": "amq.fanout", "destination_queue": "other/2", "binding_key": ""} | {"arguments": {}},
    )
    answer = console.ask("PUT", f"{SOURCE}/move{query}")
    assert (answer.status, answer.body) == (200, {"move": 1})
    assert moved(console) == {"number": 1, "moved": count, "done": True, "failure": ""}
    assert console.ask("GET", "/headgate/queues/other%2F2").body["messages_ready"] == count


def test_a_replay_of_what_never_died_tells_so(console):
    assert console.ask("PUT", f"{SOURCE}/replay?count=1").body == {"move": 1}
    assert moved(console) == {
        "number": 1,
        "moved": 0,
        "done": True,
        "failure": "a message does not tell in which queue it died",
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/headgate/queues/none/messages", 404, "there is no queue 'none'"),
        ("GET", f"{SOURCE}/messages?count=0", 400, "from 1 to 100"),
        ("GET", f"{SOURCE}/messages?count=many", 400, "count must be a number from 1 to 100, not 'many'"),
        ("PUT", f"{SOURCE}/move", 400, "either to, or exchange and key"),
        ("PUT", f"{SOURCE}/move?to=a&exchange=b", 400, "either to, or exchange and key"),
        ("PUT", f"{SOURCE}/move?to=none", 404, "there is no queue 'none'"),
        ("PUT", f"{SOURCE}/move?to=q%2F1", 400, "cannot be moved to itself"),
        ("PUT", f"{SOURCE}/move?to=other%2F2&count=-1", 400, "from 1 to 999999999999999, not '-1'"),
        ("PUT", f"{SOURCE}/move?to=other%2F2&count=0", 400, "from 1 to 999999999999999, not '0'"),
        ("PUT", f"{SOURCE}/replay?count={10**18}", 400, "count must be a number from 1"),
        ("GET", f"{SOURCE}/move", 405, "only PUT, POST can be done"),
        ("GET", f"{SOURCE}/nothing", 404, "there is no resource"),
    ],
)
def test_what_is_refused(console, method, path, status, text):
    answer = console.ask(method, path)
    assert answer.status == status
    assert text in answer.body
    assert moved(console) is None


def test_one_move_at_a_time(console):
    console.ask("PUT", f"{SOURCE}/move?to=other%2F2")
    answer = console.ask("PUT", f"{SOURCE}/replay")
    assert (answer.status, "being moved already" in answer.body) == (409, True)
