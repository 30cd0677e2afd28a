"""How long links and connections were stalled, compared with a sum over each stall."""

from hypothesis import given
from hypothesis import strategies as st

from core.counters.blocked_time import BlockedTime, BlockedTimes


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), max_size=40))
def test_the_time_is_the_sum_over_all_stalls(steps: list[tuple[int, int]]):
    time, now, begun, expected = BlockedTime(), 0.0, [], 0.0
    for seconds, ending in steps:
        now += seconds
        time.begin(now)
        begun.append(now)
        for since in begun[:ending]:
            time.end(now)
            expected += now - since
        del begun[:ending]
        assert time.count == len(begun)
        assert time.seconds(now) == expected + sum(now - since for since in begun)


def test_the_time_never_goes_down_though_the_reader_is_ahead_of_the_turn():
    time = BlockedTime()
    time.begin(10.0)
    assert time.seconds(15.0) == 5.0
    time.end(14.0)
    assert time.seconds(14.5) == time.seconds(20.0) == 5.0


def test_keys_have_times_of_their_own():
    times: BlockedTimes[str] = BlockedTimes()
    assert times.seconds(1.0) == {}
    times.begin("disk", 1.0)
    times.begin("memory", 2.0)
    times.end("disk", 4.0)
    assert times.seconds(6.0) == {"disk": 3.0, "memory": 4.0}
