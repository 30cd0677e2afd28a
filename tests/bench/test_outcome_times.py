"""The time from sending a message to its outcome is that of its burst, for each message once."""

from amqp10.load.outcome_times import RECENT_MAX, OutcomeTimes


def test_an_outcome_is_timed_from_the_burst_of_its_message():
    times = OutcomeTimes()
    times.sent(2, 0)
    times.sent(5, 1_000_000)
    times.settled(1, 3_000_000)
    times.settled(4, 5_000_000)
    found = {item.value_iterated_to: item.count_at_value_iterated_to for item in times.latency.get_recorded_iterator()}
    assert {round(value, -2): count for value, count in found.items()} == {3000: 1, 5000: 1, 4000: 2}


def test_no_time_is_lost_or_counted_twice_between_two_looks():
    times = OutcomeTimes()
    for number in range(1, 2 * RECENT_MAX + 1):
        times.sent(number, 0)
        times.settled(number, number * 1000)
        if number == RECENT_MAX // 2:
            assert times.latency.get_total_count() == number
            times.latency.reset()
    assert times.latency.get_total_count() == 2 * RECENT_MAX - RECENT_MAX // 2
    assert times.latency.get_total_count() == 2 * RECENT_MAX - RECENT_MAX // 2
