"""The check of published messages that the fast path has not checked: what they say, and where each is to go.

Sections come in order, no reserved annotations, and the user-id is the peer's own. A message is *plain* when a look at
its bytes shows that, with header sections and addresses that are known from messages before it; others are decoded.
"""

from amqp10.addresses import NAME_BYTES_MAX, AddressError
from amqp10.errors import DecodeError, ErrorCondition, LinkFault
from amqp10.frontend.gathered_run import CheckedMessage, Unrouted
from amqp10.frontend.headers import AttributesByHeader
from amqp10.protocol.receiver_link import DeliveriesReceived
from amqp10.targets import parse_target
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.plain_messages import NOT_PLAIN, NULL_FIELD, PlainMessageReader
from amqp10.wire.sections import (
    SectionBounds,
    are_plain_annotations,
    check_annotations,
    decode_map_section,
    decode_property_fields,
    scan,
)
from amqp10.wire.types import Symbol
from core.access.rights import Rights
from core.interface import Target
from core.message import Attributes
from core.work import Work

CHECK_WORK, BYTES_A_UNIT = 10, 5
"""Cost of checking a message that is not plain, in units of :mod:`core.work`, and the bytes of its decoded sections
that cost one more."""
CC = "x-cc"
"""Message annotation with more routing keys: a list of strings."""
CC_BYTES = CC.encode()
CC_KEYS_MAX = 256
NO_KEYS: tuple[str, ...] = ()
TARGETS_KEPT = 1024
"""Addresses of messages that a link remembers. With more of them in turn, parsing each again costs 3 µs a message."""
UNKNOWN = Attributes()
"""Stands for the attributes of a header section that was not decoded yet, until it is."""
LOOKED_INTO_BYTES_MAX = 65_536
"""Size of the largest section that is decoded: at 0.2 µs a byte that takes 13 ms, in which no other connection is
served; a maximum message of annotations would take 3 s. Sections that are not decoded may have any size."""


class MessageCheck:
    """Checks the messages of one publishing link."""

    __slots__ = ("_attributes", "_plain", "_rights", "_target", "_targets", "_work")

    def __init__(self, target: Target | None, *, rights: Rights, attributes: AttributesByHeader, work: Work) -> None:
        """``target``: that of the link; None for the anonymous terminus. A message's user-id must be the name of the
        user who has the ``rights``."""
        self._target = target
        self._targets: dict[bytes, Target] = {}
        """Where messages of the anonymous terminus go, by their encoded ``to``; the last ones."""
        self._rights = rights
        self._attributes = attributes
        self._plain = PlainMessageReader((None, NULL_FIELD, encode_value(rights.user.encode())), CC_BYTES)
        self._work = work

    def read(self, messages: list[bytes], event: DeliveriesReceived) -> tuple[list[int], list[bytes], list[Attributes]]:
        """Where the header section of each message ends, the encoded ``to`` of each, and the attributes of each. The
        first list ends with one ``NOT_PLAIN`` more; at ``NOT_PLAIN``, the others say nothing."""
        n = len(messages)
        if event.checked:
            return [0] * n + [NOT_PLAIN], [NULL_FIELD] * n, [self._attributes.of(event.header)] * n
        header_ends, addresses = self._plain.read(messages)
        known = self._attributes.known.get
        attributes = [
            known(message[:end], UNKNOWN) if end >= 0 else UNKNOWN
            for message, end in zip(messages, header_ends, strict=True)
        ]
        if id(UNKNOWN) in set(map(id, attributes)):  # far faster than comparing attributes
            header_ends = [
                NOT_PLAIN if one is UNKNOWN else end for end, one in zip(header_ends, attributes, strict=True)
            ]
        return [*header_ends, NOT_PLAIN], addresses, attributes

    def examined(
        self, payload: bytes, header_end: int, to: bytes, attributes: Attributes, event: DeliveriesReceived
    ) -> CheckedMessage | Unrouted:
        """One message with its target; it is checked unless it is plain. Raises LinkFault for one that must end the
        link."""
        target = self._target or self._targets.get(to)
        if header_end >= 0 and target is not None:
            return CheckedMessage(payload[header_end:], attributes, target, NO_KEYS)
        checked = self._check(payload, event)
        if header_end >= 0 and target is None and isinstance(checked, CheckedMessage):
            if len(self._targets) >= TARGETS_KEPT:
                self._targets.clear()
            self._targets[to] = checked.target
        return checked

    def _check(self, payload: bytes, event: DeliveriesReceived) -> CheckedMessage | Unrouted:
        """Check one message. Raises LinkFault for one that must end the link."""
        if event.checked:
            # one body section and nothing else: no `to`, so only the anonymous terminus comes here
            return Unrouted(LinkFault(ErrorCondition.PRECONDITION_FAILED, "the message has no properties with a 'to'"))
        if not payload:
            raise LinkFault(ErrorCondition.DECODE_ERROR, "a delivery without a message: it has no section at all")
        try:
            bounds = scan(payload)
            size = check_sizes(bounds)
            self._work.spent += CHECK_WORK + size // BYTES_A_UNIT
            attributes = self._attributes.of(payload[slice(*bounds.header)] if bounds.header else b"")
            routing_keys = self._routing_keys(payload, bounds)
            target = self._checked_target(payload, bounds)
        except DecodeError as error:
            raise LinkFault(ErrorCondition.DECODE_ERROR, error.description) from error
        except LinkFault as fault:
            if fault.condition == ErrorCondition.INVALID_FIELD and self._target is None:
                return Unrouted(fault)
            raise
        if isinstance(target, Unrouted):
            return target
        start = bounds.delivery_annotations or bounds.header
        return CheckedMessage(payload[start[1] :] if start else payload, attributes, target, routing_keys)

    def _routing_keys(self, payload: bytes, bounds: SectionBounds) -> tuple[str, ...]:
        """The extra keys of x-cc; raises DecodeError for reserved annotations, LinkFault for a bad x-cc."""
        if bounds.message_annotations is None:
            return ()
        if are_plain_annotations(payload, *bounds.message_annotations, without=CC_BYTES):
            return ()
        annotations = decode_map_section(payload, *bounds.message_annotations)
        check_annotations(annotations)
        keys = annotations.get(Symbol(CC))
        if keys is None:
            return ()
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise LinkFault(ErrorCondition.INVALID_FIELD, f"{CC} must be a list of strings")
        if len(keys) > CC_KEYS_MAX or any(len(key.encode()) > NAME_BYTES_MAX for key in keys):
            raise LinkFault(
                ErrorCondition.INVALID_FIELD, f"{CC} may have {CC_KEYS_MAX} keys of {NAME_BYTES_MAX} bytes at most"
            )
        return tuple(str(key) for key in keys)

    def _checked_target(self, payload: bytes, bounds: SectionBounds) -> Target | Unrouted:
        if bounds.properties is None:
            if self._target is None:
                return Unrouted(
                    LinkFault(ErrorCondition.PRECONDITION_FAILED, "the message has no properties with a 'to'")
                )
            return self._target
        properties = decode_property_fields(payload, *bounds.properties)
        user, rights = properties.user_id, self._rights
        if user is not None and user != rights.user.encode() and not rights.impersonates:
            raise LinkFault(
                ErrorCondition.UNAUTHORIZED_ACCESS, "the message's user-id is not the user of this connection"
            )
        if self._target is not None:
            return self._target
        if not isinstance(properties.to, str):
            return Unrouted(LinkFault(ErrorCondition.PRECONDITION_FAILED, "the message's 'to' is not set"))
        try:
            return parse_target(properties.to)
        except AddressError as error:
            return Unrouted(LinkFault(ErrorCondition.PRECONDITION_FAILED, str(error)))


def check_sizes(bounds: SectionBounds) -> int:
    """Return the bytes of the sections that are decoded. Raises LinkFault for a message with sections so large that
    decoding them would delay all other connections."""
    decoded = 0
    for looked_into in (bounds.header, bounds.message_annotations, bounds.properties):
        if looked_into is None:
            continue
        size = looked_into[1] - looked_into[0]
        if size > LOOKED_INTO_BYTES_MAX:
            raise LinkFault(
                ErrorCondition.RESOURCE_LIMIT_EXCEEDED,
                f"a section of {size} bytes; header, message-annotations and properties may"
                f" have {LOOKED_INTO_BYTES_MAX} each",
            )
        decoded += size
    return decoded
