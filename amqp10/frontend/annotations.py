"""Message annotations that a consumer adds with the modified outcome, merged into the message [3.4.5]."""

from collections.abc import Mapping

from amqp10.sections import MESSAGE_ANNOTATIONS, decode_map_section, encode_section, scan
from amqp10.types import Symbol


def merge_message_annotations(entry: bytes, added: Mapping[object, object]) -> bytes:
    """The message with annotations replaced key by key; ``entry`` has no header and no delivery-annotations."""
    bounds = scan(entry)
    annotations: dict[object, object] = {}
    rest = entry
    if bounds.message_annotations is not None:
        annotations = decode_map_section(entry, *bounds.message_annotations)
        rest = entry[bounds.message_annotations[1] :]
    for key, value in added.items():
        annotations[Symbol(key) if isinstance(key, str) else key] = value
    return encode_section(MESSAGE_ANNOTATIONS, annotations) + rest
