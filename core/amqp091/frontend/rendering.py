"""Renders deliveries for a 0.9.1 client: messages in its encoding, with later annotations and counts as headers."""

from dataclasses import replace

from core.amqp091.content import body_of, entry_of, header_length, properties_of
from core.amqp091.properties import decode_properties, encode_properties
from core.interface import Converter, Delivered
from core.message import Origin, each_of

DELIVERY_COUNT = "x-delivery-count"
"""The header with the number of failed attempts, as with RabbitMQ's quorum queues."""
OFFSET = "x-stream-offset"
"""The header with the offset of a message in its stream."""
_ENCODED_OFFSET = OFFSET.encode()


def rendered(action: Delivered, converter: Converter) -> list[bytes]:
    """The messages of a delivery, as entries in 0.9.1 encoding."""
    entries, origin = action.entries, action.origin
    if action.annotations is not None:
        added = action.annotations
        entries = [converter.annotated(entry, origin, added) for entry in entries]
    if origin is not Origin.AMQP091:
        each = each_of(action.attributes, len(entries))
        entries = [
            converter.render(entry, attributes, Origin.AMQP091)
            for entry, attributes in zip(entries, each, strict=False)
        ]
    if action.sequences is not None:
        key = action.sequence_key
        return [
            _with_headers(entry, {key: sequence} if sequence is not None else {}, action.delivery_count)
            for entry, sequence in zip(entries, action.sequences, strict=False)
        ]
    if action.delivery_count:
        return [_with_headers(entry, {}, action.delivery_count) for entry in entries]
    return entries


def offset_in(entry: bytes) -> int | None:
    """The offset of a message of a stream, which this node or the leader of the stream has put into its headers; None
    if there is none."""
    if entry.find(_ENCODED_OFFSET, 0, header_length(entry)) < 0:
        return None
    data = properties_of(entry)
    offset = (decode_properties(data, 0, len(data)).headers or {}).get(OFFSET)
    return offset if isinstance(offset, int) else None


def _with_headers(entry: bytes, added: dict[str, int], delivery_count: int) -> bytes:
    if delivery_count:
        added = {**added, DELIVERY_COUNT: delivery_count}
    if not added:
        return entry
    data = properties_of(entry)
    properties = decode_properties(data, 0, len(data))
    headers = {**(properties.headers or {}), **added}
    return entry_of(encode_properties(replace(properties, headers=headers)), body_of(entry))
