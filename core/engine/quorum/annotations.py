"""What consumers added to messages, as bytes: the seam to the protocols, which alone know such values.

The command log must not lose a value's type (an AMQP 1.0 symbol is no string), so each protocol encodes its own.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import cbor2

from core.message import Origin


class AnnotationCodec(Protocol):
    """Encodes annotations as the protocol of a message has decoded them."""

    def encode(self, annotations: Mapping[object, object], origin: Origin) -> bytes:
        """Bytes that outlive the broker."""

    def decode(self, data: bytes, origin: Origin) -> Mapping[object, object]:
        """The annotations, equal in value and type."""


class PlainAnnotations:
    """For values that CBOR has, where no protocol with richer types is in use. Others do not outlive the broker."""

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
