"""How a node gets another node's copy of a group's log, when the engine has cut away batches that it has not.

The *source* reads bytes of its files, one part for each request. The receiver finds the records in them, checks each
one's checksum and that batches follow each other, and appends what is in them to a log of its own. So the files of the
two differ, and what they replay to does not.

Until the copy is complete it must not be used: the source has carried live messages of files that are gone to the end
of its log, so a part of the log is not what the log was earlier. A file that is being copied is not removed. The copy
is complete when the receiver has everything that the source had written, and the engine still has the batches after
that.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.store.command_log import LocalCommandLog, RecordPlace
from core.store.record import HEADER_BYTES, Damaged, record_bytes, scan

PART_BYTES_MAX = 512 << 10
"""The most bytes of a part: it takes a source a millisecond to read."""
HOLD_S = 30.0
"""How long a source keeps its files for a receiver that asks for nothing."""
GIVE_UP_S = 10.0
"""How long a receiver waits for a part before it asks another source."""
ASK_AGAIN_S = 0.05
"""How often a receiver looks for its part, and a source that has just given one for the next request."""
BEGIN = RecordPlace(0, 0)
"""What a receiver that has nothing asks for: the oldest file."""


class CopyWanted(NamedTuple):
    """A request for a part of a copy."""

    receiver: int
    source: int
    """The nodes, by their numbers."""
    serial: int
    """Another one for each request of the receiver."""
    life: int
    """The life of the source from which the part before it came; 0 for the first part. Places are those of one life."""
    place: RecordPlace


class CopyPart(NamedTuple):
    """The answer to the request with this serial."""

    serial: int
    life: int
    there: bool
    """False if this life of the source cannot go on from the place, or needs a copy itself: begin again."""
    place: RecordPlace = BEGIN
    """Where the data begins."""
    data: bytes = b""
    next: RecordPlace = BEGIN
    """Where the next part begins."""
    complete: bool = False
    """Whether the source had written nothing after this part."""


class CopyRequests(Protocol):
    """What a copy asks of the engine, over which its parts travel; see
    :class:`core.cluster.log_engine.LogEngine`."""

    def want_copy(self, wanted: CopyWanted, answered: Callable[[], None], unanswered: Callable[[], None]) -> None:
        """Ask for a part."""

    def read_copy(
        self, receiver: int, answered: Callable[[CopyPart | None], None], unanswered: Callable[[], None]
    ) -> None:
        """Read the last part that was given to a receiver."""


class CopySource:
    """Gives parts of this node's copy."""

    def __init__(
        self, log: LocalCommandLog, life: int, clock: Callable[[], float], *, part_bytes_max: int = PART_BYTES_MAX
    ) -> None:
        self._log = log
        self._life = life
        self._clock = clock
        self._part_bytes_max = part_bytes_max
        self._asked: dict[int, tuple[int, float]] = {}
        """For each receiver, the file that it reads, and when it has asked."""
        self._begun: dict[int, int] = {}
        """For each receiver, the serial with which it has begun last."""
        self._mark: tuple[int, RecordPlace] | None = None
        """A position of the lane, and the end of the log when that was the last one."""
        self._upto: RecordPlace | None = None
        """Up to here the log can be read."""

    def keeps_from(self) -> int | None:
        """The first file that must stay, because it is being copied; None if that is none."""
        files = [file for file, asked_at in self._asked.values() if self._clock() < asked_at + HOLD_S]
        return min(files, default=None)

    def part(self, wanted: CopyWanted) -> CopyPart | None:
        """The part that is asked for; None if there will be one in a moment. Raises StoreFailure, StoreDamaged."""
        files = self._log.files()
        place = wanted.place
        if place == BEGIN:
            place = RecordPlace(min(files), 0)
            if self._begun.get(wanted.receiver) != wanted.serial:
                # What was carried out of files that are gone is behind what was the end of the log earlier.
                self._begun[wanted.receiver] = wanted.serial
                self._upto = self._mark = None
        elif wanted.life != self._life or place.file not in files:
            return self.refusal(wanted)
        self._asked[wanted.receiver] = place.file, self._clock()
        self._look()
        if self._upto is None:
            return None
        end = self._upto.offset if place.file == self._upto.file else files[place.file]
        if place > self._upto:
            end = place.offset
        length = min(self._part_bytes_max, end - place.offset)
        data = self._log.read_bytes(place.file, place.offset, length) if length else b""
        then = RecordPlace(place.file, place.offset + length)
        complete = then >= self._upto
        if not complete and then.offset == files[place.file]:
            then = RecordPlace(place.file + 1, 0)
        return CopyPart(wanted.serial, self._life, True, place, data, then, complete)

    def refusal(self, wanted: CopyWanted) -> CopyPart:
        """The answer that this source has no such part, so that the receiver begins again, perhaps with another one."""
        return CopyPart(wanted.serial, self._life, False)

    def _look(self) -> None:
        """Find out how far the log can be read."""
        if self._mark is not None and self._log.written >= self._mark[0]:
            self._upto, self._mark = self._mark[1], None
        if self._mark is None:
            self._mark = self._log.staged, self._log.end
            if self._log.written >= self._mark[0]:
                self._upto, self._mark = self._mark[1], None


class GroupCopy:
    """A node's copy of a group, while it comes from another node."""

    def __init__(
        self, log: SharedLog, queues: QuorumQueues, requests: CopyRequests, clock: Callable[[], float], *, serial: int
    ) -> None:
        """``serial``: above all that earlier lives of this node have used."""
        self.source = 0
        """The node that is asked; 0 while none is."""
        self.bytes = 0
        """How many bytes have come, in this attempt."""
        self._log, self._queues = log, queues
        self._requests = requests
        self._clock = clock
        self._serial = serial
        self._life = 0
        self._place = BEGIN
        self._rest = b""
        """The beginning of a record whose end has not come yet."""
        self._asked = self._asking = self._reading = False
        self._read_at = self._heard_at = 0.0

    @property
    def wanted(self) -> bool:
        """Whether this node needs a copy, and asks no node for it."""
        return self._log.must_copy and not self.source

    def begin(self, source: int) -> None:
        """Copy from this node, from the beginning."""
        self.end()
        self.source = source
        self.bytes = 0
        self._life, self._place, self._rest = 0, BEGIN, b""
        self._heard_at = self._clock()
        self._queues.begin_copy()

    def end(self) -> None:
        """Ask no node any more. What is under way has another serial than any part that is asked for later: taken for
        the beginning of another attempt, it would leave out everything before it."""
        self.source = 0
        self._serial += 1
        self._asked = False

    def drive(self) -> None:
        """Send what is to be sent now."""
        if not (self._log.must_copy and self.source):
            return
        now = self._clock()
        if now > self._heard_at + GIVE_UP_S:
            self.source = 0
        elif not self._asked:
            if not self._asking and self._queues.is_copy_written:
                self._ask()
        elif not self._reading and now >= self._read_at + ASK_AGAIN_S:
            self._read()

    def _ask(self) -> None:
        self._serial += 1
        self._asking = True
        wanted = CopyWanted(self._log.node, self.source, self._serial, self._life, self._place)

        def answered() -> None:
            self._asking = False
            self._asked = wanted.source == self.source and wanted.serial == self._serial

        def unanswered() -> None:
            self._asking = False

        self._requests.want_copy(wanted, answered, unanswered)

    def _read(self) -> None:
        self._reading = True
        self._read_at = self._clock()

        def answered(part: CopyPart | None) -> None:
            self._reading = False
            if part is not None and part.serial == self._serial and self._asked and self._log.must_copy:
                self._asked = False
                self._heard_at = self._clock()
                self._take(part)

        def unanswered() -> None:
            self._reading = False

        self._requests.read_copy(self._log.node, answered, unanswered)

    def _take(self, part: CopyPart) -> None:
        if not part.there or (self._life and part.life != self._life):
            self.source = 0
            return
        self._life = part.life
        self.bytes += len(part.data)
        if not self._take_records(self._rest + part.data):
            self.source = 0
            return
        self._place = part.next
        if part.complete and not self._rest:
            self._queues.copied()

    def _take_records(self, data: bytes) -> bool:
        """Append the records that are complete. Returns False for damage."""
        taken = 0
        for record in scan(lambda offset, length: data[offset : offset + length], len(data)):
            if isinstance(record, Damaged):
                if record.end != len(data) or not _may_be_incomplete(data[taken:], record):
                    return False
                break
            if not self._queues.take_copied(record.payload):
                return False
            taken = record.end
        self._rest = data[taken:]
        return True


def _may_be_incomplete(data: bytes, damaged: Damaged) -> bool:
    """Whether a record ends only behind these bytes."""
    if damaged.header is None:
        return len(data) < HEADER_BYTES
    return record_bytes(damaged.header.payload_bytes) > len(data)
