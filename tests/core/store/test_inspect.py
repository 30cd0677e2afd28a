"""Looking through a store: every record is listed, and damage is reported with its consequence."""

import shutil
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.routing.topology import numbered_identities
from core.store.definitions import COPY_FILE, DEFINITIONS_FILE, Definitions, open_definitions
from core.store.disk import FolderDisk
from core.store.inspect import LANE_FOLDERS, EntryVerdict, entries, entries_of_file, read_definitions
from core.store.lane import Lane
from core.store.marks import Marks
from core.store.record import HEADER_BYTES, RecordKind, encode, record_bytes
from tests.kit.engine import queue

IDENTITY = "0123456789abcdef" * 2

GENERATION = 3
SIZE = record_bytes(16)


class Bytes:
    """A disk with one file."""

    def __init__(self, data):
        self.data = data

    def read(self, path, offset, length):
        return self.data[offset : offset + length]

    def size(self, path):
        return len(self.data)


def records(*batches, generation=GENERATION):
    """The bytes of one file with a record of each of these write batches."""
    return bytearray(b"".join(b"".join(encode(RecordKind.SETTLE, [b"%016d" % n], generation, n)) for n in batches))


def marks(batch):
    return Marks(synced=(GENERATION, batch))


def verdicts(data, *, synced):
    return [entry.verdict for entry in entries_of_file(Bytes(data), "f", marks(synced))]


def flip(data, at):
    data[at] ^= 0x10
    return data


SOUND, TORN, CORRUPT = EntryVerdict.SOUND, EntryVerdict.TORN, EntryVerdict.CORRUPT


def test_a_sound_file():
    assert verdicts(records(1, 2, 3), synced=2) == [SOUND] * 3


@pytest.mark.parametrize(("synced", "verdict"), [(2, CORRUPT), (3, CORRUPT), (1, TORN), (0, TORN)])
def test_a_damaged_payload_is_judged_by_its_own_batch(synced, verdict):
    data = flip(records(1, 2, 3), SIZE + HEADER_BYTES + 3)
    assert verdicts(data, synced=synced) == [SOUND, verdict, SOUND]


def test_a_damaged_payload_is_named():
    data = flip(records(1, 2, 3), SIZE + HEADER_BYTES + 3)
    entry = list(entries_of_file(Bytes(data), "queues/1/0/0.idx", marks(2)))[1]
    assert (entry.offset, entry.end, entry.kind, entry.generation, entry.batch) == (SIZE, 2 * SIZE, "SETTLE", 3, 2)
    text = str(entry)
    assert text.startswith("queues/1/0/0.idx at 48: SETTLE, start 3 batch 2 48 bytes corrupt: ")
    assert "a broker starts only with store.salvage, and without it" in text


@pytest.mark.parametrize(("synced", "verdict"), [(3, CORRUPT), (2, TORN)])
def test_without_a_header_what_follows_decides(synced, verdict):
    assert verdicts(flip(records(1, 2, 3), SIZE + 5), synced=synced) == [SOUND, verdict, SOUND]


def test_what_stands_before_a_synced_record_was_synced_whatever_it_says():
    data = records(1) + records(9) + records(2)
    assert verdicts(flip(data, SIZE + HEADER_BYTES), synced=2) == [SOUND, CORRUPT, SOUND]


def test_a_tail_without_a_header_is_torn():
    data = records(1, 2) + b"\0" * 40
    assert verdicts(data, synced=2) == [SOUND, SOUND, TORN]


def test_a_record_of_an_earlier_start_was_synced():
    data = flip(records(9, generation=GENERATION - 1), HEADER_BYTES)
    assert verdicts(data, synced=1) == [CORRUPT]


@given(
    batches=st.lists(st.integers(1, 9), min_size=1, max_size=8).map(sorted),
    synced=st.integers(0, 9),
    at=st.integers(0, 10**6),
    bit=st.integers(0, 7),
)
def test_one_flipped_bit_costs_one_record_and_is_never_passed_over(batches, synced, at, bit):
    data = records(*batches)
    at %= len(data)
    data[at] ^= 1 << bit
    found = list(entries_of_file(Bytes(data), "f", marks(synced)))
    assert [(entry.offset, entry.end) for entry in found] == [(n * SIZE, n * SIZE + SIZE) for n in range(len(batches))]
    damaged = [number for number, entry in enumerate(found) if entry.verdict is not SOUND]
    assert damaged == [at // SIZE]
    for entry in found:
        assert bool(entry.meaning) is (entry.verdict is not SOUND)


@settings(max_examples=50)
@given(st.binary(max_size=300))
def test_any_bytes_are_told_without_gaps(data):
    end = 0
    for entry in entries_of_file(Bytes(data), "f", Marks(synced=(1, 1))):
        assert entry.offset == end
        assert str(entry)
        end = entry.end
    assert end == len(data)


# --- a folder -------------------------------------------------------------------------------------------------

PLACES = {
    "classic": ["queues/1/0/0.idx", "queues/12/3/1-2.idx", "msg_store_persistent/0.rdq", "msg_store_transient/4.rdq"],
    "quorum": ["quorum/0.log"],
    "streams": ["streams/5/00000000000000000000.seg"],
}


@pytest.fixture
def disk(tmp_path):
    with closing(FolderDisk(tmp_path, 8)) as opened:
        yield opened


def write(disk, lane_name, paths):
    """Write two records into each of these files. The first is synced and the second is not."""
    lane = Lane(lane_name, generation=GENERATION, sync_interval_s=0.0)
    for number in (0, 1):
        for path in paths:
            lane.append(path, number * SIZE, RecordKind.SETTLE, [b"%016d" % number])
        batch = lane.take_write()
        batch.run(disk)
        lane.wrote(batch)
        if number == 0:
            lane.want_sync()
            sync = lane.take_sync(0.0)
            sync.run(disk)
            lane.did_sync(sync)


def test_every_file_of_every_lane_is_looked_at(disk):
    for lane, paths in PLACES.items():
        write(disk, lane, paths)
    found = list(entries(disk))
    expected = {path for paths in PLACES.values() for path in paths} | {f"{lane}/1.marks" for lane in LANE_FOLDERS}
    assert {entry.path for entry in found} == expected
    assert {entry.verdict for entry in found} == {SOUND}
    assert {entry.kind for entry in found if entry.path.endswith(".marks")} == {"MARK"}


@pytest.mark.parametrize("lane", PLACES)
def test_each_lane_knows_how_far_it_was_synced(disk, tmp_path, lane):
    for name, paths in PLACES.items():
        write(disk, name, paths)
    for path in PLACES[lane]:
        data = bytearray((tmp_path / path).read_bytes())
        (tmp_path / path).write_bytes(flip(flip(data, HEADER_BYTES), SIZE + HEADER_BYTES))
    damaged = [entry for entry in entries(disk) if entry.verdict is not SOUND]
    assert [(entry.path, entry.verdict) for entry in damaged] == [
        (path, verdict) for path in sorted(PLACES[lane], key=_place) for verdict in (CORRUPT, TORN)
    ]


def _place(path):
    folders = [folder for group in LANE_FOLDERS.values() for folder in group]
    return folders.index(path.partition("/")[0]), path


def test_an_empty_store(disk):
    assert list(entries(disk)) == []


# --- definitions ----------------------------------------------------------------------------------------------


def test_definitions_are_read_while_they_are_as_a_killed_broker_left_them(tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    with closing(open_definitions(tmp_path, new_identity=numbered_identities())) as database:
        database.add_queue(queue("q"), IDENTITY)
        for file in (DEFINITIONS_FILE, COPY_FILE):
            shutil.copy(tmp_path / file, copy)
    before = {name.name: (name.read_bytes(), name.stat().st_mtime_ns) for name in copy.iterdir()}
    found = read_definitions(copy)
    assert [stored.declaration.name for stored in found.hosts["/"].queues] == ["q"]
    assert found.problems == []
    assert {name.name: (name.read_bytes(), name.stat().st_mtime_ns) for name in copy.iterdir()} == before


def test_definitions_that_are_not_there_are_empty(tmp_path):
    assert read_definitions(tmp_path) == ({"/": Definitions(queues=[], exchanges=[], bindings=[], policies=[])}, {}, [])
    assert list(tmp_path.iterdir()) == []


def test_definitions_that_are_damaged_are_told_and_left_alone(tmp_path):
    path = tmp_path / "definitions.db"
    path.write_bytes(b"no tables" * 50)
    hosts, settings, problems = read_definitions(tmp_path)
    assert (hosts, settings, len(problems)) == ({}, {}, 1)
    assert f"{path}: it is not a database" in problems[0]
    assert path.read_bytes() == b"no tables" * 50
