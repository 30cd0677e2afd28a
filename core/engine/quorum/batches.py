"""A batch of commands of one group, as the engine of the group and the local copies keep it.

=======  ======  ===========================================================
offset   type    what
=======  ======  ===========================================================
0        u8      type: 8, or 9 for the end of an order without its commands
1        u8      0
2        u64     group
10       u64     epoch: how often the group was claimed until then
18       u64     number of the batch in the group, from 1 without a gap
26       u32     how many commands
30       8       chain: a digest of the chain before, bytes 0 to 29, and the commands
38       u32     CRC-32 of bytes 0 to 37 and the commands
42               the commands, each as its length (u32) and its payload (:mod:`core.engine.quorum.commands`)
=======  ======  ===========================================================

All little-endian. The types continue those of :class:`core.engine.quorum.commands.CommandType`. The checksum tells
damaged bytes from a batch that does not follow the one before it, which the chain tells.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple
from zlib import crc32

GROUP_BATCH, GROUP_END = 8, 9
"""The types of these records. The numbers are on disk: none may be changed or used again."""
COPY_BEGUN, COPY_DONE = b"\x0a\0", b"\x0b\0"
"""Records of a local copy that comes from another node: forget everything before this one; and everything that the copy
needs is before this one. Types 10 and 11."""
_FACTS = Struct("<BBQQQI")
_LENGTH = Struct("<I")
_CHAIN_BYTES = 8
_COMMANDS_AT = _FACTS.size + _CHAIN_BYTES + _LENGTH.size
COMMAND_OVERHEAD = _LENGTH.size
"""Bytes of a command in a batch besides its payload."""


class OrderEnd(NamedTuple):
    """The end of an order of batches: the last one that is in it."""

    number: int = 0
    """Its number; 0 before the first one."""
    epoch: int = 0
    chain: bytes = bytes(_CHAIN_BYTES)


class CommandBatch(NamedTuple):
    """One batch, with everything that its bytes say."""

    group: int
    end: OrderEnd
    """The end of the order when this batch is the last one in it."""
    command_count: int
    data: bytes

    def follows(self, before: OrderEnd) -> bool:
        """Return whether this batch is the next one after an order that ended there."""
        return (
            self.end.number == before.number + 1
            and self.end.epoch >= before.epoch
            and self.end.chain == _chain(before.chain, self.data[: _FACTS.size], memoryview(self.data)[_COMMANDS_AT:])
        )

    def commands(self) -> Iterator[tuple[int, bytes]]:
        """Yield the payload of each command, and its offset in ``data``."""
        at = _COMMANDS_AT
        for _ in range(self.command_count):
            (length,) = _LENGTH.unpack_from(self.data, at)
            at += _LENGTH.size
            yield at, self.data[at : at + length]
            at += length


class BatchDamaged(Exception):
    """The bytes of a batch do not fit their checksum."""


def encoded(group: int, epoch: int, before: OrderEnd, commands: Sequence[bytes]) -> CommandBatch:
    """Make the batch that follows an order."""
    facts = _FACTS.pack(GROUP_BATCH, 0, group, epoch, before.number + 1, len(commands))
    body = b"".join(part for command in commands for part in (_LENGTH.pack(len(command)), command))
    chain = _chain(before.chain, facts, body)
    end = OrderEnd(before.number + 1, epoch, chain)
    return CommandBatch(group, end, len(commands), _with_checksum(facts + chain, body))


def encoded_end(group: int, end: OrderEnd) -> bytes:
    """Encode the end of an order without any commands: for a copy that has removed the file of the last batch."""
    facts = _FACTS.pack(GROUP_END, 0, group, end.epoch, end.number, 0)
    return _with_checksum(facts + end.chain, b"")


def decoded(data: bytes) -> CommandBatch:
    """Decode a batch, or the end of an order. Raises BatchDamaged."""
    if len(data) < _COMMANDS_AT:
        raise BatchDamaged(f"{len(data)} bytes are too few for a batch")
    checked = _COMMANDS_AT - _LENGTH.size
    (check,) = _LENGTH.unpack_from(data, checked)
    if crc32(memoryview(data)[_COMMANDS_AT:], crc32(data[:checked])) != check:
        raise BatchDamaged("a batch does not fit its checksum")
    _, _, group, epoch, number, count = _FACTS.unpack_from(data)
    return CommandBatch(group, OrderEnd(number, epoch, data[_FACTS.size : checked]), count, data)


def is_of_order(payload: bytes) -> bool:
    """Return whether a record of a local copy is a batch or the end of an order, and not a single command."""
    return payload[0] in (GROUP_BATCH, GROUP_END)


def _with_checksum(head: bytes, body: bytes) -> bytes:
    return b"".join((head, _LENGTH.pack(crc32(body, crc32(head))), body))


def _chain(before: bytes, facts: bytes, body: bytes | memoryview) -> bytes:
    digest = blake2b(before, digest_size=_CHAIN_BYTES)
    digest.update(facts)
    digest.update(body)
    return digest.digest()
