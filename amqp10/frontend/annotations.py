"""The changes to message annotations for a consumer [3.2.3].

There are four changes, and none to the bare message. Annotations that another consumer added with the modified outcome
are merged in [3.4.5]. A number that a stream gives to each message is put before the others, and the time of arrival
behind it, if the queue or stream notes it. A message without annotations gets an empty section,
because RabbitMQ adds annotations to every message, and its client libraries look for a key among them without checking
that there are any.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from struct import Struct

from amqp10.wire.codec import format_codes as code
from amqp10.wire.codec.composite import read_descriptor
from amqp10.wire.codec.decode import DEPTH_MAX
from amqp10.wire.codec.encode import encode_value
from amqp10.wire.columns import JOINED_BYTES_MAX
from amqp10.wire.sections import MESSAGE_ANNOTATIONS, WITHOUT_ANNOTATIONS, decode_map_section, encode_section, scan
from amqp10.wire.types import Symbol, Timestamp, ULong
from core.message import EnqueuedTimes

ENQUEUED_ANNOTATION = "x-opt-enqueued-time"
"""The time when a message came into its queue or stream, a timestamp."""
EMPTY_ANNOTATIONS = encode_section(MESSAGE_ANNOTATIONS, {})

_ANNOTATIONS_LEAD = b"\x00\x53\x72"
_SMALL_ANNOTATIONS = _ANNOTATIONS_LEAD + bytes((code.MAP_8,))
_HEAD_BYTES = len(_SMALL_ANNOTATIONS) + 2
"""With the size and the count of a short map."""
_UINT64 = Struct(">Q")
_ULONG = bytes((code.ULONG,))
_MAP_8_CONTENT_MAX = 255
"""The size is one byte, and it covers the count, too [1.6.23]."""
_MAP_8_COUNT_MAX = 255


def with_annotations(
    header: bytes | list[bytes],
    entries: list[bytes],
    sequences: Sequence[int] | None = None,
    sequence_key: str = "",
    enqueued_ms: EnqueuedTimes = None,
) -> tuple[bytes | list[bytes], list[bytes]]:
    """The bytes that go before every message of a batch, or a list with those before each, and the messages; after it
    every message has annotations.

    ``entries`` have no header section and no delivery-annotations, and are valid. ``sequences`` is a number for each
    of them, which becomes the annotation ``sequence_key``. ``enqueued_ms`` becomes ``x-opt-enqueued-time``.
    """
    if enqueued_ms is not None:
        return header, _timed(entries, sequences, sequence_key, enqueued_ms)
    if sequences is not None:
        return header, _numbered(entries, sequences, sequence_key)
    if WITHOUT_ANNOTATIONS[0] <= min(entries) and max(entries) < WITHOUT_ANNOTATIONS[1]:
        if isinstance(header, bytes):
            return header + EMPTY_ANNOTATIONS, entries
        longer = {each: each + EMPTY_ANNOTATIONS for each in set(header)}
        return list(map(longer.__getitem__, header)), entries
    return header, [entry if _annotated(entry) else EMPTY_ANNOTATIONS + entry for entry in entries]


def _timed(
    entries: list[bytes], sequences: Sequence[int] | None, key: str, enqueued_ms: int | list[int | None]
) -> list[bytes]:
    """The messages, each with its number, if it has one, and the time, if it is known, before its own annotations."""
    if not isinstance(enqueued_ms, list):
        return _numbered(entries, sequences, key, enqueued_ms)
    timed: list[bytes] = []
    for time, alike in groupby(enqueued_ms):
        start, stop = len(timed), len(timed) + len(list(alike))
        numbers = None if sequences is None else sequences[start:stop]
        if time is None and numbers is None:
            timed += [entry if _annotated(entry) else EMPTY_ANNOTATIONS + entry for entry in entries[start:stop]]
        else:
            timed += _numbered(entries[start:stop], numbers, key, time)
    return timed


def _numbered(
    entries: list[bytes], sequences: Sequence[int] | None, key: str, enqueued_ms: int | None = None
) -> list[bytes]:
    """The messages, each with its number, the time, or both before its own annotations; 0.2 us a message where no
    message has annotations, 0.3 us where each has few."""
    added: dict[object, object] = {}
    pair = time = b""
    numbers = [b""] * len(entries)
    if sequences is not None:
        added[key], pair = ULong(0), encode_value(Symbol(key)) + _ULONG
        numbers = list(map(_UINT64.pack, sequences))
    if enqueued_ms is not None:
        added[ENQUEUED_ANNOTATION] = Timestamp(enqueued_ms)
        time = encode_value(Symbol(ENQUEUED_ANNOTATION)) + encode_value(Timestamp(enqueued_ms))
    size = len(pair) + len(numbers[0]) + len(time)
    lead = _ANNOTATIONS_LEAD + bytes((code.MAP_8, 1 + size, 2 * len(added))) + pair
    if WITHOUT_ANNOTATIONS[0] <= min(entries) and max(entries) < WITHOUT_ANNOTATIONS[1]:
        return [lead + number + time + entry for number, entry in zip(numbers, entries, strict=True)]
    heads = [entry[:_HEAD_BYTES] for entry in entries]
    openings = {head: _opening(head, size, 2 * len(added)) for head in set(heads)}
    if all(openings.values()) and not _may_have(entries, added):
        return [
            openings[head] + pair + number + time + entry[_HEAD_BYTES:]
            for head, number, entry in zip(heads, numbers, entries, strict=True)
        ]
    each: list[bytes] = []
    for number, entry in zip(numbers, entries, strict=True):
        if not _annotated(entry):
            each.append(lead + number + time + entry)
            continue
        if number:
            added[key] = ULong(int.from_bytes(number))
        each.append(_with_pairs(entry, pair + number + time, added))
    return each


def _opening(head: bytes, size: int, count: int) -> bytes:
    """How a short map of annotations begins whose ``head`` this is when pairs of this size and count are put before its
    own; b"" if it does not begin so, or has no room for them."""
    if not head.startswith(_SMALL_ANNOTATIONS) or len(head) < _HEAD_BYTES:
        return b""
    size, count = size + head[-2], count + head[-1]
    if size > _MAP_8_CONTENT_MAX or count > _MAP_8_COUNT_MAX:
        return b""
    return _SMALL_ANNOTATIONS + bytes((size, count))


def _may_have(entries: list[bytes], keys: Iterable[object]) -> bool:
    """Whether one of the messages may have one of the annotations: it came from a stream before, or its publisher set
    the key. Long messages are not searched."""
    if max(map(len, entries)) > JOINED_BYTES_MAX:
        return True
    joined = b"".join(entries)
    return any(str(key).encode() in joined for key in keys)


def _with_pairs(entry: bytes, pairs: bytes, added: Mapping[object, object]) -> bytes:
    """The message with further annotations in front of its own. ``pairs`` are those in ``added``, encoded."""
    if entry.startswith(_SMALL_ANNOTATIONS):  # the other sections need no scan
        at, end = len(_ANNOTATIONS_LEAD), len(_SMALL_ANNOTATIONS) + 1 + entry[len(_SMALL_ANNOTATIONS)]
    else:
        start, end = scan(entry).message_annotations or (0, 0)
        _, at = read_descriptor(entry, start, end, DEPTH_MAX)
    if entry[at] == code.MAP_8:
        count, content = entry[at + 2], entry[at + 3 : end]
    else:
        count, content = int.from_bytes(entry[at + 5 : at + 9], "big"), entry[at + 9 : end]
    for key in added:
        if str(key).encode() in content:  # the message came from a stream before, or its publisher set the key
            return merge_message_annotations(entry, added, first=True)
    size, count = len(pairs) + len(content), count + 2 * len(added)
    if size < _MAP_8_CONTENT_MAX and count <= _MAP_8_COUNT_MAX:
        opening = bytes((code.MAP_8, size + 1, count))
    else:
        opening = bytes((code.MAP_32,)) + (size + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
    return _ANNOTATIONS_LEAD + opening + pairs + content + entry[end:]


def _annotated(entry: bytes) -> bool:
    return entry.startswith(_ANNOTATIONS_LEAD) or scan(entry).message_annotations is not None


def merge_message_annotations(entry: bytes, added: Mapping[object, object], *, first: bool = False) -> bytes:
    """The message with these annotations set key by key, with ``first`` before its others; ``entry`` has no header and
    no delivery-annotations."""
    bounds = scan(entry)
    annotations: dict[object, object] = {}
    rest = entry
    if bounds.message_annotations is not None:
        annotations = decode_map_section(entry, *bounds.message_annotations)
        rest = entry[bounds.message_annotations[1] :]
    new = {Symbol(key) if isinstance(key, str) else key: value for key, value in added.items()}
    annotations = {**new, **annotations, **new} if first else annotations | new
    return encode_section(MESSAGE_ANNOTATIONS, annotations) + rest
