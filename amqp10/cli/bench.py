"""``headgate bench``: puts load on a broker and shows what becomes of it, second by second.

The load is that of :mod:`amqp10.load`, which the project's own benchmarks use too. It speaks both protocols by itself
and shares no code with the broker, so it measures any broker. At a rate, latency counts from the time at which a
message was meant to be sent: a broker that holds its publisher up is charged for the wait.
"""

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json_line

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

    from amqp10.load.plan import Plan
    from amqp10.load.watched import LoadReading, WatchedLoad

Kind = Literal["publish", "consume", "latency", "request"]
QUEUES_ADDRESS = "/queues/"
MESSAGES_MAX = 2**32 - 1
SMALLEST_BODY = 20
"""Bytes: the numbers that a body begins with."""
EVERY_S = 1.0
LINK_CREDIT = 500
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)
BAR_WIDTH = 40
BUCKETS_MAX = 24
"""Lines of a histogram: each has twice the latency of the one before, from 1 µs to more than 8 s."""
FOREVER_S = 1e9
NO_PACKAGES = "bench needs hdrhistogram, which is not installed; install it with: pip install 'hdrhistogram>=0.10'"
COLUMNS = (
    f"{'time':>7}  {'sent/s':>10}  {'confirmed/s':>11}  {'received/s':>10}  {'p50 ms':>8}  {'p99 ms':>8}  held up by"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLoad:
    """What the command line asks for."""

    kind: Kind
    queue: str | None
    url: str
    protocol: str
    rate: float
    seconds: float | None
    messages: int | None
    size: int
    connections: int
    consumers: int
    in_flight: int
    link_credit: int
    queue_type: str
    transient: bool
    settled: bool
    json: bool
    unbatched: bool = False


def publish(
    queue: str | None,
    *,
    rate: float,
    seconds: float | None,
    messages: int | None,
    size: int,
    connections: int,
    in_flight: int,
    queue_type: str,
    transient: bool,
    settled: bool,
    unbatched: bool,
    protocol: str,
    json: bool,
    url: str,
) -> None:
    """Publish, and show rates, the latency of confirms, and what held the publishers up. Raises CommandError."""
    _bench(
        WantedLoad(
            kind="publish", queue=queue, url=url, protocol=protocol, rate=rate, seconds=seconds, messages=messages,
            size=size, connections=connections, consumers=0, in_flight=in_flight, link_credit=1,
            queue_type=queue_type, transient=transient, settled=settled, json=json, unbatched=unbatched,
        )
    )  # fmt: skip


def consume(
    queue: str,
    *,
    seconds: float | None,
    messages: int | None,
    connections: int,
    link_credit: int,
    unbatched: bool,
    protocol: str,
    json: bool,
    url: str,
) -> None:
    """Consume until enough messages have come or the time is over. Raises CommandError."""
    _bench(
        WantedLoad(
            kind="consume", queue=queue, url=url, protocol=protocol, rate=0.0, seconds=seconds, messages=messages,
            size=SMALLEST_BODY, connections=connections, consumers=connections, in_flight=0, link_credit=link_credit,
            queue_type="", transient=True, settled=False, json=json, unbatched=unbatched,
        )
    )  # fmt: skip


def latency(
    queue: str | None,
    *,
    rate: float,
    seconds: float | None,
    messages: int | None,
    size: int,
    connections: int,
    consumers: int,
    in_flight: int,
    link_credit: int,
    queue_type: str,
    transient: bool,
    unbatched: bool,
    protocol: str,
    json: bool,
    url: str,
) -> None:
    """Publish and consume at a rate, and show the time from one to the other. Raises CommandError."""
    _bench(
        WantedLoad(
            kind="latency", queue=queue, url=url, protocol=protocol, rate=rate, seconds=seconds, messages=messages,
            size=size, connections=connections, consumers=consumers, in_flight=in_flight, link_credit=link_credit,
            queue_type=queue_type, transient=transient, settled=False, json=json, unbatched=unbatched,
        )
    )  # fmt: skip


def request(
    *,
    rate: float,
    seconds: float | None,
    messages: int | None,
    size: int,
    in_flight: int,
    queue_type: str,
    transient: bool,
    protocol: str,
    json: bool,
    url: str,
) -> None:
    """Send requests at a rate to a responder of our own, and show the time to the answer. Raises CommandError."""
    _bench(
        WantedLoad(
            kind="request", queue=None, url=url, protocol=protocol, rate=rate, seconds=seconds, messages=messages,
            size=size, connections=1, consumers=0, in_flight=in_flight, link_credit=LINK_CREDIT,
            queue_type=queue_type, transient=transient, settled=False, json=json,
        )
    )  # fmt: skip


def _check(wanted: WantedLoad) -> None:
    """Raises CommandError for values that cannot be."""
    if not math.isfinite(wanted.rate) or wanted.rate < 0:
        raise CommandError(Exit.USAGE, f"--rate {wanted.rate:g}: must be 0 or more")
    if wanted.seconds is not None and not (math.isfinite(wanted.seconds) and wanted.seconds > 0):
        raise CommandError(Exit.USAGE, f"--seconds {wanted.seconds:g}: must be more than 0")
    if wanted.kind in ("latency", "request") and not wanted.rate:
        raise CommandError(Exit.USAGE, "--rate 0: latency is measured at a rate; headgate bench publish goes flat out")
    path = urlsplit(wanted.url).path.strip("/")
    if path:
        raise CommandError(Exit.USAGE, f"--url: the virtual host {path!r} cannot be measured, only the default one")


def _bench(wanted: WantedLoad) -> None:
    """Carry the load out, and print it. Raises CommandError."""
    _check(wanted)
    if find_spec("hdrh") is None:
        raise CommandError(Exit.USAGE, NO_PACKAGES)
    from amqp10.load.wire import WireError

    try:
        with _queues(wanted) as (queue, answers):
            _carry_out(wanted, queue, answers)
    except WireError as error:
        raise _explained(str(error), wanted) from None
    except ValueError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except OSError as error:
        place = urlsplit(wanted.url)
        text = f"{place.hostname}:{place.port or 5672}: {error.strerror or error}"
        raise CommandError(Exit.UNREACHABLE, f"{text}; is the broker running? Start it with: headgate serve") from None


def _explained(text: str, wanted: WantedLoad) -> CommandError:
    if "refused user" in text or "was the password right" in text or "ACCESS_REFUSED" in text:
        return CommandError(Exit.NOT_LET_IN, f"{text}; check user and password in --url or HEADGATE_URL")
    if "not-found" in text or "NOT_FOUND" in text:
        return CommandError(Exit.NOT_FOUND, f"{text}; without QUEUE the command makes a queue of its own")
    return CommandError(Exit.REFUSED, f"{text} ({wanted.protocol})")


# --- queues ----------------------------------------------------------------------------------------------------------


@contextmanager
def _queues(wanted: WantedLoad) -> Iterator[tuple[str, str]]:
    """The queue to measure, and that of answers. Queues that the command makes are deleted behind it."""
    if wanted.queue is not None:
        yield queue_name(wanted.queue), ""
        return
    import os

    from amqp10.load.management import ManagementPair

    name = f"headgate-bench-{os.getpid()}"
    names = (name, f"{name}-answers") if wanted.kind == "request" else (name,)
    with ManagementPair(wanted.url) as management:
        for one in names:
            management.declare_queue(one, queue_type=wanted.queue_type)
    try:
        yield name, names[-1] if len(names) > 1 else ""
    finally:
        with ManagementPair(wanted.url) as management:
            for one in names:
                management.delete_queue(one)


def queue_name(address: str) -> str:
    """The name of a queue that is given by its name or its address. Raises CommandError for another address."""
    if not address.startswith("/"):
        return address
    if not address.startswith(QUEUES_ADDRESS) or "/" in address.removeprefix(QUEUES_ADDRESS):
        raise CommandError(Exit.USAGE, f"{address} is no queue; a queue is given as NAME or {QUEUES_ADDRESS}NAME")
    return unquote(address.removeprefix(QUEUES_ADDRESS))


# --- the load --------------------------------------------------------------------------------------------------------


def _plan(wanted: WantedLoad, queue: str, answers: str) -> "Plan":
    """The plan of the load. Raises ValueError for values that do not go together."""
    from amqp10.load.plan import Application, Plan, PlannedTraffic

    limited = wanted.seconds if wanted.seconds is not None else FOREVER_S if wanted.messages is not None else 10.0
    publishers = 0 if wanted.kind == "consume" else wanted.connections
    traffic = PlannedTraffic(
        shape="unbatched" if wanted.unbatched else "bulk",
        size=wanted.size,
        settled=wanted.settled,
        durable=not wanted.transient,
        rate=wanted.rate / max(1, publishers),
        seconds=limited,
        messages=-(-wanted.messages // max(1, publishers)) if wanted.messages is not None else MESSAGES_MAX,
        in_flight=wanted.in_flight,
        timed=wanted.kind == "publish" and not wanted.settled,
    )
    one = Application(link_credit=wanted.link_credit, protocol="0.9.1" if wanted.protocol == "0.9.1" else "1.0")
    applications: list[Application] = [
        replace(one, publisher=number, publish_to=queue) for number in range(1, publishers + 1)
    ]
    applications += [replace(one, consume_from=queue) for _ in range(wanted.consumers)]
    if answers:
        applications = [replace(one, publisher=1, publish_to=queue, consume_from=answers)]
    return Plan(url=wanted.url, traffic=traffic, applications=tuple(applications))


def _carry_out(wanted: WantedLoad, queue: str, answers: str) -> None:
    from amqp10.load.watched import WatchedLoad

    with _responder(wanted.url, queue, answers):
        load = WatchedLoad(_plan(wanted, queue, answers))
        try:
            shown = _Shown(as_json=wanted.json)
            last = load.run(done=_done(wanted), every_s=EVERY_S, show=shown.line)
        finally:
            load.close()
    _conclude(wanted, load, last)


def _done(wanted: WantedLoad) -> "Callable[[LoadReading], bool]":
    """Whether a load is over whose publishers have finished."""
    if wanted.kind == "publish":
        return lambda _: True
    if wanted.kind != "consume":
        return lambda reading: reading.received >= reading.sent - reading.refused
    messages = wanted.messages or MESSAGES_MAX
    seconds = wanted.seconds or (FOREVER_S if wanted.messages is not None else 10.0)
    return lambda reading: reading.received >= messages or reading.seconds >= seconds


@contextmanager
def _responder(url: str, queue: str, answers: str) -> Iterator[None]:
    """A process that sends every message of the queue to that of answers; none without such a queue."""
    if not answers:
        yield
        return
    words = (sys.executable, "-m", "amqp10.cli.responder", url, queue, answers)
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        if not process.stdout.readline():  # it tells when its links are attached, and why it cannot begin
            raise CommandError(Exit.UNREACHABLE, "the responder could not begin")
        yield
    finally:
        process.terminate()
        process.communicate()


# --- what is shown ---------------------------------------------------------------------------------------------------


class _Shown:
    """The lines of a load."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._before: LoadReading | None = None

    def line(self, reading: "LoadReading") -> None:
        """Print what has happened since the line before."""
        before = self._before
        if before is None and not self._as_json:
            print(COLUMNS)
        self._before = reading
        seconds = reading.seconds - (before.seconds if before is not None else 0.0)
        rates = {
            name: round((getattr(reading, name) - (getattr(before, name) if before is not None else 0)) / seconds)
            for name in ("sent", "confirmed", "received")
        }
        held = {
            why: (value - (before.blocked.get(why, 0.0) if before is not None else 0.0)) / seconds
            for why, value in reading.blocked.items()
        }
        held = {why: share for why, share in held.items() if share >= 0.0005}
        if self._as_json:
            table = {"seconds": round(reading.seconds, 3), **{f"{name}_per_second": n for name, n in rates.items()}}
            print_json_line({**table, "latency_ms": percentiles(reading.latency), "blocked_share": _rounded(held)})
            sys.stdout.flush()
            return
        held_by = ", ".join(f"{why} {share:.0%}" for why, share in sorted(held.items(), key=lambda one: -one[1]))
        print(
            f"{reading.seconds:6.1f}s  {rates['sent']:10,}  {rates['confirmed']:11,}  {rates['received']:10,}"
            f"  {_ms(reading.latency, 50):>8}  {_ms(reading.latency, 99):>8}"
            f"  {held_by}".rstrip(),
            flush=True,
        )


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def _ms(histogram: "HdrHistogram", percentile: float) -> str:
    if not histogram.get_total_count():
        return "-"
    return f"{histogram.get_value_at_percentile(percentile) / 1000:.2f}"


def percentiles(histogram: "HdrHistogram") -> dict[str, float]:
    """Milliseconds by percentile; empty where nothing was measured."""
    if not histogram.get_total_count():
        return {}
    return {f"p{p:g}": histogram.get_value_at_percentile(p) / 1000 for p in PERCENTILES}


def buckets(histogram: "HdrHistogram") -> list[tuple[float, int]]:
    """The histogram in steps of twice the latency: the upper end of each step in milliseconds, and how many messages
    lie in it, from the first step with any to the last."""
    counts = [0] * BUCKETS_MAX
    for item in histogram.get_recorded_iterator():
        step = min(BUCKETS_MAX - 1, max(0, math.ceil(math.log2(max(1, item.value_iterated_to)))))
        counts[step] += item.count_at_value_iterated_to
    used = [step for step, count in enumerate(counts) if count]
    return [(2**step / 1000, counts[step]) for step in range(used[0], used[-1] + 1)] if used else []


def _conclude(wanted: WantedLoad, load: "WatchedLoad", last: "LoadReading") -> None:
    """Print the whole. Raises CommandError when messages were lost, refused or changed."""
    unconfirmed = 0 if wanted.kind == "consume" else load.unconfirmed
    expected = 0 if wanted.kind in ("publish", "consume") else last.sent - last.refused
    missing = max(0, expected - last.received)
    foreign = load.corrupted
    seconds = max(last.seconds, 1e-9)
    if wanted.json:
        print_json_line({
            "summary": wanted.kind, "protocol": wanted.protocol, "seconds": round(last.seconds, 3), "sent": last.sent,
            "confirmed": last.confirmed, "refused": last.refused, "received": last.received,
            "unconfirmed": unconfirmed, "missing": missing, "foreign": foreign,
            "sent_per_second": round(last.sent / seconds), "received_per_second": round(last.received / seconds),
            "latency_ms": percentiles(last.latency), "blocked_seconds": _rounded(last.blocked),
            "histogram": [{"upto_ms": upto, "messages": count} for upto, count in buckets(last.latency)],
        })  # fmt: skip
    else:
        for line in _summary(wanted, last):
            print(line)
    faults = {"refused": last.refused, "without an outcome": unconfirmed, "missing": missing}
    if wanted.kind in ("latency", "request"):
        faults["changed or not ours"] = foreign
    told = ", ".join(f"{count} {what}" for what, count in faults.items() if count)
    if told:
        raise CommandError(Exit.REFUSED, f"of {last.sent} messages: {told}")


WHAT_IS_TIMED = {
    "publish": "from sending a message to its confirm",
    "latency": "from the time when a message was to be sent to its arrival",
    "request": "from the time when a request was to be sent to its answer",
}


def _summary(wanted: WantedLoad, last: "LoadReading") -> Iterator[str]:
    seconds = max(last.seconds, 1e-9)
    yield ""
    if wanted.kind != "consume":
        rate = f"{last.sent / seconds:,.0f} a second"
        yield f"sent {last.sent:,} in {last.seconds:.1f} s: {rate}, {last.confirmed:,} confirmed"
    if wanted.kind != "publish":
        yield f"received {last.received:,} in {last.seconds:.1f} s: {last.received / seconds:,.0f} a second"
    for why, value in sorted(last.blocked.items(), key=lambda one: -one[1]):
        yield f"held up by {why}: {value:.2f} s"
    shown = buckets(last.latency)
    if not shown:
        return
    yield f"latency, {WHAT_IS_TIMED.get(wanted.kind, '')}:"
    yield "  " + "  ".join(f"{name} {value:.2f} ms" for name, value in percentiles(last.latency).items())
    total, most = sum(count for _, count in shown), max(count for _, count in shown)
    for upto, count in shown:
        bar = "#" * math.ceil(BAR_WIDTH * count / most)
        yield f"  up to {upto:>10.3f} ms  {count / total:>6.1%}  {bar}".rstrip()
