"""The overview: the broker's state in a dozen numbers."""

from itertools import pairwise

from core.slices import run_at_once
from tests.kit.admin import Facts
from tests.kit.engine import make_broker


def overview(facts: Facts) -> dict[str, object]:
    return run_at_once(facts.overview.read())


def test_rates_are_means_of_the_last_seconds():
    facts = Facts()
    for _ in range(20):
        facts.pass_time()
        facts.traffic["amqp10"].messages_received += 10
        facts.traffic["amqp091"].messages_received += 5
        facts.traffic["amqp10"].messages_acknowledged += 1
    facts.pass_time()
    assert facts.overview.rates() == {"in": 15.0, "out": 0.0, "confirmed": 0.0, "settled": 1.0}
    for _ in range(5):
        facts.pass_time()
    assert facts.overview.rates()["in"] == 0.0
    assert facts.overview.totals()["in"] == 300


def test_without_two_samples_there_are_no_rates():
    facts = Facts()
    facts.traffic["amqp10"].messages_received = 1000
    assert facts.overview.rates() == {"in": 0.0, "out": 0.0, "confirmed": 0.0, "settled": 0.0}


def test_queues_are_added_up():
    facts = Facts(broker=make_broker("a", "b"))
    facts.traffic["amqp091"].channels = 4
    seen = overview(facts)
    assert (seen["queues"], seen["ready"], seen["unacked"], seen["channels"]) == (2, 0, 0, 4)


def test_alarms_that_are_on_are_named():
    facts = Facts()
    facts.broker.set_alarm("memory")
    assert overview(facts)["alarms"] == ["memory"]


def test_the_lag_is_the_bound_below_which_nearly_all_wake_ups_are():
    facts = Facts()
    facts.pass_time()
    assert facts.overview.lag_at(0.99) == 0.0
    facts.lag_counts[0] += 99
    facts.lag_counts[5] += 1
    facts.pass_time()
    assert facts.overview.lag_at(0.99) == 0.001
    facts.lag_counts[5] += 9
    facts.pass_time()
    assert facts.overview.lag_at(0.99) == 0.05
    facts.lag_counts[-1] += 200
    facts.pass_time()
    assert facts.overview.lag_at(0.99) is None
    for _ in range(61):
        facts.pass_time()
    assert facts.overview.lag_at(0.99) == 0.0


def test_there_is_a_pause_behind_each_queue():
    facts = Facts(broker=make_broker(*(f"q{number}" for number in range(1001))))
    assert list(facts.overview.read()) == [None] * 1001


def test_the_last_hour_has_a_point_for_each_ten_seconds():
    facts = Facts()
    facts.pass_time()
    before = facts.overview.history()
    assert before == {
        "interval": 10.0,
        "times": [],
        "series": {name: [] for name in ("in", "out", "confirmed", "settled", "waiting")},
    }
    for number in range(3605):
        facts.traffic["amqp10"].messages_received += 10 if number < 20 else 4
        facts.pass_time()
    history = facts.overview.history()
    times, series = history["times"], history["series"]
    assert isinstance(times, list)
    assert isinstance(series, dict)
    assert len(times) == 360
    assert {round(after - before, 3) for before, after in pairwise(times)} == {10.0}
    assert {len(values) for values in series.values()} == {360}
    assert series["in"][-1] == 4.0
    assert series["in"][0] == 10.0
    assert set(series["out"]) == {0.0}
