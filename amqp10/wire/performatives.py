"""The nine performatives [2.7], the bodies of AMQP frames.

Field names, order and defaults are the specification's. An absent field without a default is ``None``. The classes are
mutable, so that a sender of many similar ones can change one field and encode again. The bytes behind a performative in
its frame are the payload, which only a transfer has; the codec returns where it starts and does not read it.
"""

from dataclasses import dataclass

from amqp10.errors import DecodeError, EncodeError, quote
from amqp10.wire.codec.composite import (
    BOOLEAN,
    FIELDS,
    STRING,
    SYMBOLS,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    Composite,
    FieldKind,
    by_descriptor,
    invalid_field,
    read_binary,
    read_descriptor,
    restricted,
)
from amqp10.wire.codec.decode import DEPTH_MAX
from amqp10.wire.codec.encode import encode_binary
from amqp10.wire.codec.format_codes import DESCRIBED, SMALL_ULONG
from amqp10.wire.messaging import (
    DELIVERY_STATE_FIELD,
    ERROR_FIELD,
    SOURCE_FIELD,
    TARGET_FIELD,
    UNSETTLED_FIELD,
    Coordinator,
    DeliveryState,
    Error,
    Source,
    Target,
)
from amqp10.wire.types import Described

SENDER = False
"""The value of a ``role`` field in frames of the end that sends messages on the link [2.8.1]."""
RECEIVER = True
"""The value of a ``role`` field in frames of the end that receives messages on the link [2.8.1]."""

SND_SETTLE_MODE_UNSETTLED = 0
SND_SETTLE_MODE_SETTLED = 1
SND_SETTLE_MODE_MIXED = 2
RCV_SETTLE_MODE_FIRST = 0
RCV_SETTLE_MODE_SECOND = 1

UINT_MAX = 0xFFFFFFFF
DELIVERY_TAG_BYTES_MAX = 32
"""A delivery-tag is at most this long [2.8.7]."""


KEPT_BYTES_MAX = 256
"""A longer encoding of the latest transfer is not kept. With a tag of 32 bytes and all fields it has about 80."""


@dataclass(slots=True, kw_only=True)
class Open:
    """Opens the connection and says what this end can take [2.7.1]. ``idle_time_out`` is in milliseconds."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int = UINT_MAX
    channel_max: int = 65535
    idle_time_out: int | None = None
    outgoing_locales: tuple[str, ...] = ()
    incoming_locales: tuple[str, ...] = ()
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[str, object] | None = None


@dataclass(slots=True, kw_only=True)
class Begin:
    """Begins a session on a channel, or answers the peer's begin when ``remote_channel`` is set [2.7.2]."""

    remote_channel: int | None = None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int = UINT_MAX
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[str, object] | None = None


@dataclass(slots=True, kw_only=True)
class Attach:
    """Attaches a link to a session [2.7.3]. ``role`` is that of the end that sends the attach."""

    name: str
    handle: int
    role: bool
    snd_settle_mode: int = SND_SETTLE_MODE_MIXED
    rcv_settle_mode: int = RCV_SETTLE_MODE_FIRST
    source: Source | Described | None = None
    target: Target | Coordinator | Described | None = None
    unsettled: dict[bytes, DeliveryState | None] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: dict[str, object] | None = None


@dataclass(slots=True, kw_only=True)
class Flow:
    """The flow state of a session and, when ``handle`` is set, of one of its links [2.7.4]."""

    next_incoming_id: int | None = None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool = False
    echo: bool = False
    properties: dict[str, object] | None = None


@dataclass(slots=True, kw_only=True)
class Transfer:
    """A message or a piece of one; the payload follows it in the frame [2.7.5].

    ``settled`` is ``None`` when the field is absent. In a later transfer of the same delivery, absent and false differ
    in meaning.
    """

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool = False
    rcv_settle_mode: int | None = None
    state: DeliveryState | None = None
    resume: bool = False
    aborted: bool = False
    batchable: bool = False


@dataclass(slots=True, kw_only=True)
class Disposition:
    """The state of deliveries ``first`` to ``last``, as the sender or receiver of them sees it [2.7.6].

    ``last`` is ``None`` when it is the same as ``first``.
    """

    role: bool
    first: int
    last: int | None = None
    settled: bool = False
    state: DeliveryState | None = None
    batchable: bool = False


@dataclass(slots=True, kw_only=True)
class Detach:
    """Detaches a link, for good when ``closed`` [2.7.7]."""

    handle: int
    closed: bool = False
    error: Error | None = None


@dataclass(slots=True, kw_only=True)
class End:
    """Ends a session [2.7.8]."""

    error: Error | None = None


@dataclass(slots=True, kw_only=True)
class Close:
    """Closes the connection [2.7.9]."""

    error: Error | None = None


Performative = Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close

_SND_SETTLE_MODE = restricted(UBYTE, (SND_SETTLE_MODE_UNSETTLED, SND_SETTLE_MODE_SETTLED, SND_SETTLE_MODE_MIXED))
_RCV_SETTLE_MODE = restricted(UBYTE, (RCV_SETTLE_MODE_FIRST, RCV_SETTLE_MODE_SECOND))


def _read_delivery_tag(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[bytes, int]:
    tag, behind = read_binary(buffer, position, end, depth_left)
    if len(tag) > DELIVERY_TAG_BYTES_MAX:
        raise invalid_field(f"a delivery-tag of {len(tag)} bytes: the limit is {DELIVERY_TAG_BYTES_MAX}")
    return tag, behind


def _write_delivery_tag(tag: bytes) -> bytes:
    if len(tag) > DELIVERY_TAG_BYTES_MAX:
        raise EncodeError(f"longer than {DELIVERY_TAG_BYTES_MAX} bytes")
    return encode_binary(tag)


_DELIVERY_TAG = FieldKind(_read_delivery_tag, _write_delivery_tag, bytes)

_COMPOSITES: tuple[Composite[Performative], ...] = (
    Composite(
        Open,
        0x10,
        "amqp:open:list",
        (STRING, STRING, UINT, USHORT, UINT, SYMBOLS, SYMBOLS, SYMBOLS, SYMBOLS, FIELDS),
    ),
    Composite(
        Begin,
        0x11,
        "amqp:begin:list",
        (USHORT, UINT, UINT, UINT, UINT, SYMBOLS, SYMBOLS, FIELDS),
    ),
    Composite(
        Attach,
        0x12,
        "amqp:attach:list",
        (
            STRING,
            UINT,
            BOOLEAN,
            _SND_SETTLE_MODE,
            _RCV_SETTLE_MODE,
            SOURCE_FIELD,
            TARGET_FIELD,
            UNSETTLED_FIELD,
            BOOLEAN,
            UINT,
            ULONG,
            SYMBOLS,
            SYMBOLS,
            FIELDS,
        ),
    ),
    Composite(
        Flow,
        0x13,
        "amqp:flow:list",
        (UINT, UINT, UINT, UINT, UINT, UINT, UINT, UINT, BOOLEAN, BOOLEAN, FIELDS),
    ),
    Composite(
        Transfer,
        0x14,
        "amqp:transfer:list",
        (
            UINT,
            UINT,
            _DELIVERY_TAG,
            UINT,
            BOOLEAN,
            BOOLEAN,
            _RCV_SETTLE_MODE,
            DELIVERY_STATE_FIELD,
            BOOLEAN,
            BOOLEAN,
            BOOLEAN,
        ),
    ),
    Composite(
        Disposition,
        0x15,
        "amqp:disposition:list",
        (BOOLEAN, UINT, UINT, BOOLEAN, DELIVERY_STATE_FIELD, BOOLEAN),
    ),
    Composite(Detach, 0x16, "amqp:detach:list", (UINT, BOOLEAN, ERROR_FIELD)),
    Composite(End, 0x17, "amqp:end:list", (ERROR_FIELD,)),
    Composite(Close, 0x18, "amqp:close:list", (ERROR_FIELD,)),
)
_BY_DESCRIPTOR = by_descriptor(_COMPOSITES)
_BY_TYPE = {composite.type: composite for composite in _COMPOSITES}


def decode_performative(buffer: bytes, start: int, end: int, depth_left: int = DEPTH_MAX) -> tuple[Performative, int]:
    """The performative of the frame body from ``start`` to ``end``, and where its payload starts.

    Raises only DecodeError, also for a body that begins with another type.
    """
    descriptor: int | str
    try:
        if buffer[start] == DESCRIBED and buffer[start + 1] == SMALL_ULONG and depth_left > 0:
            descriptor, position = buffer[start + 2], start + 3
        else:
            descriptor, position = read_descriptor(buffer, start, end, depth_left)
    except IndexError:
        raise DecodeError(f"a performative is cut at offset {end}") from None
    composite = _BY_DESCRIPTOR.get(descriptor)
    if composite is None:
        raise DecodeError(f"descriptor {quote(descriptor)} at offset {start} is that of no performative")
    return composite.decode_list(buffer, position, end, depth_left - 1)


class PerformativeDecoder:
    """Decodes the performatives of one connection. The transfers of a large delivery are alike in all but the last, so
    the latest one is kept, and one that equals it is not decoded again."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: tuple[bytes, Transfer] | None = None
        """As it came, and decoded."""

    def decode(self, buffer: bytes, start: int, end: int, depth_left: int) -> tuple[Performative, int]:
        """See :func:`decode_performative`. The caller must not change the performative."""
        latest = self._latest
        if latest is not None and buffer.startswith(latest[0], start, end):
            return latest[1], start + len(latest[0])
        performative, payload_start = decode_performative(buffer, start, end, depth_left)
        if isinstance(performative, Transfer) and payload_start - start <= KEPT_BYTES_MAX:
            self._latest = buffer[start:payload_start], performative
        return performative, payload_start


def encode_performative(performative: Performative) -> bytes:
    """The described list of a performative. Raises EncodeError for a field without an encoding."""
    return _BY_TYPE[type(performative)].encode(performative)
