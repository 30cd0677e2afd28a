"""Requests for parts of a copy, and the parts, as values of keys."""

import cbor2

from core.engine.quorum.copying import CopyPart, CopyWanted
from core.store.command_log import RecordPlace


def encoded_wanted(wanted: CopyWanted) -> bytes:
    """A request as a value."""
    return cbor2.dumps([*wanted[:-1], *wanted.place])


def decoded_wanted(value: bytes) -> CopyWanted | None:
    """The request in a value; None if it is none."""
    try:
        receiver, source, serial, life, file, offset = map(int, cbor2.loads(value))
    except (cbor2.CBORDecodeError, TypeError, ValueError):
        return None
    return CopyWanted(receiver, source, serial, life, RecordPlace(file, offset))


def encoded_part(part: CopyPart) -> bytes:
    """A part as a value."""
    return cbor2.dumps([part.serial, part.life, part.there, *part.place, part.data, *part.next, part.complete])


def decoded_part(value: bytes) -> CopyPart | None:
    """The part in a value; None if it is none."""
    try:
        serial, life, there, file, offset, data, next_file, next_offset, complete = cbor2.loads(value)
        if not isinstance(data, bytes):
            return None
        place, then = RecordPlace(int(file), int(offset)), RecordPlace(int(next_file), int(next_offset))
        return CopyPart(int(serial), int(life), bool(there), place, data, then, bool(complete))
    except (cbor2.CBORDecodeError, TypeError, ValueError):
        return None
