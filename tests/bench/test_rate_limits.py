"""Rate limits against a real broker, in a short form, and what the command makes of what it saw."""

import pytest

from bench.rate_limits import Looked, Sight, groups, main


def seen(limit: int, *sights: tuple[float, int], sent: int = 0, waited: bool = True, told: bool = True) -> Looked:
    """What was seen at these times, with these messages; each look takes 10 ms."""
    found = [Sight(at, at + 0.01, messages) for at, messages in sights]
    return Looked(limit, sights=found, waited=waited, told=told, sent=sent)


def test_a_limit_that_is_kept_is_held() -> None:
    one = seen(1000, (0.0, 0), (1.0, 1250), (2.0, 2250), sent=30_250)
    assert one.burst == pytest.approx(1250 - 1000 * 1.01)
    assert one.off_by(30.0) == pytest.approx(0.25 / 30)
    assert one.faults(30.0) == []
    assert one.line(30.0).split()[-1] == "held"


@pytest.mark.parametrize(
    ("one", "fault"),
    [
        (seen(1000, (0.0, 0), (1.0, 1000), sent=30_601), "RATE"),
        (seen(1000, (0.0, 0), (1.0, 1000), sent=29_399), "RATE"),
        (seen(1000, (0.0, 0), (1.0, 1000), (1.1, 1400), sent=30_000), "BURST"),
        (seen(1000, (0.0, 0), sent=30_000, waited=False), "REASON NOT SEEN"),
        (seen(10, (0.0, 0), sent=300, told=False), "NOT IN THE LEDGER"),
    ],
)
def test_a_limit_that_is_not_kept_is_not_held(one: Looked, fault: str) -> None:
    assert one.faults(30.0) == [fault]
    assert fault in one.line(30.0)


def test_a_slow_look_is_no_burst() -> None:
    one = Looked(1000, sights=[Sight(0.0, 0.01, 0), Sight(0.1, 2.0, 1900)])
    assert one.burst == 0.0


def test_limits_with_a_small_sum_are_measured_together() -> None:
    assert list(groups([10, 100, 1000, 3000], 1110)) == [[10, 100, 1000], [3000]]
    assert list(groups([10, 5000, 20], 0)) == [[10], [5000], [20]]


def test_a_broker_holds_its_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """In a time so short that the first burst is a large part of the messages, and the rate is not judged."""
    status = main(["--limits", "10", "2000", "--seconds", "2"])
    *_, low, high, total = capsys.readouterr().out.splitlines()
    assert status in (0, 1)
    assert total.endswith("of 2 limits are held")
    for line, limit in ((low, 10), (high, 2000)):
        words = line.replace(",", "").split()
        assert int(words[0]) == limit
        assert 0.9 * 2 * limit <= int(words[1]) <= 2 * limit + limit / 4 + 3
        assert "seen" in words
        assert "BURST" not in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--limits", "0"], "--limits must be different numbers of 1 or more"),
        (["--limits", "5", "5"], "--limits must be different numbers of 1 or more"),
        (["--seconds", "0"], "--seconds must be above 0"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err
