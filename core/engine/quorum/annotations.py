"""Encoding of annotations that consumers have added to messages: an interface that each protocol implements.

The command log must keep the type of a value (an AMQP 1.0 symbol is not a string), and only the protocol knows its
types.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import cbor2

from core.message import Origin


class AnnotationCodec(Protocol):
    """Encodes annotations that the protocol of a message has decoded."""

    def encode(self, annotations: Mapping[object, object], origin: Origin) -> bytes:
        """Return the annotations as bytes, for the command log."""

    def decode(self, data: bytes, origin: Origin) -> Mapping[object, object]:
        """Return the annotations, equal in value and type."""


class PlainAnnotations:
    """A codec for values that CBOR supports, used without a protocol that has more types. Other values are dropped."""

    def encode(self, annotations: Mapping[object, object], origin: Origin) -> bytes:
        """See :class:`AnnotationCodec`, also below."""
        plain = {}
        for key, value in annotations.items():
            with suppress(cbor2.CBOREncodeError):
                cbor2.dumps([key, value])
                plain[key] = value
        return cbor2.dumps(plain)

    def decode(self, data: bytes, origin: Origin) -> Mapping[object, object]:
        decoded = cbor2.loads(data)
        assert isinstance(decoded, dict)
        return decoded
