"""The frames of a connection that are kept: bounds, what was missed, and readers that come and go."""

from collections.abc import Iterator

import pytest

from core.clock import Now
from core.errors import LimitReached, NotFound
from core.server.frame_tap import (
    BYTES_KEPT,
    FRAMES_KEPT,
    FRAMES_SHOWN,
    TAPPED_READ_BYTES,
    UNWATCHED_SECONDS,
    Cut,
    Cutters,
    FrameTap,
    FrameTaps,
)
from tests.kit.serving import serving, settled

START = Now(100.0, 1_700_000_000.0)


def at(seconds: float) -> Now:
    return Now(START.monotonic + seconds, START.wall + seconds)


class Lines:
    """A cutter that makes one frame of the bytes that come together, and keeps all of it."""

    def cut(self, data: bytes) -> Iterator[Cut]:
        if data:
            yield Cut(len(data), data)


def tap(unread: bytes = b"") -> FrameTap:
    return FrameTap(Cutters(Lines(), Lines(), unread), protocol="lines", now=START)


def watched(one: FrameTap, taps_max: int = 1) -> FrameTaps:
    taps = FrameTaps(taps_max)
    taps.check_room("c1", START)
    taps.add("c1", one)
    return taps


def test_both_directions_in_order_and_what_had_come_before():
    one = tap(b"before")
    one.take(b"in", outgoing=False, now=at(1))
    one.take(b"out", outgoing=True, now=at(2))
    shown = watched(one).show("c1", 0, at(3))
    assert shown["frames"] == [
        [0, START.wall, False, 6, b"before"],
        [1, START.wall + 1, False, 2, b"in"],
        [2, START.wall + 2, True, 3, b"out"],
    ]
    assert (shown["next"], shown["missed"], shown["more"], shown["protocol"]) == (3, 0, False, "lines")
    assert watched(one).show("c1", 3, at(3))["frames"] == []


def test_too_many_frames_are_counted():
    one = tap()
    for _ in range(FRAMES_KEPT + 5):
        one.take(b"x", outgoing=False, now=START)
    taps, after, missed, seen = watched(one), 0, 0, 0
    while seen + missed < one.seen:
        shown = taps.show("c1", after, START)
        assert len(shown["frames"]) <= FRAMES_SHOWN
        after, missed, seen = shown["next"], missed + shown["missed"], seen + len(shown["frames"])
    assert (missed, seen, shown["more"]) == (5, FRAMES_KEPT, False)


def test_too_many_bytes_are_counted():
    one = tap()
    for _ in range(10):
        one.take(bytes(BYTES_KEPT // 4), outgoing=False, now=START)
    assert watched(one).show("c1", 0, START)["missed"] == 6
    one.take(bytes(BYTES_KEPT + 1), outgoing=False, now=START)
    assert watched(one).show("c1", 10, START) == {
        "protocol": "lines",
        "frames": [],
        "missed": 1,
        "next": 11,
        "more": False,
    }


def test_a_tap_that_is_not_read_is_dropped():
    taps = watched(tap())
    taps.show("c1", 0, at(UNWATCHED_SECONDS))
    taps.show("c1", 0, at(2 * UNWATCHED_SECONDS))
    with pytest.raises(NotFound):
        taps.show("c1", 0, at(3 * UNWATCHED_SECONDS + 0.1))


def test_the_number_of_taps_is_bounded():
    taps = watched(tap())
    taps.check_room("c1", START)
    with pytest.raises(LimitReached, match=r"server\.frame_taps_max"):
        taps.check_room("c2", START)
    taps.check_room("c2", at(UNWATCHED_SECONDS + 0.1))
    taps.drop("c1")
    taps.drop("c1")
    taps.check_room("c2", START)


async def test_a_connection_without_frames_and_none():
    async with serving() as s:
        await s.connect()
        await settled()
        for identity in ("c1", "c9"):
            with pytest.raises(NotFound):
                s.server.trace_frames(identity, wanted=True)
            s.server.trace_frames(identity, wanted=False)
            with pytest.raises(NotFound):
                s.server.traced_frames(identity, 0)


async def test_a_connection_that_is_looked_at_reads_less_at_once():
    async with serving() as s:
        client, _ = await s.open()
        s.server.trace_frames("c1", wanted=True)
        await client.send(bytes(5 * TAPPED_READ_BYTES))
        await settled()
        frames = s.server.traced_frames("c1", 0)["frames"]
        assert sum(size for _, _, _, size, _ in frames) == 5 * TAPPED_READ_BYTES
        assert all(size <= TAPPED_READ_BYTES for _, _, _, size, _ in frames)
