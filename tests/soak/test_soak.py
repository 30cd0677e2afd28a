"""The soak's judgement, and a soak of some seconds; ``python -m tests.soak`` takes an hour."""

from pathlib import Path

import pytest
import trio

from tests.soak.__main__ import judge, main, parse
from tests.soak.bookkeeping import Book
from tests.soak.plan import LARGE, SMALL, body, number_of
from tests.soak.run import Wanted, new_seen, soak
from tests.soak.verdict import MIB, Allowance, Sample, is_flat, memory_slope, slope, uncertainty


def sent(n: int) -> Book:
    book = Book("orders")
    book.issue(n)
    return book


def test_what_came_once_and_in_order_is_right():
    book = sent(3)
    for number in range(3):
        book.deliver(number, again=False)
        book.settle(number)
    book.close()
    assert (book.faults, book.settled, book.open) == (0, 3, 0)


def test_what_never_came_is_lost():
    book = sent(3)
    book.deliver(0, again=False)
    book.settle(0)
    book.close()
    assert (book.faults, book.findings) == (2, ["2 lost, the first of them 1"])


@pytest.mark.parametrize("again", [True, False])
def test_what_was_settled_must_not_come_again(again: bool):
    book = sent(1)
    book.deliver(0, again=False)
    book.settle(0)
    book.deliver(0, again=again)
    assert book.findings == ["0 came twice, or was never sent"]


def test_what_was_settled_on_a_connection_that_was_cut_may_come_once_more_with_its_mark():
    book = sent(1)
    book.deliver(0, again=False)
    book.settle(0)
    book.cut([0])
    book.deliver(0, again=True)
    assert book.faults == 0
    book.deliver(0, again=True)
    assert book.faults == 1


def test_a_redelivery_needs_its_mark_and_may_come_behind_what_is_newer():
    book = sent(2)
    book.deliver(0, again=False)
    book.deliver(1, again=False)
    book.deliver(0, again=True)
    assert book.faults == 0
    book.deliver(1, again=False)
    assert book.findings == ["1 came again without the mark of a redelivery"]


def test_what_comes_for_the_first_time_comes_in_order():
    book = sent(2)
    book.deliver(1, again=False)
    book.deliver(0, again=False)
    assert book.findings == ["0 came after 1"]


@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_a_body_is_its_number_in_every_size(sizes: tuple[int, ...]):
    bodies = [body(number, sizes) for number in range(len(sizes))]
    assert [number_of(content) for content in bodies] == list(range(len(sizes)))
    assert [len(content) for content in bodies] == list(sizes)


def resident(per_hour: float, wave: float = 0.0) -> list[Sample]:
    """Forty minutes of memory that grows by this many MiB an hour, and varies."""
    return [Sample(at, round((100 + per_hour * at / 3600 + wave * (at % 7)) * MIB), 20, 8, 30, 1) for at in range(2400)]


def test_the_slope_is_that_of_a_line():
    assert slope([(0, 1), (1, 3), (2, 5)]) == pytest.approx(2)
    assert memory_slope(resident(1.5))[0] == pytest.approx(1.5, abs=0.01)


def test_ups_and_downs_are_uncertainty_and_not_slope():
    steep, error = memory_slope(resident(0.5, wave=0.5))
    assert steep == pytest.approx(0.5, abs=0.1)
    assert 0 < error < 0.1
    assert uncertainty([(0, 0)] * 3) == float("inf")


@pytest.mark.parametrize(("last", "flat"), [(20, True), (24, True), (25, False)])
def test_flat_is_the_last_third_against_the_first(last: int, flat: bool):
    values = [20.0] * 30 + [22.0] * 30 + [float(last)] * 30
    assert is_flat(values, Allowance(4)) is flat


def test_a_flat_figure_may_go_down():
    assert is_flat([50.0, 10.0, 10.0], Allowance(0))


@pytest.mark.parametrize(
    ("per_hour", "status", "failed"), [(0.5, 0, set()), (1.5, 0, {"memory"}), (0.5, 1, {"end"}), (0.5, None, {"end"})]
)
def test_the_verdict_names_what_failed(per_hour: float, status: int | None, failed: set[str]):
    seen = new_seen()
    seen.samples.extend(resident(per_hour))
    seen.status = status
    seen.scrapes.note("/metrics", 0.1, 1000)
    book = seen.flows[0].book
    book.issue(1)
    book.deliver(0, again=False)
    book.settle(0)
    assert {name for name, holds, _ in judge(seen, 1200, 1.0) if not holds} == failed


def test_a_lost_message_a_failed_scrape_and_an_error_in_the_log_fail_the_soak():
    seen = new_seen()
    seen.samples.extend(resident(0))
    seen.status = 0
    seen.scrapes.fail("GET /metrics: 503")
    seen.log["error connection-failed"] += 1
    seen.flows[0].book.issue(1)
    seen.flows[0].book.close()
    found = {name: figures for name, holds, figures in judge(seen, 1200, 1.0) if not holds}
    assert found.keys() == {"messages", "scrapes", "end"}
    assert "classic: 1 lost" in found["messages"]
    assert "GET /metrics: 503" in found["scrapes"]


@pytest.mark.parametrize("words", [["--minutes", "0"], ["--rate", "-1"], ["--minutes", "5", "--warm-up", "5"]])
def test_wrong_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "must be" in capsys.readouterr().err


def test_a_short_run_warms_up_for_a_third():
    assert parse(["--minutes", "15"]).warm_up == pytest.approx(5)
    assert parse([]).warm_up == pytest.approx(20)


@pytest.mark.slow
def test_some_seconds_of_it(tmp_path: Path):
    seen = new_seen()
    trio.run(soak, tmp_path, Wanted(minutes=0.06, scrape_s=0.2, flow_events=True), seen, lambda _: None)
    verdicts = {name: (holds, figures) for name, holds, figures in judge(seen, 1.0, 1.0)}
    for name in ("messages", "scrapes", "end"):
        assert verdicts[name][0], f"{name}: {verdicts[name][1]}"
    assert min(flow.book.settled for flow in seen.flows) > 0
    assert min(seen.rounds.done.values()) > 0
