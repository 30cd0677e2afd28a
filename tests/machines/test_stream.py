"""The log of a stream against a dict: appends, reads, retention, and starts after clean stops, kills and power cuts."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.message import Attributes
from core.store.stream_log import Kept
from tests.kit.streams import ALIKE, StreamDisk, read_all

OTHER = Attributes(durable=True)
SIZES = st.one_of(st.integers(0, 40), st.integers(200, 900), st.just(300_000))


class StreamLogMachine(RuleBasedStateMachine):
    """``stored`` must be there. ``possible`` may be found at the next start, because it was not synced. ``dropped`` was
    removed by retention, and its files may come back after a power cut."""

    @initialize(cache_bytes=st.sampled_from([0, 3000, 2**20]), segment_bytes=st.sampled_from([1, 1000, 5000]))
    def begin(self, cache_bytes: int, segment_bytes: int) -> None:
        self.store = StreamDisk(cache_bytes=cache_bytes)
        self.segment_bytes = segment_bytes
        self.log = self.store.log(segment_bytes)
        self.serial = 0
        self.stamp_ms = 0
        self.stored: dict[int, bytes] = {}
        self.staged: list[tuple[int, dict[int, bytes]]] = []
        """Lane positions, with the messages appended there."""
        self.unsynced: list[tuple[int, dict[int, bytes]]] = []
        self.possible: dict[int, bytes] = {}
        self.dropped: dict[int, bytes] = {}
        self.shown: dict[int, bytes] = {}
        """Every message that a reader ever got."""
        self.highest = -1
        """The highest of all offsets that were ever given out."""
        self.exact = True

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=12), alike=st.booleans(), pause_ms=st.integers(0, 1000))
    def append(self, sizes: list[int], alike: bool, pause_ms: int) -> None:
        bodies = []
        for size in sizes:
            bodies.append(f"{self.serial}:".encode().ljust(size, b"."))
            self.serial += 1
        self.stamp_ms += pause_ms
        first = self.log.next
        assert first > self.highest
        position = self.log.append(list(bodies), ALIKE if alike else OTHER, stamp_ms=self.stamp_ms)
        added = dict(enumerate(bodies, first))
        self.staged.append((position, added))
        self.unsynced.append((position, added))
        assert self.log.next == first + len(bodies)

    @rule()
    def write(self) -> None:
        self.store.write()
        self.came_so_far()

    @rule()
    def sync(self) -> None:
        self.store.sync()
        self.came_so_far()
        self.unsynced = [entry for entry in self.unsynced if entry[0] > self.store.lane.synced]

    def came_so_far(self) -> None:
        self.log.commit(synced=False)
        while self.staged and self.staged[0][0] <= self.store.lane.written:
            self.stored |= self.staged.pop(0)[1]
        self.drop_below_first()
        self.highest = max(self.highest, self.log.committed - 1)

    def drop_below_first(self) -> None:
        for offset in [offset for offset in self.stored if offset < self.log.first]:
            self.dropped[offset] = self.stored.pop(offset)

    @rule(back=st.integers(0, 50))
    def read(self, back: int) -> None:
        start = max(0, self.log.next - back)
        found = read_all(self.log, start)
        assert found == sorted((offset, body) for offset, body in self.stored.items() if offset >= start)
        self.show(found)

    @rule(ago_ms=st.integers(0, 5000))
    def search(self, ago_ms: int) -> None:
        offset = self.log.offset_at(self.stamp_ms - ago_ms)
        assert self.log.first <= offset <= max(self.log.committed, self.log.first)
        if offset in self.stored:
            chunk = self.log.chunk(offset, offset)
            assert chunk is not None
            assert chunk.first == offset
            assert chunk.stamp_ms >= self.stamp_ms - ago_ms

    @rule(kept=st.builds(Kept, st.none() | st.integers(0, 5), st.none() | st.integers(1, 20_000)))
    def retain(self, kept: Kept) -> None:
        segments = self.log.segments
        dropped = self.log.retain(kept, self.stamp_ms)
        assert self.log.segments == segments - dropped
        assert self.log.segments or not segments
        assert not self.log.exceeds(kept)
        self.drop_below_first()

    @rule()
    def clean_stop(self) -> None:
        self.sync()
        before = self.log.next
        self.restart(intact=True)
        assert self.log.next == before

    @rule()
    def kill(self) -> None:
        """Kill the broker. Staged records are lost, written ones are kept, and files that were to be removed may be,
        too."""
        self.staged.clear()
        self.restart(intact=False)

    @rule(seed=st.integers(0, 2**32))
    def power_cut(self, seed: int) -> None:
        """Cut the power. Any part of what was not synced may be missing as well."""
        self.staged.clear()
        for _, added in self.unsynced:
            for offset, body in added.items():
                if self.stored.pop(offset, None) is not None:
                    self.possible[offset] = body
        self.store.power_cut(Random(seed))
        self.exact = False
        self.restart(intact=False)

    def restart(self, *, intact: bool) -> None:
        self.log = self.store.recovered(intact=intact, segment_bytes=self.segment_bytes)
        found = dict(read_all(self.log))
        assert self.stored.items() <= found.items()
        assert found.items() <= (self.stored | self.possible | self.dropped).items()
        self.stored = found
        self.possible.clear()
        self.unsynced.clear()  # what was found is synced now, or was before

    def show(self, found: list[tuple[int, bytes]]) -> None:
        for offset, body in found:
            assert self.shown.setdefault(offset, body) == body

    @invariant()
    def facts_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.first <= log.committed or not log.segments
        assert log.committed <= log.next
        if self.exact:
            assert log.messages == len(self.stored)
            assert log.messages_between(log.first, log.committed) == log.messages

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.show(read_all(self.log))


StreamLogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestStreamLog = StreamLogMachine.TestCase
