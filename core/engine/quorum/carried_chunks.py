"""Carries the chunks of streams out of the oldest file of a group's log; see :mod:`core.engine.quorum.cleaning`."""

from collections.abc import Iterable

from core.engine.quorum.commands import CHUNK_AT, CommandType, stream_command
from core.engine.quorum.stream_chunks import StreamChunks
from core.engine.quorum.stream_commands import read_chunk
from core.store.command_log import LocalCommandLog


class CarriedChunks:
    """The chunks of one file that are still to be carried."""

    def __init__(self, log: LocalCommandLog) -> None:
        self._log = log
        self._file = 0
        self._streams: list[StreamChunks] = []
        self._from = 0
        """The offset in the last of these streams up to which chunks were carried."""
        self._held: list[StreamChunks] = []
        """Streams with chunks that the last batch carried."""

    @property
    def done(self) -> bool:
        """Whether no chunk is left to be carried."""
        return not self._streams

    def begin(self, file: int, streams: Iterable[StreamChunks]) -> None:
        """Carry the chunks in this file."""
        self._file, self._from = file, 0
        self._streams = [stream for stream in streams if file in stream.live_in]

    def stop(self) -> None:
        """The streams were rebuilt: carry nothing."""
        self._streams.clear()

    def release(self) -> None:
        """What was carried is written: its file has it now."""
        for stream in self._held:
            stream.held.clear()
        self._held.clear()

    def carry_some(self, room: int, fencing_token: int) -> int:
        """Carry chunks until about ``room`` bytes are written. Returns how many messages were carried. Raises
        StoreFailure and StoreDamaged."""
        messages = 0
        while self._streams and room > 0:
            stream = self._streams[-1]
            place = stream.in_file(self._file, self._from)
            if place is None:
                self._streams.pop()
                self._from = 0
                continue
            payload = read_chunk(self._log, place)
            command = stream_command(CommandType.CHUNK, stream.number, (payload,))
            size = sum(map(len, command))
            _, file, offset = self._log.append(command, size, fencing_token, prompt=False)
            stream.add(place._replace(file=file, offset=offset + CHUNK_AT))
            if not stream.held:
                self._held.append(stream)
            stream.held[place.facts.first] = payload
            self._from = place.next
            messages += place.facts.messages
            room -= size
        return messages
