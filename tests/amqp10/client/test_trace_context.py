"""The trace context of OpenTelemetry, from the span of a sender to the span of a consumer."""

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the group test installs opentelemetry-sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from amqp10.client import Message, MessageView, SendBatch
from amqp10.client.trace_context import trace_context, with_trace_context
from tests.kit.stream_broker import connected

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"


def span_of(message: Message | MessageView) -> trace.SpanContext:
    return trace.get_current_span(trace_context(message)).get_span_context()


async def test_a_consumer_goes_on_with_the_trace_of_the_sender(library):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    async with connected(before_send=with_trace_context) as (_, connection):
        sender = await connection.open_sender("/queues/q")
        receiver = await connection.open_receiver("/queues/q")
        with tracer.start_as_current_span("order"):
            await sender.send(Message(b"one", application_properties={"mine": 1}))
            async with SendBatch(sender) as batch:
                await batch.send(Message(b"two"))
        await sender.send(Message(b"without a span"))
        await sender.send(Message(b"encoded").encode())
        deliveries = [await receiver.receive() for _ in range(4)]
        for delivery in deliveries[:2]:
            with tracer.start_as_current_span("process", context=trace_context(delivery.view)):
                delivery.accept()
        assert deliveries[0].message.application_properties["mine"] == 1
        assert [span_of(delivery.view).is_valid for delivery in deliveries] == [True, True, False, False]
    order, *processes = sorted(exporter.get_finished_spans(), key=lambda span: span.name)
    assert [span.name for span in processes] == ["process", "process"]
    assert {span.context.trace_id for span in processes} == {order.context.trace_id}
    assert {span.parent and span.parent.span_id for span in processes} == {order.context.span_id}


def test_message_annotations_come_first_and_a_context_of_the_program_stays():
    both = Message(b"x", application_properties={"traceparent": PARENT}, annotations={"traceparent": OTHER})
    assert span_of(both).trace_id == int(OTHER.split("-")[1], 16)
    assert with_trace_context(both) is both
    assert with_trace_context(Message(b"no span is current")) == Message(b"no span is current")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"traceparent": 5},
        {"traceparent": "00-zz-1-1"},
        {"traceparent": ""},
        {"tracestate": "a=b"},
        {"traceparent": None},
    ],
)
def test_what_is_no_context_is_none(given: dict[str, object]):
    assert not span_of(Message(b"x", application_properties=given)).is_valid


def test_the_state_of_the_trace_goes_along():
    message = Message(b"x", application_properties={"traceparent": PARENT, "tracestate": "vendor=1"})
    with trace.use_span(trace.NonRecordingSpan(span_of(MessageView(message.encode())))):
        sent = with_trace_context(Message(b"y"))
    assert sent.application_properties == {"traceparent": PARENT, "tracestate": "vendor=1"}
