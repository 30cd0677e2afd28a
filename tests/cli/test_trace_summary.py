"""The frames that a trace prints, and the frames that it counts."""

import pytest

from amqp10.cli.trace_summary import LinkNumbers, Shown, Summary, WantedFrames


def frame(name: str, at: float = 10.0, *, channel: int = 0, handle: int | None = None, outgoing: bool = False) -> Shown:
    return Shown(7, at, outgoing, 100, channel, name, {} if handle is None else {"handle": handle})


def test_transfers_of_a_second_are_one_row_for_each_link_and_direction():
    summary = Summary()
    for _ in range(1000):
        for each in (frame("transfer", handle=1), frame("transfer", handle=2), frame("disposition", outgoing=True)):
            assert list(summary.ended(each.at)) == []
            summary.add(each)
    rows = list(summary.ended(11.0))
    assert [(row.name, row.outgoing, row.fields) for row in rows] == [
        ("transfer", False, {"handle": 1, "frames": 1000, "frames_bytes": 100_000}),
        ("transfer", False, {"handle": 2, "frames": 1000, "frames_bytes": 100_000}),
        ("disposition", True, {"frames": 1000, "frames_bytes": 100_000}),
    ]
    assert list(summary.ended(12.0)) == []


@pytest.mark.parametrize(
    ("wanted", "takes", "summarises"),
    [
        (WantedFrames(), True, True),
        (WantedFrames(every=True), True, False),
        (WantedFrames(performatives=("transfer",)), True, False),
        (WantedFrames(performatives=("flow",)), False, False),
        (WantedFrames(handle=3), True, True),
        (WantedFrames(handle=4), False, True),
        (WantedFrames(channel=1), False, True),
    ],
)
def test_which_frames_are_shown_and_which_are_counted(wanted: WantedFrames, takes: bool, summarises: bool):
    shown = frame("transfer", handle=3)
    assert (wanted.takes(shown), wanted.summarises(shown)) == (takes, summarises)


LINK = LinkNumbers(channel=0, handle=3, remote_channel=5, remote_handle=8)


@pytest.mark.parametrize(
    ("outgoing", "channel", "handle", "of_it"),
    [
        (True, 0, 3, True),
        (False, 5, 8, True),
        (False, 0, 3, False),
        (True, 5, 8, False),
        (True, 0, 4, False),
        (True, 1, 3, False),
        (False, 5, None, False),
    ],
)
def test_each_side_marks_the_frames_of_a_link_with_numbers_of_its_own(outgoing, channel, handle, of_it):
    shown = frame("flow", channel=channel, handle=handle, outgoing=outgoing)
    assert WantedFrames(link=LINK).takes(shown) is of_it


def test_a_flow_of_the_session_is_no_frame_of_a_link_that_the_client_has_not_attached():
    half = LINK._replace(remote_handle=None)
    assert not WantedFrames(link=half).takes(frame("flow", channel=5))


@pytest.mark.parametrize("name", ["flow", "attach", "open", "queue.declare"])
def test_a_frame_that_does_not_come_with_each_message_is_never_counted(name: str):
    assert not WantedFrames().summarises(frame(name))
