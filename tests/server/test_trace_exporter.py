"""The task that sends spans: to a collector, to one that fails, and to one that is slow."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pika
import pytest
import structlog
import trio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from structlog.testing import LogCapture

from amqp10.client import Message, connect
from core.config.traces import TraceSettings
from core.server.trace_exporter import TraceExporting, exporting, new_traces, otlp_exporter, sdk_exporter
from core.traces import Parent, Span, Traces
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.engine import NOW

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def span(operation: str = "publish", *, failed: bool = False) -> Span:
    return Span(operation, "q", Parent(TRACE, SPAN), "00000000000000ab", 5.0, 6.5, {"headgate.outcome": "x"}, failed)


class Sending:
    """The task over an exporter, with spans that wait."""

    def __init__(self, exporter, *spans: Span) -> None:
        settings = TraceSettings(endpoint="http://collector/", export_interval=0.01)
        self.traces = Traces(settings, clock=lambda: NOW, random_bytes=bytes)
        self.log = LogCapture()
        logger = structlog.wrap_logger(None, processors=[self.log])
        self.exporting = TraceExporting(self.traces, exporter, logger)
        for one in spans:
            self.traces.keep(one)


async def test_spans_are_sent_in_batches():
    batches: list[int] = []

    def exporter(spans: Sequence[Span]) -> bool:
        batches.append(len(spans))
        return True

    sending = Sending(exporter, *[span()] * 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sending.exporting.run, lambda: None)
        await until(lambda: sending.traces.sent == 1000)
        nursery.cancel_scope.cancel()
    assert batches == [512, 488]
    assert sending.traces.counts() == {"sent": 1000, "failed": 0, "dropped": 0}


async def test_a_failing_collector_is_told_once_and_the_spans_are_counted():
    answers = [False, ConnectionError("refused"), True, False]

    def exporter(spans: Sequence[Span]) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    sending = Sending(exporter)
    for _ in range(4):
        await sending.exporting.send([span()])
    assert sending.traces.counts() == {"sent": 1, "failed": 3, "dropped": 0}
    assert [entry["reason"] for entry in sending.log.entries] == ["the collector did not take them"] * 2


async def test_the_loop_does_not_wait_for_a_slow_collector_and_the_stop_neither():
    reached, released = threading.Event(), threading.Event()

    def exporter(spans: Sequence[Span]) -> bool:
        reached.set()
        released.wait(30)
        return True

    sending = Sending(exporter, span())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sending.exporting.run, lambda: None)
        await trio.to_thread.run_sync(reached.wait, 30)
        await trio.lowlevel.checkpoint()  # the loop goes on while the exporter waits
        nursery.cancel_scope.cancel()
    assert not released.is_set()
    released.set()


def test_a_span_as_the_library_has_it():
    memory = InMemorySpanExporter()
    assert sdk_exporter(memory, node="headgate@here")([span(), span("deliver", failed=True)])
    first, second = memory.get_finished_spans()
    assert (first.name, first.kind, first.status.status_code) == ("publish q", SpanKind.SERVER, StatusCode.UNSET)
    assert (second.name, second.kind, second.status.status_code) == ("deliver q", SpanKind.INTERNAL, StatusCode.ERROR)
    assert first.context is not None
    assert first.parent is not None
    assert (first.context.trace_id, first.context.span_id) == (int(TRACE, 16), 0xAB)
    assert (first.parent.span_id, first.parent.is_remote) == (int(SPAN, 16), True)
    assert (first.start_time, first.end_time) == (5_000_000_000, 6_500_000_000)
    assert first.attributes == {
        "messaging.system": "headgate",
        "messaging.operation.name": "publish",
        "messaging.destination.name": "q",
        "headgate.outcome": "x",
    }
    assert first.resource.attributes["service.instance.id"] == "headgate@here"


class Collector:
    """What a collector has got."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[ExportTraceServiceRequest] = []

    def names(self) -> list[str]:
        return [one.name for one in self.spans()]

    def spans(self) -> list[SentSpan]:
        return [
            one
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for one in scope.spans
        ]


@contextmanager
def collector(status: int = 200) -> Iterator[Collector]:
    """A collector of OTLP over HTTP on the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        do_POST = answer

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        got = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield got
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_gets_spans_by_otlp():
    with collector() as got:
        assert otlp_exporter(got.url, seconds=5.0, node="n")([span()])
    assert got.names() == ["publish q"]


def test_a_collector_that_refuses():
    with collector(status=400) as got:
        assert not otlp_exporter(got.url, seconds=5.0, node="n")([span()])


def test_without_an_endpoint_nothing_is_followed():
    assert new_traces(TraceSettings(), lambda: NOW, bytes) is None
    traces = new_traces(TraceSettings(endpoint="http://127.0.0.1:4318/v1/traces"), lambda: NOW, bytes)
    assert traces is not None
    assert isinstance(exporting(traces, "n", structlog.wrap_logger(None, processors=[LogCapture()])), TraceExporting)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "ftp://host/x", "http://user@host/", "http://[", "http://h:x/"])
def test_endpoints_that_are_none(endpoint: str):
    with pytest.raises(ValueError, match="endpoint"):
        TraceSettings(endpoint=endpoint)


@pytest.mark.slow
async def test_a_broker_sends_the_spans_of_messages_that_carry_a_trace(tmp_path: Path):
    config = tmp_path / "broker.toml"
    with collector() as got:
        config.write_text(f'[admin]\nenabled = false\n[traces]\nendpoint = "{got.url}"\nexport_interval = "10ms"\n')
        with broker_process("--config", str(config)) as address:
            async with connect(address.url()) as connection:
                await connection.request("PUT", "/queues/q", {})
                sender = await connection.open_sender("/queues/q")
                await sender.send(Message("one", application_properties={"traceparent": f"00-{TRACE}-{SPAN}-01"}))
                await sender.send(Message("plain"))
                receiver = await connection.open_receiver("/queues/q")
                for _ in range(2):
                    (await receiver.receive()).accept()
                await until(lambda: len(got.names()) >= 4)
            await trio.to_thread.run_sync(publish_with_pika, address)
            await until(lambda: len(got.names()) >= 8)
    spans = ["deliver q", "enqueue q", "publish q", "settle q"]
    assert sorted(got.names()) == sorted(spans + spans)
    assert {one.trace_id.hex() for one in got.spans()} == {TRACE}


def publish_with_pika(address: BrokerAddress) -> None:
    """A message with a trace over AMQP 0.9.1, and back."""
    with pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port)) as connection:
        channel = connection.channel()
        properties = pika.BasicProperties(headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
        channel.basic_publish("", "q", b"two", properties)
        method, _, body = next(channel.consume("q"))
        assert body == b"two"
        channel.basic_ack(method.delivery_tag)
        channel.cancel()


async def until(done: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    with trio.fail_after(30):
        while not done():  # noqa: ASYNC110 - nothing of this process tells it
            await trio.sleep(0.01)
