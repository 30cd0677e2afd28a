"""Flow control in the offsets of a query: a publisher that a broker makes wait is seen by the query that reads."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.links import SendingLink
from amqp10.blocking.requests import BlockingManagement
from amqp10.wire.sections import DATA, encode_section
from pyspark_amqp10.columns import SCHEMA
from pyspark_amqp10.errors import TimedOut
from pyspark_amqp10.login import Login
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.publisher_waits import ASKED_AGAIN_S, UNKNOWN_WAITS, PublisherWaits
from pyspark_amqp10.queue_source import QueueSource
from pyspark_amqp10.stream_source import StreamSource

pytestmark = pytest.mark.slow
Declare = Callable[..., str]
NAMES = count()
MORE_THAN_WINDOW = 2000
"""Messages: what link credit and window allow already is sent, whether the alarm is on or not."""
MESSAGE = encode_section(DATA, b"reading")


@pytest.fixture
def login(broker_options: dict[str, str]) -> Login:
    """How clients log in."""
    return Login.parse(broker_options["url"], user="guest", password_file=broker_options["passwordFile"])


@pytest.fixture
def connection(login: Login) -> Iterator[BlockingConnection]:
    """A connection of another client."""
    with login.connect() as opened:
        yield opened


@pytest.fixture
def held(declare: Declare, connection: BlockingConnection, login: Login) -> Iterator[Callable[..., str]]:
    """Make a queue with one message, at which a publisher then waits for a while because of the memory alarm."""
    management = BlockingManagement(connection)

    def call(*arguments: str) -> str:
        address = declare(f"waits-{next(NAMES)}", *arguments)
        sending = SendingLink.open(publishers, address)
        assert sending.confirm(sending.send([MESSAGE], within_s=10), within_s=10) == []
        management.request("PUT", "/headgate/alarms/memory")
        with pytest.raises(TimedOut, match="memory"):
            sending.send([MESSAGE] * MORE_THAN_WINDOW, within_s=0.5)
        return address

    with login.connect() as publishers:
        yield call
        management.request("DELETE", "/headgate/alarms/memory")


def test_a_queue_shows_for_which_share_of_the_last_minute_its_publisher_waited(
    held: Callable[..., str], broker_options: dict[str, str]
):
    given = {"address": held("x-sequence=true"), "creditPerLink": "300"}
    source = QueueSource(SourceOptions.read(broker_options | given), SCHEMA)
    _, end = source.fetch(source.first())
    source.close()
    flow = end["flow"]
    assert 0.0 < flow["blocked"] <= 1.0
    assert (flow["reason"], flow["link_credit"]) == ("memory", 300)


def test_so_does_a_stream(held: Callable[..., str], broker_options: dict[str, str]):
    given = {"address": held("x-queue-type=stream"), "mode": "stream", "startingOffsets": "earliest"}
    source = StreamSource(SourceOptions.read(broker_options | given))
    source.latest(source.first(), None, None)
    flow = source.lag()["flow"]
    source.close()
    assert 0.0 < flow["blocked"] <= 1.0
    assert (flow["reason"], flow["link_credit"]) == ("memory", 10_000)


def test_other_addresses_have_not_waited_and_the_broker_is_asked_once_a_second(
    held: Callable[..., str], connection: BlockingConnection
):
    now = [100.0]
    waits = PublisherWaits(connection, clock=lambda: now[0])
    assert waits.of(["/queues/other"]) == {"blocked": 0.0, "reason": None}
    address = held()
    now[0] += ASKED_AGAIN_S / 2
    assert waits.of([address]) == {"blocked": 0.0, "reason": None}, "not asked again yet"
    now[0] += ASKED_AGAIN_S
    assert waits.of([address, "/queues/other"])["reason"] == "memory"


def test_a_user_who_may_not_see_links_is_told_nothing_and_asked_no_more(
    connection: BlockingConnection, broker_options: dict[str, str], tmp_path: Path
):
    management = BlockingManagement(connection)
    management.request("PUT", "/headgate/users/reader", {"password": "secret"})
    management.request("PUT", "/headgate/permissions/reader", {"configure": "", "write": "", "read": ".*"})
    file = tmp_path / "password"
    file.write_text("secret", encoding="ascii")
    with Login.parse(broker_options["url"], user="reader", password_file=str(file)).connect() as own:
        waits = PublisherWaits(own, clock=lambda: 1.0)
        assert waits.of(["/queues/q"]) == UNKNOWN_WAITS
        assert waits.of(["/queues/q"]) == UNKNOWN_WAITS
    management.request("DELETE", "/headgate/users/reader")
