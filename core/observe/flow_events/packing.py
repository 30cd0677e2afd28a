"""Packs many records into one packet. Packets have numbers, so that a reader notices when one is missing."""

from core.observe.flow_events.ring import RecordRing
from core.observe.flow_events.schema import PACKET_BYTES_MAX, PACKET_RECORDS_MAX, encode_header, encode_record


class Packer:
    """Makes the packets of one ring."""

    __slots__ = ("_interval_s", "_node", "_ring", "_sequence")

    def __init__(self, ring: RecordRing, *, node: str, interval_s: float) -> None:
        self._ring = ring
        self._node = node
        self._interval_s = interval_s
        self._sequence = 0

    def take(self) -> bytes | None:
        """Return the next packet, with as many waiting records as it may hold; None when none wait."""
        encoded: list[bytes] = []
        size = 0
        while len(self._ring) and len(encoded) < PACKET_RECORDS_MAX and size < PACKET_BYTES_MAX:
            record = encode_record(self._ring.take())
            encoded.append(record)
            size += len(record)
        if not encoded:
            return None
        header = encode_header(
            node=self._node, sequence=self._sequence, records=len(encoded), interval=self._interval_s
        )
        self._sequence += 1
        return b"".join((header, *encoded))
