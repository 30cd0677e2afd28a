"""What the copies of a node's data folder have, read while no broker uses the folder. Nothing is changed.

The logs are read as a start reads them, so the end of a group is that from which the next start goes on: what a power
cut has torn at the end does not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from core.cluster.member_list import MemberList
from core.engine.options.arguments import queue_type
from core.engine.options.in_force import QueueType
from core.engine.quorum.commands import QueueKey
from core.engine.quorum.group_numbers import OF_A_SIZE_MAX, SIZES, GroupNumbers, number_in_log
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.engine.routing.shared_names import is_shared
from core.store.command_log import GROUPS, LocalCommandLog
from core.store.disk import FolderDisk
from core.store.errors import StoreRefused
from core.store.frozen_disk import FrozenDisk
from core.store.inspect import read_definitions
from core.store.lane import Lane
from core.store.marks import lost_files, read_marks
from core.store.store import QUORUM

OPEN_FILES = 8
"""Files that are open at once: they are read one after the other."""
SNAPSHOT = "snapshot"
"""What an orderly stop leaves beside a log: an extract of it, which is not read here."""
IDENTITY_FILE = "cluster"
"""The file in the data folder with the identity of the cluster whose node this is."""
MEMBERS_FILE = "cluster-members"
"""The file in the data folder with the last list of the members that this node had."""
LEVELS = (0, 1)
"""The priority levels of a quorum queue, each of which is a machine of its own."""


class QueueCopy(NamedTuple):
    """A quorum queue or a stream, as a copy has it."""

    virtual_host: str
    name: str
    kind: str
    """Its type, ``quorum`` or ``stream``."""
    messages: int
    next_offset: int | None = None
    """The offset of the next message of a stream; None for a queue."""


class GroupCopyFound(NamedTuple):
    """A group, as a copy has it."""

    number: int
    end: int
    """The number of its last batch; 0 if there is none."""
    epoch: int
    """How often the group had been claimed when that batch was made."""
    queues: Sequence[QueueCopy]
    members: Sequence[str]
    """The nodes that keep it, as the list of this folder says."""
    trouble: str
    """Why the copy cannot be used; empty if it can."""


class FolderCopies(NamedTuple):
    """The copies of a folder."""

    identity: str
    """That of the cluster; empty if the folder was never in one."""
    members: MemberList | None
    """The last list; None if the folder has none."""
    groups: Sequence[GroupCopyFound]
    problems: Sequence[str]
    """What is wrong with the definitions."""


def found_copies(folder: Path) -> FolderCopies:
    """Read the copies of a data folder that the caller keeps locked. Blocks for as long as a start without a
    checkpoint. Raises StoreRefused for a folder without copies, and OSError."""
    present = sorted(int(one.name) for one in (folder / QUORUM / GROUPS).glob("*") if one.name.isdigit())
    if not present:
        raise StoreRefused(f"{folder} has no copies of groups: it is not the data folder of a node of a cluster")
    numbers = numbers_of(len(present))
    if numbers is None or present != list(numbers.all):
        raise StoreRefused(
            f"{folder} has the folders of {len(present)} groups, {present[0]} to {present[-1]}, and no value of "
            "cluster.groups makes these; a start of the broker makes those that are missing"
        )
    definitions = read_definitions(folder)
    defined: dict[int, list[tuple[str, str, str, int]]] = {}
    for host, one in definitions.hosts.items():
        for queue in one.queues:
            if is_shared(queue.declaration):
                number = number_in_log(queue.identity)
                fact = host, queue.declaration.name, queue_type(queue.declaration.arguments), number
                defined.setdefault(numbers.of(queue.identity), []).append(fact)
    listed = _members(folder)
    keepers = {number: _keepers(listed, number, numbers) for number in present}
    disk = FolderDisk(folder, OPEN_FILES, read_only=True)
    with closing(disk):
        lost = [one.path for one in lost_files(disk, read_marks(disk, QUORUM))]
        groups = [_found(disk, number, defined.get(number, ()), keepers[number], lost) for number in present]
    return FolderCopies(_identity(folder), listed, groups, definitions.problems)


def numbers_of(count: int) -> GroupNumbers | None:
    """The groups of a cluster that has so many in all; None if no cluster has."""
    for everywhere in range(1, count + 1):
        if everywhere + len(SIZES) * min(everywhere, OF_A_SIZE_MAX) == count:
            return GroupNumbers(everywhere)
    return None


def _found(
    disk: FolderDisk,
    number: int,
    defined: Iterable[tuple[str, str, str, int]],
    members: Sequence[str],
    lost: Sequence[str],
) -> GroupCopyFound:
    frozen = FrozenDisk(disk)
    frozen.unlink(f"{QUORUM}/{GROUPS}/{number}/{SNAPSHOT}")
    copy = LocalCommandLog(frozen, Lane(QUORUM, generation=0, sync_interval_s=1.0), file_bytes_max=1, group=number)
    shared = SharedLog(copy, node=0, group=number)
    queues = QuorumQueues(copy, shared=shared)
    queues.recover()
    missing = [path for path in lost if path.startswith(f"{QUORUM}/{GROUPS}/{number}/")]
    trouble = ""
    if missing:
        trouble = f"{missing[0]} is missing or too short"
    elif shared.must_copy:
        whys = [problem.partition("because ")[2] or problem for problem in queues.problems]
        trouble = "; ".join(whys) or "its copy of another node was not complete when the broker ended"
    told = [] if trouble else [_queue(queues, *one) for one in defined]
    if trouble:
        told = [QueueCopy(host, name, kind, 0) for host, name, kind, _ in defined]
    end = shared.end
    return GroupCopyFound(number, end.number, end.epoch, told, members, trouble)


def _queue(queues: QuorumQueues, host: str, name: str, kind: str, number: int) -> QueueCopy:
    if kind == QueueType.STREAM.value:
        chunks = queues.stream(number)
        return QueueCopy(host, name, kind, chunks.next - chunks.first, chunks.next)
    return QueueCopy(host, name, kind, sum(queues.live(QueueKey(number, level)) for level in LEVELS))


def _identity(folder: Path) -> str:
    try:
        return (folder / IDENTITY_FILE).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def _members(folder: Path) -> MemberList | None:
    try:
        data = (folder / MEMBERS_FILE).read_bytes()
    except FileNotFoundError:
        return None
    listed = MemberList.decoded(data)
    if listed is None:
        raise StoreRefused(
            f"{folder / MEMBERS_FILE} has no list of members; remove it, and the configuration's list is read"
        )
    return listed


def _keepers(listed: MemberList | None, number: int, numbers: GroupNumbers) -> Sequence[str]:
    if listed is None:
        return ()
    return listed.groups.get(number, () if number in numbers.sized else listed.names)


def used(groups: Sequence[GroupCopyFound]) -> Mapping[int, GroupCopyFound]:
    """The groups that have batches or queues, by number."""
    return {one.number: one for one in groups if one.end or one.queues or one.trouble}
