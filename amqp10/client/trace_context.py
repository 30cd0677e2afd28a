"""The trace context of OpenTelemetry in messages, by the W3C's convention for AMQP.

    settings = ClientSettings(before_send=with_trace_context)

puts the context of the current span, ``traceparent`` and ``tracestate``, into the application properties of each
message that is sent. A consumer goes on with it:

    with tracer.start_as_current_span("process", context=trace_context(delivery.view), kind=SpanKind.CONSUMER): ...

A reader looks into the message annotations first, where a broker on the way may have written, and then into the
application properties (https://w3c.github.io/trace-context-amqp/). The library ``opentelemetry-api`` must be installed:
the extra ``amqp10[traces]``. A client that does not import this module does not look for it.
"""

from dataclasses import replace

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from amqp10.client_core.message import Message
from amqp10.client_core.view import MessageView

FIELDS = ("traceparent", "tracestate")
W3C = TraceContextTextMapPropagator()


def with_trace_context(message: Message) -> Message:
    """The message with the context of the current span; the same message without a span, or when it has a context."""
    if FIELDS[0] in message.application_properties:
        return message
    carrier: dict[str, str] = {}
    W3C.inject(carrier)
    if not carrier:
        return message
    return replace(message, application_properties={**message.application_properties, **carrier})


def trace_context(message: Message | MessageView) -> Context:
    """The context that a message has, for a span that goes on with it; an empty one for none or a malformed one.

    Raises DecodeError for a view whose sections are wrong.
    """
    found = _fields(message.annotations) or _fields(message.application_properties)
    return W3C.extract(found, context=Context())


def _fields(items: object) -> dict[str, str]:
    """Both fields, if the first is there; a tracestate alone says nothing."""
    if not isinstance(items, dict) or not isinstance(items.get(FIELDS[0]), str):
        return {}
    return {name: items[name] for name in FIELDS if isinstance(items.get(name), str)}
