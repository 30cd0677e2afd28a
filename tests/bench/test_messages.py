"""Messages that are made ahead are, byte for byte, those that are made one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.load.amqp091.publisher import message_unit as message_unit_091
from amqp10.load.content import SEQUENCES
from amqp10.load.messages import MADE_AHEAD, NumberedMessages
from amqp10.load.plan import Application, PlannedTraffic
from amqp10.load.publisher import message_unit as message_unit_10

ONE = Application(publisher=3, publish_to="q")
FRAME_MAX = 4096
LATE = 1000
"""A delivery-id less its sequence number, where another link of the session has sent messages too."""


def messages(protocol="0.9.1", **traffic):
    wanted = PlannedTraffic(**traffic)
    if protocol == "0.9.1":
        units = [
            message_unit_091(ONE, wanted, turn=turn, channel=1, frame_max=FRAME_MAX)
            for turn in range(len(wanted.sizes_in_turn))
        ]
    else:
        units = [message_unit_10(ONE, wanted, FRAME_MAX, turn=turn) for turn in range(len(wanted.sizes_in_turn))]
    return NumberedMessages(units, wanted)


def due_ns(number):
    return 1_000_000 * number


def written(made, numbers, *, lead=0):
    return b"".join(bytes(piece) for piece in made.write(numbers, due_ns, first_id=numbers.start + lead))


@pytest.mark.parametrize("protocol", ["0.9.1", "1.0"])
@pytest.mark.parametrize("shape", ["bulk", "unbatched"])
@pytest.mark.parametrize(
    "traffic", [{}, {"content": "properties"}, {"rate": 100.0}, {"sizes": (20, 300, 40)}], ids=lambda one: str(one)
)
@given(bursts=st.lists(st.tuples(st.integers(1, MADE_AHEAD + 9), st.booleans()), min_size=1, max_size=6))
def test_bursts_of_any_length_hold_the_same_messages(protocol, shape, traffic, bursts):
    wanted = {"size": 300, "shape": shape, **traffic}
    together, alone = messages(protocol, **wanted), messages(protocol, **wanted)
    number = 0
    for count, late in bursts:
        lead = LATE if late else 0
        numbers = range(number, number + min(count, together.capacity))
        expected = b"".join(written(alone, range(one, one + 1), lead=lead) for one in numbers)
        assert written(together, numbers, lead=lead) == expected
        number = numbers.stop


def test_an_unbatched_burst_has_a_piece_for_each_message():
    made = messages(shape="unbatched", size=300)
    assert [len(made.write(range(at, at + 5), due_ns)) for at in range(0, 20, 5)] == [5] * 4


def test_messages_are_made_ahead_up_to_the_last_number():
    assert written(messages(), range(SEQUENCES - 2, SEQUENCES)) == b"".join(
        written(messages(), range(number, number + 1)) for number in (SEQUENCES - 2, SEQUENCES - 1)
    )
