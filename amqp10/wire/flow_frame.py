"""Flow frames. The generic codec encodes them field by field; those that give link credit are encoded here, to the same
bytes.

A link needs such a flow for every hundred messages or so, and field by field it costs as much as ten of them.
"""

from struct import Struct

from amqp10.wire.codec import format_codes as codes
from amqp10.wire.codec.encode import encode_uint
from amqp10.wire.framing import encode_frame
from amqp10.wire.performatives import Flow, encode_performative
from amqp10.wire.run_shapes import AMQP_FRAME

_LEAD = Struct(">I2sH3sBBB")
"""Frame header, descriptor, and the format code, size and count of the list."""
_FLOW = b"\x00\x53\x13"
_SMALL = tuple(map(encode_uint, range(256)))
_pack_large = Struct(">BI").pack
_ENDS = {
    (False, False): b"",
    (True, False): b"\x40\x41",
    (False, True): b"\x40\x40\x41",
    (True, True): b"\x40\x41\x41",
}
"""The fields behind link-credit, by drain and echo: available is null, and each field has one byte [2.7.4]."""


def encode_flow(channel: int, flow: Flow) -> bytes:
    """The frame of a flow, whose numbers are uints."""
    numbers = (
        flow.next_incoming_id, flow.incoming_window, flow.next_outgoing_id, flow.outgoing_window, flow.handle,
        flow.delivery_count, flow.link_credit,
    )  # fmt: skip
    fields = [_SMALL[n] if n < 256 else _pack_large(codes.UINT, n) for n in numbers if n is not None]
    if len(fields) < len(numbers) or flow.available is not None or flow.properties is not None:
        return encode_frame(channel, encode_performative(flow))
    end = _ENDS[flow.drain, flow.echo]
    body = b"".join(fields) + end
    size, count = len(body), len(fields) + len(end)
    return _LEAD.pack(_LEAD.size + size, AMQP_FRAME, channel, _FLOW, codes.LIST_8, size + 1, count) + body
