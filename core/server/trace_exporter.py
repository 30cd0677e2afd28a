"""The task that sends spans: at intervals it hands those that wait to an exporter, which runs in a thread.

One batch is on its way at a time, so a collector that is slow or away makes the spans wait in
:class:`core.traces.Traces`, which is bounded and drops the oldest. The event loop never waits for the exporter. Spans
that it could not send are lost: it tries again by itself within ``traces.export_time_out``.

The exporter of OpenTelemetry is imported with the first settings that have an endpoint, since it takes 12 MiB.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio
from structlog.typing import FilteringBoundLogger

from core.clock import Now
from core.config.traces import TraceSettings
from core.errors import Invalid
from core.version import headgate_version

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from core.traces import Span, Traces

BATCH_SPANS_MAX = 512
"""Spans that one request takes, as the batches of OpenTelemetry's own SDK: about 250 KiB."""
SCOPE = "headgate"

Exporter = Callable[[Sequence["Span"]], bool]
"""Sends spans, in a thread. Returns whether they were sent; may raise anything."""


class TraceExporting:
    """Sends the spans of one broker."""

    def __init__(self, traces: "Traces", exporter: Exporter, log: FilteringBoundLogger) -> None:
        self._traces = traces
        self._exporter = exporter
        self._log = log
        self._failing = False

    async def run(self, turn: Callable[[], None]) -> None:
        """Send what waits, until cancelled."""
        while True:
            await trio.sleep(self._traces.settings.export_interval)
            while spans := self._traces.take(BATCH_SPANS_MAX):
                await self.send(spans)

    async def send(self, spans: "Sequence[Span]") -> None:
        """Send a batch, and count it. The first of several failures is logged."""
        try:
            sent = await trio.to_thread.run_sync(self._exporter, spans, abandon_on_cancel=True)
            problem = "the collector did not take them"
        except Exception as error:  # whatever the library raises, the broker goes on
            sent, problem = False, str(error)
        if sent:
            self._traces.sent += len(spans)
        else:
            self._traces.failed += len(spans)
            if not self._failing:
                self._log.warning("spans-not-sent", endpoint=self._traces.settings.endpoint, reason=problem)
        self._failing = not sent


def new_traces(
    settings: TraceSettings, clock: Callable[[], Now], random_bytes: Callable[[int], bytes]
) -> "Traces | None":
    """Return what follows traced messages, for the engine; None without an endpoint."""
    if not settings.endpoint:
        return None
    from core.traces import Traces  # here and not above: most brokers trace nothing

    return Traces(settings, clock=clock, random_bytes=random_bytes)


def exporting(traces: "Traces", node: str, log: FilteringBoundLogger) -> TraceExporting:
    """Return the task that sends the spans to the endpoint of the settings. Raises Invalid where the library is not
    installed. ``node`` is the broker's name."""
    settings = traces.settings
    try:
        exporter = otlp_exporter(settings.endpoint, seconds=settings.export_time_out, node=node)
    except ImportError as error:
        raise Invalid(
            f"[traces] needs more packages ({error}): "
            "pip install 'opentelemetry-sdk>=1.25' 'opentelemetry-exporter-otlp-proto-http>=1.25'"
        ) from None
    return TraceExporting(traces, exporter, log)


def otlp_exporter(endpoint: str, *, seconds: float, node: str) -> Exporter:
    """Return an exporter that sends spans to this address by OTLP over HTTP, within so many seconds. Raises ImportError
    where the library is not installed."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return sdk_exporter(OTLPSpanExporter(endpoint=endpoint, timeout=seconds), node=node)


def sdk_exporter(exporter: "SpanExporter", *, node: str) -> Exporter:
    """Return an exporter that hands spans to one of OpenTelemetry's SDK. ``node`` is the broker's name."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    scope = InstrumentationScope(SCOPE, headgate_version())
    resource = Resource.create(
        {"service.name": SCOPE, "service.version": headgate_version(), "service.instance.id": node}
    )

    def context(span: "Span", span_id: str, *, remote: bool) -> SpanContext:
        return SpanContext(int(span.parent.trace_id, 16), int(span_id, 16), remote, TraceFlags(TraceFlags.SAMPLED))

    def readable(span: "Span") -> ReadableSpan:
        first = span.operation == "publish"
        parent = span.parent.span_id
        return ReadableSpan(
            f"{span.operation} {span.destination}",
            context(span, span.span_id, remote=False),
            None if parent is None else context(span, parent, remote=first),
            resource,
            {
                "messaging.system": SCOPE,
                "messaging.operation.name": span.operation,
                "messaging.destination.name": span.destination,
                **span.attributes,
            },
            kind=SpanKind.SERVER if first else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if span.failed else StatusCode.UNSET),
            start_time=int(span.start * 1e9),
            end_time=int(span.end * 1e9),
            instrumentation_scope=scope,
        )

    def export(spans: "Sequence[Span]") -> bool:
        return exporter.export([readable(span) for span in spans]) is SpanExportResult.SUCCESS

    return export
