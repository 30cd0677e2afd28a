"""Termini, delivery states and the error: the composite types that performatives carry [2.8.14, 3.4, 3.5].

These classes only hold values; other modules decide what a state means for a delivery, or an address for the broker.
Field names, order and defaults are the specification's. A map that is absent is ``None``; symbols that are absent are
``()``.
"""

from dataclasses import dataclass

from amqp10.errors import EncodeError, quote
from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.composite import (
    ANY,
    BOOLEAN,
    FIELDS,
    STRING,
    SYMBOL,
    SYMBOLS,
    UINT,
    ULONG,
    Composite,
    FieldKind,
    invalid_field,
    one_of,
    restricted,
    wrong_type,
)
from amqp10.wire.codec.decode import decode_value
from amqp10.wire.codec.encode import encode_map_of, encode_value
from amqp10.wire.types import Described


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """Why something ended or was rejected [2.8.14]."""

    condition: str
    description: str | None = None
    info: dict[str, object] | None = None


ERROR = Composite(Error, 0x1D, "amqp:error:list", (SYMBOL, STRING, FIELDS))
ERROR_FIELD = one_of("error", (ERROR,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """How much of a delivery has arrived: a state, not an outcome [3.4.1]."""

    section_number: int
    section_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Taken and processed [3.4.2]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Invalid and not to be processed [3.4.3]."""

    error: Error | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Not processed, and will not be [3.4.4]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modified:
    """Not processed, and to be changed before it is delivered again [3.4.5].

    ``message_annotations`` replace those of the message key by key; their values keep AMQP types.
    """

    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: dict[str, object] | None = None


Outcome = Accepted | Rejected | Released | Modified
"""The terminal states of this specification [3.4]."""
DeliveryState = Outcome | Received | Described
"""Any state. Extensions define more, for example transactional ones [4.5]; those stay :class:`Described`."""

ACCEPTED = Accepted()
RELEASED = Released()

_OUTCOMES: tuple[Composite[Accepted] | Composite[Rejected] | Composite[Released] | Composite[Modified], ...] = (
    Composite(Accepted, 0x24, "amqp:accepted:list", ()),
    Composite(Rejected, 0x25, "amqp:rejected:list", (ERROR_FIELD,)),
    Composite(Released, 0x26, "amqp:released:list", ()),
    Composite(Modified, 0x27, "amqp:modified:list", (BOOLEAN, BOOLEAN, FIELDS)),
)
_RECEIVED = Composite(Received, 0x23, "amqp:received:list", (UINT, ULONG))

OUTCOME_FIELD = one_of("outcome", _OUTCOMES, others=True)
DELIVERY_STATE_FIELD = one_of("delivery state", (*_OUTCOMES, _RECEIVED), others=True)


def _read_unsettled(buffer: bytes, position: int, end: int, depth_left: int) -> tuple[object, int]:
    """Delivery-tags to states: a map whose keys are binaries and whose values are states or null [2.7.3]."""
    if buffer[position] not in (code.MAP_8, code.MAP_32):
        raise wrong_type("map", buffer, position)
    items, stop = decode_value(buffer, position, end, depth_left)
    assert isinstance(items, dict)
    unsettled: dict[bytes, object] = {}
    for tag, state in items.items():
        if not isinstance(tag, bytes):
            raise invalid_field(f"the key {quote(tag)} of the map at offset {position} is no delivery-tag")
        if state is not None and not isinstance(state, Described):
            raise invalid_field(f"{quote(state)} in the map at offset {position} is no delivery state")
        unsettled[tag] = None if state is None else _as_state(state, depth_left)
    return unsettled, stop


def _as_state(state: Described, depth_left: int) -> object:
    # The map is rare (link recovery). Its states are encoded again, so that one function reads all states.
    encoded = encode_value(state)
    return DELIVERY_STATE_FIELD.read(encoded, 0, len(encoded), depth_left)[0]


def _write_unsettled(value: object) -> bytes:
    if not isinstance(value, dict):
        raise EncodeError(f"{quote(value)} is no dict")
    encoded = []
    for tag, state in value.items():
        encoded.append(encode_value(tag))
        encoded.append(b"\x40" if state is None else DELIVERY_STATE_FIELD.write(state))
    return encode_map_of(encoded)


UNSETTLED_FIELD = FieldKind(_read_unsettled, _write_unsettled)

EXPIRY_POLICIES = ("link-detach", "session-end", "connection-close", "never")
"""The events after which the timeout of a terminus begins to count down [3.5.6]."""

_DURABILITY = restricted(UINT, (0, 1, 2))
"""none, configuration, unsettled-state [3.5.5]."""
_EXPIRY_POLICY = restricted(SYMBOL, EXPIRY_POLICIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the messages of a link come from [3.5.3].

    ``address`` may be of any type; a string is a ``str``. ``timeout`` is in seconds. ``filter`` holds its values as
    they came, described.
    """

    address: object = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[str, object] | None = None
    distribution_mode: str | None = None
    filter: dict[str, object] | None = None
    default_outcome: Outcome | Described | None = None
    outcomes: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the messages of a link go [3.5.4]. Fields as in :class:`Source`."""

    address: object = None
    durable: int = 0
    expiry_policy: str = "session-end"
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: dict[str, object] | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The target of a link that controls transactions [4.5.1]."""

    capabilities: tuple[str, ...] = ()


_TERMINUS = (ANY, _DURABILITY, _EXPIRY_POLICY, UINT, BOOLEAN, FIELDS)

SOURCE_FIELD = one_of(
    "source",
    (Composite(Source, 0x28, "amqp:source:list", (*_TERMINUS, SYMBOL, FIELDS, OUTCOME_FIELD, SYMBOLS, SYMBOLS)),),
    others=True,
)
TARGET_FIELD = one_of(
    "target",
    (
        Composite(Target, 0x29, "amqp:target:list", (*_TERMINUS, SYMBOLS)),
        Composite(Coordinator, 0x30, "amqp:coordinator:list", (SYMBOLS,)),
    ),
    others=True,
)
