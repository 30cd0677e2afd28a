"""Data folders with everything that the current format has open with everything in it, and lack nothing of the format.

``format_2.tar.xz`` has two folders that the clients of :mod:`tests.crash.every_kind.filled` have filled: ``killed`` as
SIGKILL left it, and ``stopped`` as SIGTERM left it. ``format_2.json`` says what is in them.
"""

import json
import re
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest
import trio

from core.engine.options.arguments import EXCHANGE_ARGUMENTS, QUEUE_ARGUMENTS
from core.engine.options.policies import APPLY_TO, KEYS
from core.engine.quorum.commands import CommandType
from core.engine.routing.topology import numbered_identities
from core.interface import ExchangeType
from core.message import Origin
from core.publish_limit import PUBLISH_RATE, PUBLISH_RATE_BYTES
from core.store.definitions import COPY_FILE, DEFINITIONS_FILE, open_definitions
from core.store.folder import FORMAT, FORMAT_FILE
from core.store.record import RecordKind
from tests.crash.every_kind.filled import USERS
from tests.crash.every_kind.kinds import FIELDS, kinds_of
from tests.crash.every_kind.make import ARCHIVE, ENDS, MANIFEST
from tests.crash.every_kind.visit import visited
from tests.kit.archived_folder import unpack

FORMAT_PAGE = Path(__file__).parents[3] / "docs" / "storage-format.md"
NOT_WRITTEN = {RecordKind.SYNCED, RecordKind.CARRIED}
"""Kinds of records that this version does not write: the first is of format 1, the second was never used."""
OF_CLUSTERS = {CommandType.CHUNK, CommandType.STREAM_CUT, CommandType.STREAM_END}
"""Commands of streams that have copies on several nodes. The folders are of brokers alone;
tests/core/engine/quorum/test_stream_chunks.py writes and reads these."""
LATER_KEYS = {
    "max-unsettled",
    "max-unsettled-bytes",
    PUBLISH_RATE,
    PUBLISH_RATE_BYTES,
    "deduplicate",
    "enqueued-time",
    "target-group-size",
}
"""Keys of policies that are newer than the folders. A policy is kept as JSON, whatever its keys, so the format is the
same; the folders of the next format will have them."""
LATER_ARGUMENTS = {"x-enqueued-time", "x-deduplicate"}
"""The same of the arguments of queues."""
LATER_FIELDS = {
    *("message.taken", "command ENQUEUE.taken", "command CARRIED.taken", "command COUNTERS.taken"),
    "checkpoint segment.taken",
    *("message.route.enqueued_ms", "chunk.route.enqueued_ms", "snapshot.block.route.enqueued_ms"),
    *("command ENQUEUE.route.enqueued_ms", "command CARRIED.route.enqueued_ms"),
    *("command ENQUEUE.times", "command CARRIED.times"),
}
"""Fields that only queues with a later argument have: publishing ids, of queues that drop repeats, and the time at
which messages came, of queues that note it."""
OF_ONE_SORT = {
    # It is everywhere and never empty.
    *("message.bodies_at", "message.route.exchange", "chunk.route.exchange", "snapshot.block.route.exchange"),
    *("command ENQUEUE.bodies_at", "command ENQUEUE.route.exchange"),
    *("command CARRIED.bodies_at", "command CARRIED.route.exchange"),
    *("command SETTLE.ranges", "command RETURN.ranges", "command DISCARD.ranges", "command DISCARD.reason"),
    *("chunk.filters.of", "chunk.filters.values"),
    *("mark.generation", "mark.batch", "mark.definitions", "mark.everywhere"),
    *("queue.id", "queue.identity", "queue.declaration.name", "exchange.name", "binding.source", "binding.destination"),
    *("policy.name", "policy.pattern", "policy.apply_to"),
    *("description.generation", "description.host"),
    *("description.queue.id", "description.queue.identity", "description.queue.declaration.name"),
    *("checkpoint.indexes", "checkpoint.bodies.current", "checkpoint.bodies.files", "checkpoint.bodies.places"),
    *("checkpoint.bodies.references", "checkpoint segment.file_bytes"),
    *("checkpoint index.delivered_below", "checkpoint index.next_sequence_floor"),
    # An ENQUEUE has one span of new messages.
    *("command ENQUEUE.firsts", "command ENQUEUE.counts", "command ENQUEUE.carried", "command CARRIED.carried"),
    *("command ENQUEUE.histories", "command ENQUEUE.discards"),
    # What is kept is durable and belongs to no connection.
    *("queue.declaration.durable", "queue.declaration.exclusive", "exchange.durable"),
    *("description.queue.declaration.durable", "description.queue.declaration.exclusive"),
    # Only memory has it.
    *("checkpoint segment.ids", "checkpoint segment.settled", "checkpoint segment.late"),
    "checkpoint segment.incarnation",
}
"""Fields that have one sort in every data folder. Of any other field, the folders have to show two."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("every-kind")
    unpack(ARCHIVE, root)
    assert {json.loads((root / name / FORMAT_FILE).read_text())["format"] for name in ENDS} == {FORMAT}
    return root


@pytest.fixture(scope="module")
def kinds(folders: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name in ENDS:
        for field, sort in kinds_of(folders / name):
            found[field].add(sort)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ended", ENDS)
def test_clients_find_everything_in_a_folder_twice(tmp_path: Path, ended: str) -> None:
    unpack(ARCHIVE, tmp_path)
    manifest = json.loads(MANIFEST.read_text())
    seen = trio.run(visited, tmp_path / ended, manifest["made"])
    for part, expected in manifest[ended].items():
        assert seen[part] == expected, part
    with closing(open_definitions(tmp_path / ended, new_identity=numbered_identities())) as database:
        assert database.users() == USERS


def test_every_kind_of_record_and_command_is_there(kinds: dict[str, set[str]]) -> None:
    assert kinds["record"] == {kind.name for kind in set(RecordKind) - NOT_WRITTEN}
    assert kinds["command"] == {kind.name for kind in set(CommandType) - OF_CLUSTERS}
    for field, sorts in kinds.items():
        if field.endswith(".origin"):
            assert sorts == {origin.name for origin in Origin}, field


def test_every_field_is_there_with_and_without_a_value(kinds: dict[str, set[str]]) -> None:
    assert {field for field, sorts in kinds.items() if len(sorts) < 2 and sorts != {FIELDS}} == (
        OF_ONE_SORT | LATER_FIELDS
    )


def test_every_kind_of_definition_is_there(kinds: dict[str, set[str]]) -> None:
    assert kinds["exchange.type"] == {kind.name for kind in ExchangeType}
    assert kinds["described"] == kinds["lost"] == set(QUEUE_ARGUMENTS)
    for kind, rules in QUEUE_ARGUMENTS.items():
        assert kinds[f"argument of {kind}"] >= set(rules) - LATER_ARGUMENTS
    assert kinds["argument of exchange"] == set(EXCHANGE_ARGUMENTS)
    assert kinds["policy key"] == set(KEYS) - LATER_KEYS
    assert kinds["applies to"] == set(APPLY_TO)
    for file in (DEFINITIONS_FILE, COPY_FILE):
        tables = kinds[f"table {file}"]
        assert tables
        assert [table for table in tables if table.endswith("nothing")] == []


def test_every_file_that_the_page_names_is_there_and_no_other(folders: Path) -> None:
    section = FORMAT_PAGE.read_text().partition("## The data folder")[2].partition("\n## ")[0]
    patterns = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall("`(.*?)`", row)
    }
    files = {
        str(path.relative_to(folders / name)) for name in ENDS for path in (folders / name).rglob("*") if path.is_file()
    }
    matching = {pattern: _matching(pattern, files) for pattern in patterns}
    assert [pattern for pattern, found in matching.items() if not found] == []
    assert files.difference(*matching.values()) == set()


def _matching(pattern: str, files: set[str]) -> set[str]:
    expression = re.sub(
        "<.*?>", "[^/]+", re.escape(pattern).replace("\\<", "<").replace("\\>", ">").replace("\\ ", " ")
    )
    return {file for file in files if re.fullmatch(expression if pattern[-1] != "/" else f"{expression}.+", file)}
