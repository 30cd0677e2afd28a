"""Annotations that consumers added to messages, as bytes for the command log.

It implements :class:`core.engine.quorum.annotations.AnnotationCodec`. A message-annotations section keeps the type of
every value. Only AMQP 1.0 consumers can add annotations [3.4.5], so the types are those of AMQP 1.0 even when the
message came from a 0.9.1 publisher. They become headers of a 0.9.1 message when they are merged into it.
"""

from collections.abc import Mapping

from amqp10.wire.sections import MESSAGE_ANNOTATIONS, decode_map_section, encode_section
from amqp10.wire.types import Symbol
from core.message import Origin


class SectionCodec:
    """Keeps annotations as the encoded section that they would be in a message [3.2.3]."""

    def encode(self, annotations: Mapping[object, object], origin: Origin) -> bytes:
        """Keys that are plain strings become the symbols that they are on the wire."""
        keyed = {Symbol(key) if isinstance(key, str) else key: value for key, value in annotations.items()}
        return encode_section(MESSAGE_ANNOTATIONS, keyed)

    def decode(self, data: bytes, origin: Origin) -> Mapping[object, object]:
        """The annotations again, keyed by symbols."""
        return decode_map_section(data, 0, len(data))
