"""``headgate why``: brokers with one slow stage and a publisher on a socket, links and queues, and wrong subjects."""

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.cli.why import kind_of
from core.amqp091.framing import method_frame
from core.amqp091.methods import BasicPublish, ChannelOpen
from core.amqp091.properties import BasicProperties
from core.observe.advice import ADVICE
from tests.kit.amqp091_peer import opening, publish
from tests.kit.amqp091_socket import CHANNEL, GUEST, PERSISTENT
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.command_line import HEADGATE, Ran, start

pytestmark = pytest.mark.slow

AGAIN_SECONDS = 0.5
"""A wait is shown for a second after its end. On a slow machine this second may be over before the command asks, and
the load is sent again."""
DEADLINE_S = 30.0
SMALL = [b"twelve bytes"] * 2000
LARGE = [bytes(4096)] * 50
"""The size of a body that goes to the message store."""

Command = Callable[..., str]
"""Runs ``headgate`` with these words on the broker of the test, and returns the output."""
Headgate = Callable[..., Ran]
Configured = Callable[[str], AbstractContextManager[BrokerAddress]]


@pytest.fixture
def configured(tmp_path: Path) -> Configured:
    """Starts a broker with these lines of configuration."""

    @contextmanager
    def start(lines: str) -> Iterator[BrokerAddress]:
        file = tmp_path / "broker.toml"
        file.write_text(lines, encoding="utf-8")
        with broker_process("--config", str(file)) as broker:
            yield broker

    return start


class Publisher:
    """A connection of AMQP 0.9.1 that publishes and reads nothing."""

    def __init__(self, client: socket.socket, identity: str, ask: Command) -> None:
        self.identity = identity
        self._client = client
        self.ask = ask
        self._load = self._left = b""

    def publish(self, queue: str, bodies: Iterable[bytes], *, persistent: bool = True) -> None:
        """Send as much of the load as the socket takes at once. A broker that stops reading is not waited for."""
        method = BasicPublish(exchange="", routing_key=queue)
        properties = BasicProperties(delivery_mode=PERSISTENT if persistent else 1)
        self._load = b"".join(publish(CHANNEL, body, method=method, properties=properties) for body in bodies)
        self._send()

    def why(self) -> dict[str, object]:
        """The output of the command, as soon as it names an edge."""
        sent = began = time.monotonic()
        while True:
            answer: dict[str, object] = json.loads(self.ask("why", self.identity, "--json"))
            if answer["waits"]:
                return answer
            now = time.monotonic()
            assert now - began < DEADLINE_S, answer
            if now - sent > AGAIN_SECONDS:
                sent = now
                self._send()

    def _send(self) -> None:
        """Send the rest of the load, or the whole load again."""
        self._left = self._left or self._load
        with suppress(BlockingIOError):
            self._left = self._left[self._client.send(self._left, socket.MSG_DONTWAIT) :]


@contextmanager
def publishing(broker: BrokerAddress, headgate: Headgate, kind: str = "classic") -> Iterator[Publisher]:
    """A publisher with a channel, and the queue q."""

    def ask(*words: str) -> str:
        ran = headgate(*words, "--url", broker.url())
        assert ran.code == 0, ran.err
        return ran.out

    ask("queues", "declare", "q", "--argument", f"x-queue-type={kind}")
    with socket.create_connection((broker.host, broker.port)) as client:
        client.sendall(opening(response=GUEST) + method_frame(CHANNEL, ChannelOpen()))
        while not (channels := json.loads(ask("channels", "list", "--json"))):
            pass
        (identity,) = {row["connection"] for row in channels}
        yield Publisher(client, identity, ask)


@pytest.mark.parametrize("budget", [0, 1])
def test_row_1_13_a_slowed_channel(budget: int, configured: Configured, headgate: Headgate):
    lines = f"[engine.stage_messages_per_turn]\nchannel = {budget}\n"
    with configured(lines) as broker, publishing(broker, headgate) as publisher:
        publisher.publish("q", SMALL)
        answer = publisher.why()
    assert (answer["stage"], answer["names"]) == ("channel", [f"{publisher.identity}/{CHANNEL}"])


@pytest.mark.parametrize("budget", [0, 1])
def test_row_1_13_a_slowed_queue(budget: int, configured: Configured, headgate: Headgate):
    lines = f"[engine.stage_messages_per_turn]\nqueue = {budget}\n"
    with configured(lines) as broker, publishing(broker, headgate) as publisher:
        publisher.publish("q", SMALL)
        answer = publisher.why()
    assert (answer["stage"], answer["names"]) == ("queue", ["q"])


def test_row_1_13_a_slowed_message_store(configured: Configured, headgate: Headgate):
    """With stage credit for one body, a body waits until the body before it is written, which takes long. The other
    stages have little stage credit, so that few messages fill them."""
    lines = (
        "[store]\nwrite_delay = 0.07\n"
        "[stage_credit]\ninitial = 4\nmore_after = 2\nstore_initial = 1\nstore_more_after = 1\n"
    )
    with configured(lines) as broker, publishing(broker, headgate) as publisher:
        publisher.publish("q", LARGE)
        answer = publisher.why()
    assert (answer["stage"], answer["names"]) == ("message store", ["q"])


def test_row_4_30_many_small_transient_messages(configured: Configured, headgate: Headgate):
    """No stage is slowed. The channel takes longest."""
    with configured("") as broker, publishing(broker, headgate) as publisher:
        publisher.publish("q", SMALL, persistent=False)
        answer = publisher.why()
    assert (answer["stage"], answer["names"]) == ("channel", [f"{publisher.identity}/{CHANNEL}"])


def test_row_4_30_many_small_persistent_messages(configured: Configured, headgate: Headgate):
    """A quorum queue waits for the disk before it takes more messages."""
    with configured("[store]\nsync_delay = 0.1\n") as broker, publishing(broker, headgate, "quorum") as publisher:
        publisher.publish("q", SMALL)
        answer = publisher.why()
    assert (answer["stage"], answer["names"]) == ("queue", ["q"])


def test_an_alarm(configured: Configured, headgate: Headgate):
    with configured("") as broker, publishing(broker, headgate) as publisher:
        publisher.ask("alarms", "set", "memory")
        publisher.publish("q", SMALL)
        answer = publisher.why()
        told = publisher.ask("why", publisher.identity)
    assert (answer["state"], answer["stage"], answer["names"]) == ("blocked", None, [])
    assert "low on memory" in told


# --- links and queues ----------------------------------------------------------------------------------------------


def test_a_link_and_its_queue(headgate: Headgate, broker_url: str):
    """The broker tells the publisher when the ledger has the stall, so the command sees the stall by then."""
    assert (
        headgate("queues", "declare", "full", "--argument", "x-max-length=1", "--argument", "x-overflow=block").code
        == 0
    )
    publish = start(*HEADGATE, "publish", "/queues/full", *(["hello"] * 500), url=broker_url)
    try:
        assert publish.stderr.readline() == "headgate: waiting; the broker says why: queue-full\n"
        told = json.loads(headgate("why", "/queues/full", "--json").out)
        (one,) = told["publishers"]["who"]
        link = json.loads(headgate("why", one["identity"], "--json").out)
        for answer in (told, link):
            assert (answer["reason"], answer["culprit"], answer["edge"]) == (
                "queue-full",
                "queue full",
                "link -> queue",
            )
        text = headgate("why", one["identity"]).out.splitlines()
        (marked,) = [line for line in text if line.startswith(">")]
        ready = link["numbers"]["messages_ready"]
        assert marked == f"> link -> queue          blocking  queue full has {ready} messages ready, and its limit is 1"
        assert text[-1] == f"What to do: {link['advice']}"
        connection = headgate("why", one["identity"].partition("/")[0]).out
        assert text[-1] in connection
        assert connection.startswith("connection ")
        for answer in (told, link):
            assert answer["root"] == {"kind": "addresses", "identity": "full", "says": "queue full has no consumer"}
            assert answer["last_minute"]["by_reason"][0]["reason"] == "queue-full"
        assert "The root: queue full has no consumer (headgate why full)." in text
        assert any(line.startswith("In the last ") and "queue-full" in line for line in text)
        worst = headgate("why").out
        assert one["identity"] in worst
        assert "queue full has no consumer" in worst
        (item,) = [
            row for row in json.loads(headgate("why", "--json").out)["items"] if row["identity"] == one["identity"]
        ]
        assert (item["present"], item["waits"], item["reason"]) == (True, True, "queue-full")
        assert json.loads(headgate("why", "--limit", "1", "--json").out)["items"] != []
        headgate("queues", "delete", "full")
        assert publish.wait(timeout=10) == Exit.REFUSED
    finally:
        publish.kill()
        publish.communicate()
        headgate("queues", "delete", "full")


def test_where_nothing_has_waited(configured: Configured, headgate: Headgate):
    with configured("") as broker:
        ran = headgate("why", "--url", broker.url())
        assert (ran.code, ran.out.startswith("Nothing has waited in the last ")) == (Exit.DONE, True)
        assert headgate("why", "--vhost", "no-such", "--url", broker.url()).code == Exit.NOT_FOUND


def test_similar_names_of_a_subject_that_does_not_exist(headgate: Headgate):
    headgate("queues", "declare", "invoices")
    for wrong in ("invoice", "/queues/invoces"):
        ran = headgate("why", wrong)
        assert ran.code == Exit.NOT_FOUND
        assert ran.err.startswith(f"headgate: there is no queue '{wrong}'; did you mean invoices")
    ran = headgate("why", "c99999")
    assert ran.code == Exit.NOT_FOUND
    assert ran.err.startswith("headgate: there is no connection 'c99999'; ")
    ran = headgate("why", "c1/0/99999", "--kind", "address")
    assert (ran.code, "there is no queue" in ran.err) == (Exit.NOT_FOUND, True)


def test_a_session_is_none_of_them(headgate: Headgate):
    ran = headgate("why", "c3/0")
    assert ran.code == Exit.USAGE
    assert "headgate why c3" in ran.err


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        ("c17", "connection"),
        ("c17/0/3", "link"),
        ("orders", "address"),
        ("/queues/c17", "address"),
        ("c17x", "address"),
    ],
)
def test_the_kind_of_a_subject_by_its_form(subject: str, kind: str):
    assert kind_of(subject) == kind


def test_the_help_has_every_reason_with_its_advice(capsys: pytest.CaptureFixture[str]):
    assert run(["why", "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    for reason, advice in ADVICE.items():
        assert f"{reason}:" in words
        assert advice.do.replace("`", "")[:60] in words
