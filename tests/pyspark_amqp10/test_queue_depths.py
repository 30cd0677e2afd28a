"""The lag of several queues together, in the form that streams have."""

from pyspark_amqp10.queue_depths import UNKNOWN, Depth, lag_of


def test_rows_and_bytes_are_sums_and_seconds_the_longest_time():
    assert lag_of([Depth(3, 300, 1.5), Depth(4, 50, 2.25), Depth(0, 0, 0.0)]) == {
        "rows": 7,
        "bytes": 350,
        "seconds": 2.25,
    }


def test_what_one_queue_does_not_tell_is_not_known():
    assert lag_of([Depth(3, 300, 1.5), Depth(4, 50, None)]) == {"rows": 7, "bytes": 350, "seconds": None}
    assert lag_of([Depth(3, 300, 1.5), UNKNOWN]) == {"rows": None, "bytes": None, "seconds": None}
