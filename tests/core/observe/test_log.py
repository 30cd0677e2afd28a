"""Log lines: they are bounded, cannot be forged, and never block the event loop."""

import io
import json
import threading

import pytest
import structlog

from core.config.log import LogSettings
from core.observe.log import TEXT_LENGTH_MAX, LineWriter, RateLimiter, escape, open_log
from core.recent_rows import RecentRows


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def passed(limiter: RateLimiter, event: str, **keys: object) -> dict[str, object] | None:
    try:
        return dict(limiter(None, "info", {"event": event, **keys}))
    except structlog.DropEvent:
        return None


def test_an_event_above_its_rate_is_left_out_and_counted():
    clock = Clock()
    limiter = RateLimiter(per_second_max=2, monotonic=clock)
    assert [passed(limiter, "a") is not None for _ in range(5)] == [True, True, False, False, False]
    assert passed(limiter, "b") == {"event": "b"}
    clock.now = 1.0
    assert passed(limiter, "a") == {"event": "a", "left_out": 3}
    assert passed(limiter, "a") == {"event": "a"}


def test_a_call_may_ask_for_a_longer_pause():
    clock = Clock()
    limiter = RateLimiter(per_second_max=100, monotonic=clock)
    results = []
    for _ in range(7):
        results.append(passed(limiter, "a", at_most_every=3.0))
        clock.now += 1.0
    assert results == [
        {"event": "a"},
        None,
        None,
        {"event": "a", "left_out": 2},
        None,
        None,
        {"event": "a", "left_out": 2},
    ]


def test_the_limiter_knows_a_bounded_number_of_events():
    limiter = RateLimiter(per_second_max=1, monotonic=Clock())
    for number in range(5000):
        passed(limiter, f"event-{number}")
    assert len(limiter._windows) <= 1024


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("line\nbreak", "line\\nbreak"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202eright to left", "\\u202eright to left"),
        ("grüße", "grüße"),
        (b"GET / \xff", "GET / \\xff"),
        ("x" * 300, "x" * TEXT_LENGTH_MAX + "…"),
        (5, 5),
    ],
)
def test_what_a_peer_chose_cannot_forge_a_line(value: object, shown: object):
    assert escape(None, "info", {"event": "e", "peer": value})["peer"] == shown


def test_json_is_one_object_a_line():
    stream = io.StringIO()
    with open_log(LogSettings(), stream, monotonic=Clock()) as log:
        log.bind(connection="c1").warning("connection-refused", reason="limit")
        log.error("failed", exc_info=ValueError("why"))
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["event"] == "connection-refused"
    assert (first["connection"], first["reason"], first["level"]) == ("c1", "limit", "warning")
    assert "ValueError: why" in second["exception"]


def test_the_last_lines_are_kept_as_rows_without_a_stack():
    recent = RecentRows(2)
    with open_log(LogSettings(), io.StringIO(), monotonic=Clock(), recent=recent) as log:
        log.info("started", port=5672)
        log.warning("refused", peer="a\nb", ports=[1, 2])
        log.error("failed", exc_info=ValueError("why"))
    failed, refused = recent.newest(10)
    assert (failed["number"], failed["level"], failed["event"], failed["facts"]) == (3, "error", "failed", {})
    assert refused["facts"] == {"peer": "a\\nb", "ports": "[1, 2]"}
    json.dumps(refused)


def test_a_terminal_gets_text():
    stream = Terminal()
    with open_log(LogSettings(), stream, monotonic=Clock()) as log:
        log.info("started", port=5672)
    assert "started" in stream.getvalue()
    assert "port=5672" in stream.getvalue()


def test_the_level_is_a_lower_bound():
    stream = io.StringIO()
    with open_log(LogSettings(level="warning"), stream, monotonic=Clock()) as log:
        log.info("quiet")
        log.warning("loud")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]


class BlockedStream(io.StringIO):
    """A stream that takes nothing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.released = threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.released.wait()
        return super().write(text)


def test_a_blocked_stream_does_not_block_and_lines_are_dropped_and_counted():
    stream = BlockedStream()
    writer = LineWriter(stream, waiting_max=3)
    writer.msg("first")
    stream.entered.wait()
    for number in range(10):
        writer.msg(f"line {number}")
    assert writer.dropped == 7
    stream.released.set()
    writer.close()
    assert stream.getvalue().splitlines() == ["first", "line 0", "line 1", "line 2"]


def test_a_closed_stream_is_survived():
    stream = io.StringIO()
    stream.close()
    writer = LineWriter(stream, waiting_max=3)
    writer.msg("into the void")
    writer.close()
    assert writer.dropped == 1
