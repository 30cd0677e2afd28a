"""What the diary of ordinary load notes, and what its command refuses. The load itself: ``tests/config_files``."""

import pytest

from tests.kit.prometheus_server import Alert
from tests.soak.daily import flows
from tests.soak.ordinary import Diary, clock, main, report
from tests.soak.run import Seen
from tests.soak.verdict import Sample


def alert(state: str, name: str = "HeadgateDown") -> Alert:
    return Alert(state, {"alertname": name, "instance": "here:1", "job": "headgate", "severity": "critical"})


def test_each_change_of_an_alert_is_a_line_with_its_time():
    diary = Diary()
    assert diary.note([], 0.0) == []
    assert diary.note([alert("pending")], 15.0) == ["0:00:15  pending  HeadgateDown severity=critical"]
    assert diary.note([alert("pending")], 45.0) == []
    assert diary.note([alert("firing")], 75.0) == [
        "0:01:15  firing   HeadgateDown severity=critical after 60 s pending"
    ]
    assert diary.note([], 3675.0) == ["1:01:15  off      HeadgateDown severity=critical after 3600 s firing"]
    assert diary.fired == [("HeadgateDown", "severity=critical")]
    assert diary.pending == {("HeadgateDown", "severity=critical"): 60.0}
    assert diary.states == {}


def test_an_alert_that_was_only_pending_has_not_fired():
    diary = Diary()
    diary.note([alert("pending")], 15.0)
    diary.note([], 30.0)
    assert diary.fired == []
    assert clock(3 * 3600 + 61) == "3:01:01"


@pytest.mark.parametrize(("waited", "is_false"), [(0.01, True), (0.2, False)])
def test_a_late_event_loop_is_no_false_alert_where_others_use_the_processors(waited: float, is_false: bool):
    diary = Diary()
    (line,) = diary.note([alert("firing", "HeadgateEventLoopLag")], 600.0, waited)
    assert f"waited {waited:.0%} of the time for a processor" in line
    assert bool(diary.fired) is is_false
    assert bool(diary.of_the_machine) is not is_false


@pytest.mark.parametrize(
    ("fired", "status", "lost", "passed"),
    [(False, 0, False, True), (True, 0, False, False), (False, 1, False, False), (False, 0, True, False)],
)
def test_an_alert_a_lost_message_and_a_failed_broker_each_fail_it(
    fired: bool, status: int, lost: bool, passed: bool, capsys: pytest.CaptureFixture[str]
):
    seen, diary = Seen(flows()), Diary()
    seen.samples.append(Sample(60.0, 2**20, 20, 8, 30, 1))
    seen.status = status
    if fired:
        diary.note([alert("firing")], 30.0)
    if lost:
        seen.flows[0].book.issue(1)
        seen.flows[0].book.close()
    assert report(seen, diary) is passed
    assert ("FIRED" in capsys.readouterr().out) is fired


def test_no_hours_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["--hours", "0"])
    assert ended.value.code == 2
    assert "more than 0" in capsys.readouterr().err
