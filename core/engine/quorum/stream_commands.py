"""The streams of a group: applies the commands of streams that the group's log has."""

from zlib import crc32

from core.engine.quorum.commands import CHUNK_AT, CommandType, cut_offset, key_of
from core.engine.quorum.stream_chunks import ChunkPlace, StreamChunks
from core.store.command_log import LocalCommandLog
from core.store.errors import StoreDamaged
from core.store.stream_chunk import facts_of


class AppliedStreams:
    """The chunks of all streams of a group, as the commands so far have left them."""

    def __init__(self) -> None:
        self.all: dict[int, StreamChunks] = {}
        """By their numbers in the log."""

    def of(self, number: int) -> StreamChunks:
        """Return the chunks of a stream. One that the log does not know has none."""
        chunks = self.all.get(number)
        if chunks is None:
            chunks = self.all[number] = StreamChunks(number)
        return chunks

    def apply(self, payload: bytes, file: int, offset: int) -> int:
        """Apply the next command, whose payload is at ``offset`` in this file of the log. Returns how many bytes of
        chunks have become garbage."""
        number, kind = key_of(payload).queue, payload[0]
        if kind == CommandType.CHUNK:
            size, checksum = len(payload) - CHUNK_AT, crc32(memoryview(payload)[CHUNK_AT:])
            self.of(number).add(ChunkPlace(facts_of(payload, CHUNK_AT), file, offset + CHUNK_AT, size, checksum))
            return 0
        if kind == CommandType.STREAM_CUT:
            return self.of(number).cut(cut_offset(payload))
        assert kind == CommandType.STREAM_END
        gone = self.all.pop(number, None)
        return 0 if gone is None else gone.cut(gone.next)


def read_chunk(log: LocalCommandLog, place: ChunkPlace) -> bytes:
    """Read the payload of a chunk back from the copy. Raises StoreFailure, and StoreDamaged for other bytes than were
    written: then the node has to start again, finds the damage, and copies the group from another node."""
    payload = log.read_bytes(place.file, place.offset, place.size)
    if crc32(payload) != place.checksum:
        raise StoreDamaged(
            f"the copy of a group has damaged bytes of a stream, in its file {place.file} from {place.offset} on; "
            "after a start it is copied from another node"
        )
    return payload
