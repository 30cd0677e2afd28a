"""Flow frames: what is encoded at once has the bytes of the generic codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.wire.flow_frame import encode_flow
from amqp10.wire.framing import encode_frame
from amqp10.wire.performatives import UINT_MAX, Flow, encode_performative
from tests.kit.amqp10_frames import PERFORMATIVES

UINTS = st.integers(0, 600) | st.integers(0, UINT_MAX)
GRANTS = st.builds(
    Flow,
    **dict.fromkeys(
        (
            "next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window", "handle", "delivery_count",
            "link_credit",
        ),
        UINTS,
    ),
    drain=st.booleans(),
    echo=st.booleans(),
)  # fmt: skip


@given(flow=PERFORMATIVES[Flow] | GRANTS, channel=st.integers(0, 0xFFFF))
def test_the_bytes_are_those_of_the_generic_codec(flow, channel):
    assert encode_flow(channel, flow) == encode_frame(channel, encode_performative(flow))


@pytest.mark.parametrize("number", [0, 1, 255, 256, UINT_MAX])
def test_numbers_at_the_bounds_of_their_encodings(number):
    flow = Flow(
        next_incoming_id=number, incoming_window=number, next_outgoing_id=number, outgoing_window=number,
        handle=number, delivery_count=number, link_credit=number,
    )  # fmt: skip
    assert encode_flow(0, flow) == encode_frame(0, encode_performative(flow))
