"""A receiver of a stream that is attached again goes on behind the last message that its user has taken."""

from contextlib import asynccontextmanager

import anyio
import pytest

from amqp10.client import ReceiverOptions, connect
from amqp10.client.receiver import AUTOMATIC_LINK_CREDIT, Receiver
from amqp10.client.stream_reading import HEAD_BYTES, StreamReading, reading_of
from amqp10.frontend.stream_filters import FILTER, MATCH_UNFILTERED
from amqp10.protocol.stream_offsets import BEGINS_AT_KEY, OFFSET_SPEC, offset_of
from amqp10.wire.sections import MESSAGE_ANNOTATIONS, Header, encode_header, encode_section
from amqp10.wire.types import Described, Symbol, ULong
from tests.kit.both_libraries import settle
from tests.kit.stream_broker import PATIENT, URL, StreamBroker, stream_broker
from tests.kit.wire import numbered

STREAM = "/queues/s"


def begin(at: object, **options: object) -> ReceiverOptions:
    return ReceiverOptions(filter={OFFSET_SPEC: Described(Symbol(OFFSET_SPEC), at)}, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def reading(options: ReceiverOptions, *, before: int = 0):
    """A broker with a stream that has so many messages, and a receiver from it that comes back."""
    async with stream_broker(durable=True) as broker:
        broker.broker.queue("s", x_queue_type="stream")
        broker.broker.fill(numbered(before), "s")
        async with connect(URL, broker.settings(reconnect=PATIENT)) as connection:
            yield broker, await connection.open_receiver(STREAM, options=options)


async def come_back(broker: StreamBroker) -> None:
    """Cut the connection, and let the client connect again, which it tries after 8 s at the latest."""
    broker.cut()
    await settle()
    await anyio.sleep(9)


async def fill(broker: StreamBroker, n: int, first: int) -> None:
    """Further messages come into the stream."""
    broker.broker.fill(numbered(n, first), "s")
    broker.pump()
    await settle()


def bodies(receiver: Receiver, n: int) -> list[object]:
    """Take and accept the next messages."""
    taken = receiver.receive_nowait(n)
    for delivery in taken:
        delivery.accept()
    return [delivery.message.body for delivery in taken]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("taken", [0, 7, 20])
async def test_each_message_comes_once_whether_it_waited_for_the_user_or_not(library, settled, taken):
    async with reading(begin("first", settled=settled), before=20) as (broker, receiver):
        await settle()
        assert receiver.waiting == 20
        got = bodies(receiver, taken)
        await come_back(broker)
        await fill(broker, 5, 20)
        got += bodies(receiver, 3)
        await come_back(broker)
        got += bodies(receiver, 100)
        assert got == numbered(25)
        assert receiver.status.losses == 2


async def test_what_the_user_has_taken_comes_not_again_though_it_was_not_settled(library):
    async with reading(begin("first"), before=10) as (broker, receiver):
        await settle()
        held = receiver.receive_nowait(4)
        await come_back(broker)
        assert all(receiver.holds(delivery) for delivery in held)
        held[0].accept()
        assert bodies(receiver, 100) == numbered(6, 4)


async def test_link_credit_by_hand_covers_what_is_read_again(library):
    async with reading(begin("first", automatic=False), before=20) as (broker, receiver):
        receiver.grant(10)
        await settle()
        got = bodies(receiver, 4)
        await come_back(broker)
        assert receiver.link_credit == 0
        assert got + bodies(receiver, 100) == numbered(10)


async def test_a_receiver_for_what_comes_next_skips_nothing_that_came_while_it_was_away(library):
    async with reading(begin("next"), before=10) as (broker, receiver):
        broker.cut()
        await fill(broker, 3, 10)
        await anyio.sleep(9)
        assert bodies(receiver, 100) == numbered(3, 10)
        broker.cut()
        await fill(broker, 3, 13)
        await anyio.sleep(9)
        assert bodies(receiver, 100) == numbered(3, 13)


async def test_a_receiver_without_a_filter_goes_on_too(library):
    async with reading(ReceiverOptions(), before=10) as (broker, receiver):
        broker.cut()
        await fill(broker, 3, 10)
        await anyio.sleep(9)
        assert bodies(receiver, 100) == numbered(3, 10)


@pytest.mark.parametrize("taken", [0, 10])
async def test_a_stream_that_was_declared_again_meanwhile_is_read_as_the_filter_says(library, taken):
    async with reading(begin("first"), before=10) as (broker, receiver):
        await settle()
        receiver.receive_nowait(taken)
        broker.down = True
        broker.cut()
        broker.broker.engine.delete_queue("s", broker.broker)
        broker.broker.queue("s", x_queue_type="stream")
        await fill(broker, 3, 100)
        broker.down = False
        await anyio.sleep(9)
        assert bodies(receiver, 100) == numbered(3, 100)
        await come_back(broker)
        await fill(broker, 2, 103)
        assert bodies(receiver, 100) == numbered(2, 103)


async def test_more_than_the_link_credit_is_read_over_many_losses(library):
    n = 3 * AUTOMATIC_LINK_CREDIT
    async with reading(begin("first"), before=n) as (broker, receiver):
        got: list[object] = []
        while len(got) < n:
            await receiver.status.usable()
            while not receiver.waiting:
                await receiver.status.change()
            got += bodies(receiver, 41)
            await come_back(broker)
        assert got == numbered(n)


def test_the_offset_takes_the_place_of_the_beginning_and_other_filters_stay():
    others = {FILTER: Described(Symbol(FILTER), ["a"]), MATCH_UNFILTERED: True}
    place = StreamReading()
    for chosen in ({OFFSET_SPEC: "first"}, {"any": Described(Symbol(OFFSET_SPEC), "first")}):
        place.next_offset = None
        assert reading_of({**others, **chosen}) is not None
        assert place.filters({**others, **chosen}) == {**others, **chosen}
        place.next_offset = 7
        assert place.filters({**others, **chosen}) == {**others, OFFSET_SPEC: Described(Symbol(OFFSET_SPEC), ULong(7))}
    assert reading_of(others) is None
    assert reading_of({}, {BEGINS_AT_KEY: ULong(1)}) is not None


def message(offset: int, *before: str) -> bytes:
    annotations: dict[object, object] = {Symbol(key): "x" * 255 for key in before}
    section = encode_section(MESSAGE_ANNOTATIONS, {**annotations, Symbol("x-stream-offset"): ULong(offset)})
    return encode_header(Header(durable=True)) + section + b"\x00\x53\x75\xa0\x01x"


def test_a_place_is_behind_the_last_message_or_before_the_first_that_was_not_taken():
    place = StreamReading()
    place.began({BEGINS_AT_KEY: ULong(3)})
    place.lost(None)
    assert place.next_offset == 3
    place.head = message(4)
    place.began({BEGINS_AT_KEY: ULong(0)})
    place.lost(None)
    assert place.next_offset == 5
    place.lost(None)
    assert place.next_offset == 5, "nothing came on that link"
    place.head = message(9)
    place.lost(message(6))
    assert place.next_offset == 6


def test_a_broker_that_gives_no_offsets_is_asked_as_before():
    place = StreamReading()
    place.began(None)
    place.head = b"\x00\x53\x75\xa0\x01x"
    place.lost(None)
    assert place.next_offset is None


def test_an_offset_behind_other_annotations_is_found_and_one_that_is_cut_off_is_none():
    whole = message(300, "x-exchange", "x-routing-key")
    assert offset_of(whole[:HEAD_BYTES]) == 300
    end = whole.index(b"x-stream-offset") + len("x-stream-offset")
    assert offset_of(whole[: end + 1]) is None
    assert offset_of(whole[:end]) is None
