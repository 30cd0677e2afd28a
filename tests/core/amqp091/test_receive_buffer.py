"""What the receive buffer keeps, and what each addition to it costs."""

from hypothesis import example, given
from hypothesis import strategies as st

from core.amqp091.framing import Amqp091ReceiveBuffer


def test_what_is_fed_can_be_taken_in_pieces():
    buffer = Amqp091ReceiveBuffer()
    buffer.feed(b"abc")
    assert buffer.take(2) == b"ab"
    assert buffer.take(2) is None
    buffer.feed(b"d")
    assert buffer.take(2) == b"cd"
    assert len(buffer) == 0


def test_an_untouched_read_is_not_copied():
    buffer = Amqp091ReceiveBuffer()
    data = bytes(1000)
    buffer.feed(data)
    assert buffer.data is data


def test_what_is_waited_for_is_gathered_beside_and_joined_once():
    buffer = Amqp091ReceiveBuffer()
    buffer.feed(b"a")
    buffer.wait_for(1000)
    before = buffer.data
    for _ in range(998):
        buffer.feed(b"b")
        assert buffer.data is before
    buffer.feed(b"c")
    assert buffer.data == b"a" + b"b" * 998 + b"c"


def test_much_input_behind_what_was_waited_for_is_not_copied():
    buffer = Amqp091ReceiveBuffer()
    buffer.feed(b"a")
    buffer.wait_for(10)
    read = b"b" * 9 + b"c" * 100_000
    buffer.feed(read)
    assert buffer.data == b"a" + b"b" * 9
    assert len(buffer) == 100_010
    assert buffer.rest() == b"a" + read
    assert buffer.take(10) == buffer.data
    assert buffer.go_on()
    assert buffer.data is read
    assert buffer.take(3) == b"ccc"
    assert not Amqp091ReceiveBuffer().go_on()


def test_cleared_bytes_are_dropped():
    buffer = Amqp091ReceiveBuffer()
    buffer.feed(b"a")
    buffer.wait_for(10)
    buffer.feed(b"b")
    buffer.clear()
    assert len(buffer) == 0
    buffer.feed(b"c")
    assert buffer.take(1) == b"c"


@example([b"a", b"b"], [3])  # less is left than the buffer waits for
@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 8), min_size=1))
def test_bytes_come_out_as_they_went_in(pieces, sizes):
    buffer = Amqp091ReceiveBuffer()
    taken = b""
    for number, piece in enumerate(pieces):
        buffer.feed(piece)
        taken += buffer.take(sizes[number % len(sizes)]) or b""
        assert len(taken) + len(buffer) == sum(map(len, pieces[: number + 1]))
    assert taken + buffer.rest() == b"".join(pieces)
