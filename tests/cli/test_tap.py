"""``headgate tap``: copies of what passes exchanges, queues and streams, which take nothing away; and errors."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Queue
from threading import Thread

import pytest

from amqp10.cli.exits import Exit
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.command_line import HEADGATE, Ran, run_here, run_process, start

pytestmark = pytest.mark.slow
DEADLINE_S = 30.0


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerAddress]:
    with broker_process() as address:
        yield address


def headgate(broker: BrokerAddress, *words: str) -> Ran:
    return run_here(*words, url=broker.url())


def done(broker: BrokerAddress, *words: str) -> str:
    ran = headgate(broker, *words)
    assert ran.code == Exit.DONE, ran.err
    return ran.out


def queue_names(broker: BrokerAddress) -> Sequence[str]:
    return [row["name"] for row in json.loads(done(broker, "queues", "list", "--json"))]


@contextmanager
def tapped(broker: BrokerAddress, *words: str) -> Iterator["Queue[Ran]"]:
    """A tap that is attached: its queue has a consumer. Its result comes once it ends by itself."""
    ended: Queue[Ran] = Queue()
    process = start(*HEADGATE, "tap", *words, url=broker.url())

    def read() -> None:
        out, err = process.communicate()
        ended.put(Ran(process.returncode, out, err))

    reader = Thread(target=read)
    reader.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not any(
            row["direction"] == "out" and ("headgate-tap" in str(row["address"]) or "log" in str(row["address"]))
            for row in json.loads(done(broker, "links", "list", "--json"))
        ):
            assert time.monotonic() < deadline, "the tap did not attach"
            assert process.poll() is None, "the tap has ended"
        yield ended
    finally:
        process.kill()
        reader.join()


def test_a_tap_of_an_exchange_sees_what_no_queue_wants_too(broker: BrokerAddress):
    with tapped(broker, "/exchanges/amq.topic", "--count", "2") as ended:
        headgate(broker, "publish", "/exchanges/amq.topic/orders.new", "one", "two")
        ran = ended.get(timeout=DEADLINE_S)
    assert (ran.code, ran.out) == (Exit.DONE, "one\ntwo\n")
    assert not [name for name in queue_names(broker) if name.startswith("headgate-tap")]


def test_a_key_chooses(broker: BrokerAddress):
    with tapped(broker, "/exchanges/amq.topic", "--key", "orders.#", "--count", "1", "--json") as ended:
        headgate(broker, "publish", "/exchanges/amq.topic/bills.new", "bill")
        headgate(broker, "publish", "/exchanges/amq.topic/orders.new", "order")
        ran = ended.get(timeout=DEADLINE_S)
    assert json.loads(ran.out)["body"] == "order"


def test_a_tap_of_a_queue_takes_nothing_away(broker: BrokerAddress):
    done(broker, "queues", "declare", "tapped")
    done(broker, "bindings", "create", "amq.direct", "tapped", "--key", "a")
    with tapped(broker, "tapped", "--count", "1") as ended:
        done(broker, "publish", "/queues/tapped", "direct")
        done(broker, "publish", "/exchanges/amq.direct/a", "routed")
        ran = ended.get(timeout=DEADLINE_S)
    assert ran.out == "routed\n"
    assert "only messages that come to queue tapped through an exchange" in ran.err
    assert done(broker, "consume", "/queues/tapped", "--drain") == "direct\nrouted\n"


def test_a_tap_of_a_stream_reads_it(broker: BrokerAddress):
    done(broker, "queues", "declare", "log", "--argument", "x-queue-type=stream")
    with tapped(broker, "log", "--count", "1") as ended:
        done(broker, "publish", "/queues/log", "line")
        ran = ended.get(timeout=DEADLINE_S)
    assert (ran.code, ran.out) == (Exit.DONE, "line\n")


def test_a_tap_ends_when_its_time_is_over(broker: BrokerAddress):
    ran = run_process(*HEADGATE, "tap", "/exchanges/amq.fanout", "--seconds", "0.3", url=broker.url())
    assert (ran.code, ran.out) == (Exit.DONE, "")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("/exchanges/no-such",), Exit.NOT_FOUND, "no-such"),
        (("no-such",), Exit.NOT_FOUND, "no-such"),
        (("/exchanges/amq.topic/orders",), Exit.USAGE, "--key orders"),
        (("orders", "--key", "a"), Exit.USAGE, "--key goes with an exchange"),
        (("/elsewhere/a",), Exit.USAGE, "/elsewhere/a"),
        (("/exchanges/amq.match", "--keep", "0"), Exit.USAGE, "0 is not 1"),
    ],
)
def test_wrong_subjects_are_named(broker: BrokerAddress, words: tuple[str, ...], code: Exit, text: str):
    ran = headgate(broker, "tap", *words)
    assert (ran.code, text in ran.err) == (code, True), ran.err


def test_what_has_no_binding_says_so(broker: BrokerAddress):
    done(broker, "queues", "declare", "alone")
    ran = headgate(broker, "tap", "alone")
    assert ran.code == Exit.REFUSED
    assert "pass no exchange" in ran.err
    done(broker, "exchanges", "declare", "unbound", "--type", "direct")
    ran = headgate(broker, "tap", "/exchanges/unbound")
    assert (ran.code, "use --key" in ran.err) == (Exit.REFUSED, True)
