"""Batches that are too large for one request of the engine: their bytes are put in parts, and then a *head* that names
them takes the number of the batch.

A reader finds either no head, or a head all of whose parts are there. The head has a digest of the bytes, so two heads
are the same only if their batches are.

======  =====  =====================================
offset  type   what
======  =====  =====================================
0       u8     255, which is the type of no batch
1       u64    epoch of the batch
9       u32    how many parts
13      8      digest of the bytes
======  =====  =====================================

All little-endian.
"""

from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

HEAD = 255
_HEAD = Struct("<BQI8s")
_DIGEST_BYTES = 8


class PartsHead(NamedTuple):
    """Where the bytes of a batch are."""

    epoch: int
    parts: int
    digest: bytes


def encoded_head(data: bytes, epoch: int, part_bytes: int) -> bytes:
    """The head of a batch with these bytes, whose parts have at most ``part_bytes``."""
    return _HEAD.pack(HEAD, epoch, -(-len(data) // part_bytes), _digest(data))


def decoded_head(value: bytes) -> PartsHead | None:
    """The head in the value of a batch's key; None if the value is the batch itself, or damaged."""
    if len(value) != _HEAD.size or value[0] != HEAD:
        return None
    _, epoch, parts, digest = _HEAD.unpack(value)
    return PartsHead(epoch, parts, digest)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
