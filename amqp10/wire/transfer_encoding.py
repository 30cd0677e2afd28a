"""Encodes runs of messages as transfer frames, from a template: what is alike in all of them is made once.

This module must not know sessions, links or what a message means. It has no base classes, and no other module patches
it, so it can be compiled.
"""

from collections.abc import Iterable
from functools import lru_cache
from operator import add
from struct import Struct

from amqp10.wire import columns, serial
from amqp10.wire.codec import format_codes as codes
from amqp10.wire.run_shapes import AMQP_FRAME, TRANSFER

_TEMPLATES_MAX = 64
"""Lengths of headers and handles differ little: a handful of templates serves a broker."""
_FIXED_BYTES_MAX = 1024
"""One entry for each link that sends, of 400 bytes. Beyond that many busy links, an entry costs 2 µs to make again."""
_FOUR_BYTE_TAG_MAX = 0xFFFFFFFF
_SMALL_HANDLE_MAX = 0xFF
_NUMBER_FORMAT = {0: "", 4: "I", 8: "Q"}
"""The struct format of the number in a delivery-tag of so many bytes."""
_UNSETTLED_END = b"\x43"
_SETTLED_END = b"\x43\x41"
"""The bytes behind the delivery-tag: message-format 0, and settled true. Absent means unsettled [2.7.5]."""


def encode_run(
    *,
    channel: int,
    handle: int,
    first_delivery_id: int,
    first_number: int,
    entries: list[bytes],
    header: bytes | list[bytes],
    settled: bool,
    tag_bytes: int,
    even: bool,
) -> list[bytes]:
    """Transfer frames of whole deliveries, one for each entry, in two pieces each: what is before the entry, and the
    entry itself, which is not copied. In three pieces if each has a header section of its own, which comes between. In
    one piece all together if they are many short ones of one length.

    ``first_delivery_id`` is a wire number, and the ids wrap. ``first_number`` is the delivery number of the first
    entry. The numbers become delivery-tags of ``tag_bytes``, which :func:`bytes_of_tags` gives for the last of them.
    ``header`` is the encoded header section of all entries, b"" for none, or a list with that of each. ``even``: the
    entries are equally long. The caller has made sure, with :func:`frame_overhead`, that every frame is within the
    peer's max-frame-size.
    """
    n = len(entries)
    head, tail = _fixed_bytes(channel, handle, tag_bytes, settled)
    tag_lead = bytes((codes.BINARY_8, tag_bytes))
    if n == 1 and not settled and not isinstance(header, list):
        tail += header
        template = _template(len(head), _NUMBER_FORMAT[tag_bytes], len(tail))
        size = template.size + len(entries[0])
        return [template.pack(size, head, first_delivery_id, tag_lead, first_number, tail), entries[0]]
    sizes: Iterable[int] = map(len, entries)
    if isinstance(header, list):
        sizes = map(add, sizes, map(len, header))
    else:
        tail += header
        if (
            even
            and n >= columns.COLUMNS_MIN
            and (joined := columns.joined(head, first_delivery_id, tag_lead, first_number, tail, entries))
        ):
            return [joined]
    template = _template(len(head), _NUMBER_FORMAT[tag_bytes], len(tail))
    pack, overhead = template.pack, template.size
    if settled:
        leads = [
            pack(overhead + size, head, delivery_id & serial.MASK, tag_lead, tail)
            for delivery_id, size in enumerate(sizes, first_delivery_id)
        ]
    else:
        ahead = first_delivery_id - first_number
        leads = [
            pack(overhead + size, head, number + ahead & serial.MASK, tag_lead, number, tail)
            for number, size in enumerate(sizes, first_number)
        ]
    if isinstance(header, list):
        parts = [b""] * (3 * n)
        parts[::3], parts[1::3], parts[2::3] = leads, header, entries
    else:
        parts = [b""] * (2 * n)
        parts[::2], parts[1::2] = leads, entries
    return parts


@lru_cache(maxsize=_FIXED_BYTES_MAX)
def frame_overhead(handle: int, tag_bytes: int, settled: bool) -> int:
    """Bytes of a frame of :func:`encode_run` besides header section and entry."""
    head, tail = _fixed_bytes(0, handle, tag_bytes, settled)
    return 4 + len(head) + 4 + 2 + tag_bytes + len(tail)


def bytes_of_tags(last_number: int, settled: bool) -> int:
    """The length of delivery-tags up to this number: 4 bytes, or 8 if it needs them; a settled delivery's is empty."""
    return 0 if settled else 4 if last_number <= _FOUR_BYTE_TAG_MAX else 8


@lru_cache(maxsize=_TEMPLATES_MAX)
def _template(head_bytes: int, number: str, tail_bytes: int) -> Struct:
    """A frame without its entry: size, head, delivery-id, the lead of the delivery-tag, its number, and tail."""
    return Struct(f">I{head_bytes}sI2s{number}{tail_bytes}s")


@lru_cache(maxsize=_FIXED_BYTES_MAX)
def _fixed_bytes(channel: int, handle: int, tag_bytes: int, settled: bool) -> tuple[bytes, bytes]:
    """The bytes between size and delivery-id, and between delivery-tag and message.

    A uint has the same width in all frames of a link, so that a peer that also uses shapes needs only one.
    """
    end = _SETTLED_END if settled else _UNSETTLED_END
    if handle <= _SMALL_HANDLE_MAX:
        handle_field = bytes((codes.SMALL_UINT, handle))
    else:
        handle_field = bytes((codes.UINT,)) + handle.to_bytes(4)
    list_size = 1 + len(handle_field) + 5 + 2 + tag_bytes + len(end)
    list_lead = bytes((codes.LIST_8, list_size, 3 + len(end)))
    head = AMQP_FRAME + channel.to_bytes(2) + TRANSFER + list_lead + handle_field + bytes((codes.UINT,))
    return head, end
