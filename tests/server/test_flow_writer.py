"""The task that keeps flow events: bounded under alarms and by its own confirms, and independent of the other tasks."""

from collections.abc import Iterator

import pytest
import structlog
import trio
import trio.testing
from structlog.testing import LogCapture

from amqp10.frontend.flow_self import packet_message
from core.config.flow_events import FlowEventsSettings
from core.flow_facts import FLOW_STREAM, FlowConnection
from core.interface import QueueDeclaration
from core.message import Origin
from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import EventKind, FlowEventRecord, decode
from core.server.flow_writer import UNCONFIRMED_MAX, FlowWriter, flow_tasks, open_flow_events, stream_declaration
from tests.kit.wire import InProcessBroker

SETTINGS = FlowEventsSettings(enabled=True)


class Kept:
    """A broker that keeps its flow events, round by round."""

    def __init__(self, ring: RecordRing | None = None) -> None:
        self.ring = RecordRing(1000) if ring is None else ring
        self.broker = InProcessBroker(durable=True, flow_ring=self.ring)
        self.packets: list[bytes] = []
        self.log = LogCapture()
        self.writer = FlowWriter(
            self.broker.flow,
            self.ring,
            engine=self.broker.engine,
            settings=SETTINGS,
            message=self._message,
            log=structlog.wrap_logger(None, processors=[self.log]),
        )
        self.broker.flow.alarms_changed(self.broker.engine.subscribe(self.writer._mailbox))

    def _message(self, packet: bytes, wall: float) -> tuple[bytes, Origin]:
        self.packets.append(packet)
        return packet_message(packet, wall), Origin.AMQP10

    def round(self) -> bool:
        assert list(self.broker.flow.tell_due()) == []
        published = self.writer.publish_one()
        self.broker.run()
        return published

    def happen(self, n: int = 1) -> None:
        for number in range(n):
            self.ring.put(FlowEventRecord(EventKind.PAGING, float(number), {"on": True}))

    def records(self) -> Iterator[FlowEventRecord]:
        for packet in self.packets:
            yield from decode(packet).records

    def stored(self) -> int:
        return self.broker.ready(FLOW_STREAM)


def test_waiting_records_are_published_into_the_stream():
    kept = Kept()
    kept.happen(3)
    assert kept.round()
    assert not kept.round()
    assert kept.stored() == 1
    assert len(list(kept.records())) == 3
    assert kept.broker.engine.queue_info(FLOW_STREAM, None).type == "stream"


def test_under_an_alarm_the_ring_does_not_grow_and_the_loss_is_recorded_afterwards():
    kept = Kept(RecordRing(10))
    kept.happen()
    kept.round()
    kept.broker.raise_alarm("disk")
    for _ in range(50):
        kept.happen(5)
        assert not kept.round()
        assert len(kept.ring) <= 11
    assert kept.stored() == 1
    kept.broker.clear_alarm("disk")
    assert kept.round()
    assert kept.stored() == 2
    dropped = [record.fields["records"] for record in kept.records() if record.kind == EventKind.DROPPED]
    told = len([record for record in kept.records() if record.kind == EventKind.PAGING])
    alarms = 2  # the record of its beginning was dropped, and that of its end is kept
    assert dropped == [1 + 5 * 50 + alarms - told - 1 + 0]


def test_an_alarm_is_told():
    kept = Kept()
    kept.broker.raise_alarm("memory")
    kept.round()
    kept.broker.clear_alarm("memory")
    kept.round()
    assert [record.fields for record in kept.records() if record.kind == EventKind.ALARM] == [
        {"alarm": "memory", "on": True},
        {"alarm": "memory", "on": False},
    ]


async def test_an_alarm_is_told_before_what_it_blocks(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery):
    """Rounds are a tenth of a second apart, and a stall is reported after half of that."""
    kept = Kept()
    nursery.start_soon(kept.writer.run, kept.broker.run)
    for round_ in range(1, 4):
        await trio.sleep(1.001 * SETTINGS.pack_interval)
        kept.broker.raise_alarm("disk")
        await trio.testing.wait_all_tasks_blocked()
        kept.happen()  # as a stall does
        kept.broker.clear_alarm("disk")
        await trio.sleep(2 * SETTINGS.pack_interval)
        assert [record.kind for record in kept.records()] == round_ * [
            EventKind.ALARM,
            EventKind.PAGING,
            EventKind.ALARM,
        ]


def test_paging_is_told():
    kept = Kept()
    kept.round()
    kept.broker.engine.memory_sampled(1, 0, kept.broker.now)
    kept.round()
    kept.broker.advance(10.0)
    kept.broker.engine.memory_sampled(1, 100, kept.broker.now)
    kept.round()
    told = [record.fields for record in kept.records() if record.kind == EventKind.PAGING]
    assert told == [{"on": True}, {"on": False}]


def test_the_writer_waits_for_its_confirms():
    kept = Kept()
    kept.round()
    kept.broker.stall(FLOW_STREAM)
    for _ in range(2 * UNCONFIRMED_MAX):
        kept.happen()
        kept.round()
    assert len(kept.packets) == UNCONFIRMED_MAX
    kept.broker.recover(FLOW_STREAM)
    assert kept.round()
    assert not kept.round()
    assert len(list(kept.records())) == 2 * UNCONFIRMED_MAX


def test_a_stream_that_was_deleted_is_made_anew():
    kept = Kept()
    kept.happen()
    kept.round()
    kept.broker.engine.delete_queue(FLOW_STREAM, None)
    kept.broker.run()
    kept.happen()
    assert kept.round()
    assert kept.stored() == 1
    assert [row["name"] for row in kept.broker.engine.snapshot("publishers")] == ["flow events"]


def test_a_stream_with_other_limits_is_used_and_said_so_once():
    kept = Kept()
    kept.broker.queue(FLOW_STREAM, x_queue_type="stream", x_max_age="1h")
    for _ in range(3):
        kept.happen()
        assert kept.round()
    assert [line["event"] for line in kept.log.entries] == ["flow-stream-has-other-limits"]


def test_a_queue_of_another_type_is_left_alone():
    kept = Kept()
    kept.broker.queue(FLOW_STREAM)
    for _ in range(3):
        kept.happen()
        assert not kept.round()
    assert kept.stored() == 0
    assert [line["event"] for line in kept.log.entries] == ["flow-events-not-kept"]


def test_a_reader_of_the_stream_does_not_make_it_longer():
    kept = Kept()
    kept.happen()
    kept.round()
    reader = kept.broker.connect()
    reader.begin()
    reader.attach_receiver("/queues/%24flow")
    reader.grant(1000)
    for _ in range(5):
        kept.broker.go_round(1.0)
        kept.round()
    before = kept.stored()
    for _ in range(20):
        kept.broker.go_round(1.0)
        assert not kept.round()
    assert kept.stored() == before


def test_the_declaration_is_one_that_the_engine_takes():
    broker = InProcessBroker(durable=True)
    declaration = stream_declaration(SETTINGS)
    assert isinstance(declaration, QueueDeclaration)
    assert broker.engine.declare_queue(declaration, None)[1]
    assert declaration.arguments["x-max-age"] == "86400s"


def test_off_there_is_no_task_no_ring_and_no_recorder():
    kept = Kept()
    off = open_flow_events(FlowEventsSettings(), clock=lambda: kept.broker.now, node="n")
    tasks = flow_tasks(
        off, kept.broker.engine, settings=FlowEventsSettings(), message=kept._message, log=structlog.get_logger()
    )
    assert tasks == []
    assert off.ring is None
    who = FlowConnection(identity="c", peer="p", protocol="amqp-1.0", container_id="", user="")
    assert off.connection(who) is None


@pytest.mark.parametrize("records", [1, 50_000])
async def test_rounds_go_on_and_turns_follow(autojump_clock: trio.testing.MockClock, records: int):
    kept = Kept(RecordRing(100_000))
    kept.happen(records)
    with trio.move_on_after(10.0):
        await kept.writer.run(kept.broker.run)
    assert len(list(kept.records())) == records
    assert kept.stored() == len(kept.packets) == (records + 999) // 1000
