"""Batches for a consumer, by its rate of settling."""

from hypothesis import given
from hypothesis import strategies as st

from amqp10.flow.grant_size import LATE, RATE_SECONDS, TURN_SECONDS, GrantSize

SMALL = [b"x" * 10]


class Consumer:
    """A consumer that gets runs and settles them whole after some time."""

    def __init__(self, *, least: int = 16, most: int = 4096, bytes_max: int = 2**20) -> None:
        self.now = 0.0
        self.number = 0
        self.sizes = GrantSize(least=least, most=most, bytes_max=bytes_max, clock=lambda: self.now)

    def takes(self, messages: int, seconds: float, *, size: int = 10) -> int:
        """Take a run, settle it so much later; returns the size of the next batch."""
        self.sizes.delivered(self.number, [b"x" * size] * messages)
        self.now += seconds
        self.sizes.settled(self.number, self.number + messages - 1, messages)
        self.number += messages
        return self.sizes.size


def test_a_new_consumer_has_the_least():
    assert Consumer().sizes.size == 16


def test_a_batch_has_twice_what_is_settled_in_the_time_of_a_turn():
    assert Consumer().takes(100, 0.01) == int(2 * 10_000 * TURN_SECONDS)


def test_a_far_consumer_has_what_it_settles_on_the_way():
    assert Consumer(most=10**6).takes(1000, 0.2) == int(2 * 5000 * 0.2)


def test_a_slow_consumer_keeps_the_least_however_much_it_holds():
    """Ten messages a second, one after the other, and a client that gives much link credit: each message waits longer
    than the one before, and the batch does not grow with that."""
    consumer = Consumer()
    sizes, delivered, largest = consumer.sizes, 0, 0
    for settled in range(2000):
        batch = sizes.size
        largest = max(largest, batch)
        sizes.delivered(delivered, SMALL * batch)
        delivered += batch
        consumer.now += 0.1
        sizes.settled(settled, settled, 1)
    assert largest == 16
    assert 9 < sizes.rate < 11


def test_a_consumer_that_is_late_gets_small_batches_until_it_has_settled():
    consumer = Consumer()
    assert consumer.takes(1000, 0.01) == 4096
    consumer.sizes.delivered(consumer.number, SMALL)
    consumer.now += LATE * TURN_SECONDS
    assert consumer.sizes.size == 4096
    consumer.now += 0.01
    assert consumer.sizes.size == 16
    consumer.sizes.settled(consumer.number, consumer.number, 1)
    assert consumer.sizes.size == 4096


def test_a_consumer_that_has_become_slow_is_so_after_the_time_for_which_a_rate_counts():
    consumer = Consumer()
    assert consumer.takes(1000, 0.01) == 4096
    consumer.now += 2 * RATE_SECONDS
    assert consumer.takes(1, 0.05) == 16


def test_a_batch_has_no_more_bytes_than_may_wait():
    consumer = Consumer(bytes_max=10_000)
    assert consumer.takes(1000, 0.01, size=100) == 100
    assert consumer.takes(1, 0.01, size=20_000) == 1


def test_what_goes_back_unsent_says_nothing_of_the_consumer():
    consumer = Consumer()
    consumer.sizes.delivered(0, SMALL * 10)
    consumer.sizes.returned(5, 9)
    consumer.now += 100
    assert (consumer.sizes.size, consumer.sizes.rate) == (16, 0.0)
    consumer.number = 5
    assert consumer.takes(100, 0.01) in (999, 1000)


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(0, 5), st.integers(0, 10**7), st.booleans()), max_size=30),
    st.integers(1, 65536),
    st.integers(1, 65536),
    st.integers(1, 2**24),
)
def test_a_batch_keeps_to_its_bounds_and_is_never_empty(runs, one, other, bytes_max):
    least, most = sorted((one, other))
    consumer = Consumer(least=least, most=most, bytes_max=bytes_max)
    for messages, seconds, size, back in runs:
        consumer.sizes.delivered(consumer.number, [bytes(min(size, 10_000))] * messages)
        consumer.now += seconds
        if back:
            consumer.sizes.returned(consumer.number, consumer.number)
        else:
            consumer.sizes.settled(consumer.number, consumer.number + messages - 1, messages)
        consumer.number += messages
        found = consumer.sizes.size
        assert 1 <= found <= most
        assert found >= min(least, max(1, int(bytes_max / max(1.0, consumer.sizes.message_bytes))))
        assert found == 1 or found * consumer.sizes.message_bytes <= bytes_max


@given(st.floats(0.5, 50_000), st.floats(0.5, 50_000), st.floats(0.0002, 0.3))
def test_who_settles_faster_has_batches_that_are_no_smaller(one, other, way):
    slow, quick = sorted((one, other))
    sizes = []
    for rate in (slow, quick):
        consumer = Consumer()
        messages = max(1, int(rate * way))
        for _ in range(3):
            consumer.takes(messages, max(way, messages / rate))
        sizes.append(consumer.sizes.size)
    assert sizes[0] <= sizes[1] + 1
