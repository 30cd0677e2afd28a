"""The data folder of a running broker: opened, driven by a task for each lane, and left in order.

Opening it may take long after an unclean stop, and happens before the broker listens. What a start found is logged, so
that an operator who reads the log after a crash learns what survived.
"""

import errno
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog
import trio

from core.access.users import UserStore
from core.alarms.registry import AlarmRegistry
from core.clock import Now
from core.cluster.digest_homes import node_in_name
from core.config.cluster import ClusterSettings
from core.config.store import StoreSettings
from core.engine.quorum.annotations import AnnotationCodec
from core.engine.quorum.groups import QuorumGroups
from core.engine.quorum.queues import QuorumQueues
from core.engine.routing.agreement import Agreement
from core.engine.routing.shared_names import is_shared
from core.engine.routing.shared_recorder import SharedRecorder
from core.engine.storage import HostKeeper, Recorder, Storage
from core.errors import PreconditionFailed
from core.message import Origin
from core.server.definitions_task import record_definitions
from core.server.describing import Describer
from core.server.descriptors import files_allowed, total_limit
from core.server.groups_on_disk import check_alone, check_no_node, open_groups
from core.server.hosts_on_disk import HostsOnDisk
from core.server.shared_keepers import SharedHosts, SharedUsers
from core.server.storage_task import InlineWrites, drain, run_lane
from core.server.worker_threads import WorkerThreads
from core.store.command_log import LocalCommandLog
from core.store.definitions import DEFAULT_HOST, Definitions, DefinitionsDatabase, StoredQueue
from core.store.definitions_found import check_not_older
from core.store.descriptions import (
    DESCRIPTION_FILE,
    FOLDERS_OF_KINDS,
    Description,
    QueueFolder,
    check_identities,
    folder_of,
    queue_folders,
    queue_kind,
    read_description,
    write_description,
)
from core.store.disk import FolderDisk
from core.store.errors import StoreFailure
from core.store.folder import LOCK_FILE, open_folder
from core.store.lane import Lane
from core.store.lost import lost_entries, set_aside
from core.store.recovery import Report
from core.store.reserve import SpaceReserve
from core.store.sealed_file import SCHEMA_VERSION
from core.store.store import Store, marked_definitions, open_store

NO_SPACE = "no space in the store"
"""The source of a disk alarm that a write has raised, whatever the measured space is."""
HOUSEKEEPING_SECONDS = 0.1
"""Seconds between two checks for garbage. One step copies 1 MiB, and the event loop serves peers between two steps."""
RESERVE_SECONDS = 1.0
"""Seconds between two looks at the reserve. A lane that finds no space gets half of it within this time."""
DESCRIPTIONS_TOLD_MAX = 20
"""How many queues a start names in the log because their descriptions were wrong; the others are counted."""
PROGRESS_SECONDS = 5.0
"""Seconds between two log lines about the progress of a long recovery."""


class StartGivenUp(Exception):
    """The broker was told to stop before it had started."""


def _agreement(cluster: ClusterSettings) -> Agreement:
    if cluster.first_node:
        agreement = Agreement(shares=lambda declaration: node_in_name(declaration.name) is None)
        agreement.node = cluster.node
        return agreement
    agreement = Agreement(copies=len(cluster.members))
    agreement.node = cluster.node
    return agreement


class OpenData:
    """One open data folder and everything in it. ``storage`` is the interface for the engine."""

    def __init__(
        self,
        path: Path,
        settings: StoreSettings,
        *,
        clock: Callable[[], Now],
        log: structlog.typing.FilteringBoundLogger,
        annotations: AnnotationCodec,
        new_identity: Callable[[], str],
        encodings: Iterable[Origin] = tuple(Origin),
        stop_wanted: Callable[[], bool] = lambda: False,
        cluster: ClusterSettings | None = None,
        waits: Callable[[], int] | None = None,
    ) -> None:
        """``annotations`` encodes what consumers add to messages. ``new_identity`` makes identities for queues of an
        older layout. ``encodings`` are the message encodings that this broker understands. ``cluster``:
        that of which this broker is a node; None without one. ``waits``: see
        :class:`core.server.storage_task.InlineWrites`.

        Blocks, for long after an unclean stop. Raises StoreRefused, StoreDamaged, StoreFailure, and StartGivenUp when
        ``stop_wanted`` returns True between two files; then the data are as they were.
        """
        self._stop_wanted = stop_wanted
        self._waits = waits
        self._settings, self._cluster = settings, cluster
        self.agreement = None if cluster is None else _agreement(cluster)
        """What nodes agree on before they change their definitions; None without a cluster."""
        self._annotations = annotations
        self._clock = clock
        self._log = log
        self._said_at = clock().monotonic
        if cluster is None or not cluster.members:
            check_alone(path)
        if cluster is None or not cluster.first_node:
            check_no_node(path)
        self._folder = open_folder(path, encodings)
        self._reserve = SpaceReserve(path, settings.space_reserve)
        self._disk = FolderDisk(path, settings.open_files_max, marker=LOCK_FILE)
        self._describer = Describer(path, start=self._folder.generation, clock=clock)
        self._definitions = self._opened_definitions(new_identity)
        try:
            self.storage = self._opened()
        except BaseException:
            self.close()
            raise

    def _opened_definitions(self, new_identity: Callable[[], str]) -> DefinitionsDatabase:
        chosen = self._folder.chosen
        definitions = DefinitionsDatabase(self._folder.path, chosen, new_identity=new_identity)
        if chosen.upgraded_from is not None:
            self._log.info("definitions-upgraded", layout=chosen.upgraded_from, to=SCHEMA_VERSION)
        elif not chosen.is_new:
            for path, why in chosen.anew:
                self._log.warning("definitions-rebuilt", path=str(path), why=why, done=path not in definitions.behind)
        definitions.fell_behind = self._say_fell_behind
        return definitions

    def _mark_definitions(self, generation: int) -> None:
        for lane in self.lanes:
            lane.marks.definitions = generation

    def _say_fell_behind(self, path: Path, why: str) -> None:
        self._log.error("definitions-fell-behind", path=str(path), why=why)

    def _inline_writes(self, lane: Lane, *, once_per_sync: bool) -> InlineWrites:
        """What writes the lane's small batches. First make the lane as slow as the settings say: its workers sleep."""
        sync_delay, write_delay = self._settings.sync_delay, self._settings.write_delay
        if sync_delay:
            lane.before_sync = partial(time.sleep, sync_delay)
        if write_delay:
            lane.before_write = partial(time.sleep, write_delay)
        bytes_max = 0 if write_delay else self._settings.inline_write_max
        return InlineWrites(
            lane,
            self._disk,
            clock=self._clock,
            bytes_max=bytes_max,
            once_per_sync=once_per_sync,
            waits=self._waits,
        )

    def _opened(self) -> Storage:
        began = self._clock().monotonic
        recorders = {name: self._definitions.for_host(name) for name in self._definitions.hosts()}
        found = {name: recorder.load() for name, recorder in recorders.items()}
        queues = [queue for one in found.values() for queue in one.queues]
        check_not_older(self._folder.path, self._definitions.generation, marked_definitions(self._disk))
        with suppress(OSError):  # the disk is full: the witness stays older, and the start goes on
            self._folder.remember_definitions(self._definitions.generation)
        ids = {queue.id: queue_kind(queue.declaration) for queue in queues}
        folders = list(queue_folders(self._folder.path))
        check_identities(folders, queues)
        deleted = frozenset(self._definitions.deleted)
        store = open_store(
            self._disk,
            self._settings,
            generation=self._folder.generation,
            queue_ids=[str(number) for number, kind in ids.items() if kind == "classic"],
            stream_ids=[str(number) for number, kind in ids.items() if kind == "stream"],
            deleted=[str(number) for number in deleted],
            set_aside=partial(self._set_aside, "classic"),
            progress=self._say_progress,
        )
        self.lanes = (store.classic, store.quorum, store.streams)
        self._tend(DEFAULT_HOST, self._definitions)
        self._mark_definitions(self._definitions.generation)
        self._inline = {lane: self._inline_writes(lane, once_per_sync=lane is store.quorum) for lane in self.lanes}
        command_log = LocalCommandLog(
            self._disk,
            store.quorum,
            file_bytes_max=self._settings.command_log_file_size_limit,
            salvage=self._settings.salvage,
        )
        quorum = QuorumQueues(
            command_log,
            garbage_fraction=self._settings.garbage_fraction,
            look_bytes=self._settings.command_log_file_size_limit // 4,
            annotations=self._annotations,
        )
        quorum.recover()
        in_log = quorum.numbers
        for number in sorted(in_log - deleted):
            if ids.get(number) != "quorum":
                self._set_aside("quorum", number, quorum.commands_of(number))
        quorum.retain([number for number, kind in ids.items() if kind == "quorum"])
        groups = self._opened_groups(store, quorum, [queue.id for queue in queues if is_shared(queue.declaration)])
        self._see_to_folders(folders, ids, deleted)
        self._forget_deleted(deleted - in_log - {folder.number for folder in folders})
        for name, one in found.items():
            self._describe(name, one.queues, folders)
        store.report.seconds = self._clock().monotonic - began
        self._reserve.adjust()
        self._say_found(store.report, [problem for log in self._logs for problem in log.problems])
        first = Storage(
            found=found[DEFAULT_HOST],
            recorder=self._recorder(DEFAULT_HOST, self._definitions),
            work=self._definitions.work,
            store=store,
            quorum=quorum,
            groups=groups,
            salvage=self._settings.salvage,
            forgotten=self._describer.forget,
        )
        self.hosts = self._kept_hosts(first, found)
        return first

    def _kept_hosts(self, first: Storage, found: Mapping[str, Definitions]) -> HostKeeper:
        hosts = HostsOnDisk(self._definitions, first, found, self._tend, self._recorder)
        return hosts if self.agreement is None else SharedHosts(hosts, self.agreement)

    def _recorder(self, host: str, definitions: DefinitionsDatabase) -> Recorder:
        """What records the definitions of a virtual host: in a cluster, the nodes agree on them first."""
        if self.agreement is None:
            return definitions
        return SharedRecorder(definitions, definitions, host, self.agreement)

    def _opened_groups(self, store: Store, alone: QuorumQueues, shared: Sequence[int]) -> QuorumGroups | None:
        """Open the groups of a node in a cluster. ``alone``: the queues of the log that no other node has.
        ``shared``: the numbers of the queues that all nodes have."""
        self._logs = [alone]
        if self._cluster is None or not self._cluster.members:
            return None
        groups = open_groups(self._disk, store.quorum, self._cluster, self._settings, self._annotations, alone, shared)
        self._logs += [group.queues for group in groups.in_order]
        return groups

    def _tend(self, host: str, definitions: DefinitionsDatabase) -> None:
        """Have the folders of a virtual host's queues described, and its deleted queues forgotten."""
        definitions.changed = self._mark_definitions
        definitions.added = partial(self._describer.add, host)
        definitions.is_gone = self._is_gone
        definitions.fell_behind = self._say_fell_behind

    # --- data and definitions, compared

    def _set_aside(self, kind: str, number: int, commands: Iterable[bytes] = ()) -> None:
        """Set aside the data of a queue that is neither defined nor deleted. Raises StoreRefused."""
        folder = folder_of(self._folder.path, kind, number)
        said = read_description(folder)
        entry = set_aside(self._folder.path, kind, number, folder, commands)
        self._log.error(
            "queue-data-set-aside",
            type=kind,
            number=number,
            queue=None if said is None else said.queue.declaration.name,
            entry=str(entry),
        )
        with suppress(PreconditionFailed):  # the disk is full: the next start does it
            self._definitions.was_set_aside(number, left=kind == "quorum")

    def _see_to_folders(
        self, folders: Sequence[QueueFolder], ids: Mapping[int, str], deleted: AbstractSet[int]
    ) -> None:
        """Remove the folders of deleted streams and quorum queues, and set aside folders of unknown ones."""
        for folder in folders:
            if folder.kind == "classic" or ids.get(folder.number) == folder.kind or not folder.path.exists():
                continue
            if folder.number in deleted:
                self._disk.remove_folder(str(folder.path.relative_to(self._folder.path)))
            else:
                self._set_aside(folder.kind, folder.number)

    def _forget_deleted(self, numbers: AbstractSet[int]) -> None:
        """Forget these deleted queues: this start has found no data of them."""
        if numbers:
            with suppress(PreconditionFailed):
                self._definitions.forget_deleted(sorted(numbers))

    def _describe(self, host: str, queues: Sequence[StoredQueue], folders: Sequence[QueueFolder]) -> None:
        """Write the description of each queue of a virtual host into its folder, where it is not there."""
        said = {(folder.kind, folder.number): folder.description for folder in folders}
        generation = self._definitions.generation
        written = 0
        for queue in queues:
            description = said.get((queue_kind(queue.declaration), queue.id))
            if description is None or (description.queue, description.host) != (queue, host):
                if written < DESCRIPTIONS_TOLD_MAX and not self._folder.chosen.upgraded_from:
                    self._say_not_described(queue, description)
                self._write_description(host, queue, generation)
                written += 1
        if written and not self._folder.chosen.upgraded_from:
            self._log.info("queue-descriptions-written", queues=written)

    def _say_not_described(self, queue: StoredQueue, found: Description | None) -> None:
        path = folder_of(self._folder.path, queue_kind(queue.declaration), queue.id) / DESCRIPTION_FILE
        if found is not None:
            why = "it says something else than the definitions"
        else:
            why = "it is damaged" if path.exists() else "it is missing"
        self._log.warning("queue-description-not-sound", queue=queue.declaration.name, path=str(path), why=why)

    def _write_description(self, host: str, queue: StoredQueue, generation: int) -> None:
        write_description(self._folder.path, Description(queue, host, generation), start=self._folder.generation)

    def _is_gone(self, number: int) -> bool:
        root = os.fspath(self._folder.path)
        return not self._describer.writes(number) and not any(
            os.access(f"{root}/{where}/{number}", os.F_OK) for where in FOLDERS_OF_KINDS.values()
        )

    @property
    def users(self) -> UserStore:
        """The definitions, which keep the users of the broker."""
        return self._definitions if self.agreement is None else SharedUsers(self._definitions, self.agreement)

    @property
    def status(self) -> str:
        """A line for the service manager about data that waits to be adopted or discarded; empty when there is none."""
        lost = sum(1 for _ in lost_entries(self._folder.path))
        return f"data of {lost} unknown queues is in lost+found: see headgate store lost" if lost else ""

    # --- serving

    def tasks(
        self, alarms: AlarmRegistry, read_within: Callable[[float, bool], int] = lambda seconds, whole: 0
    ) -> list[Callable[[Callable[[], None]], Awaitable[None]]]:
        """The tasks that drive the lanes beside the peers; see :data:`core.server.run.Background`. ``read_within`` is
        :meth:`core.server.reader.Reader.read_within`, where sockets are served."""
        drivers = [partial(self._drive, lane, alarms, read_within) for lane in self.lanes]
        return [
            *drivers,
            partial(record_definitions, self._definitions, WorkerThreads()),
            partial(self._describer.run, WorkerThreads(begin_s=0.0)),
            self._keep_house,
            self._keep_reserve,
        ]

    async def _keep_house(self, turn: Callable[[], None]) -> None:
        """Compact the message store in small steps, forget staged bytes that are written, log passed-over damage."""
        while True:
            await trio.sleep(HOUSEKEEPING_SECONDS)
            self.say_passed_over()
            while self.storage.store.compact_step():
                await trio.lowlevel.checkpoint()

    async def _keep_reserve(self, turn: Callable[[], None]) -> None:
        """Keep a reserve of disk space while there is enough, and give half of it to the lanes when there is not."""
        while True:
            await trio.sleep(RESERVE_SECONDS)
            await trio.to_thread.run_sync(self._reserve.adjust)

    async def _drive(
        self, lane: Lane, alarms: AlarmRegistry, read_within: Callable[[float, bool], int], turn: Callable[[], None]
    ) -> None:
        source = f"{NO_SPACE} ({lane.name})"

        def no_space(waiting: bool) -> None:
            if waiting:
                alarms.set("disk", source, f"a write to the {lane.name} lane found no space")
            else:
                alarms.clear("disk", source)
            turn()

        await run_lane(
            lane,
            self._disk,
            run_blocking=WorkerThreads(),
            clock=self._clock,
            progressed=turn,
            no_space=no_space,
            retry_s=self._settings.no_space_retry,
            read_within=read_within,
            inline=self._inline[lane],
        )

    def at_work(self) -> bool:
        """Whether a thread writes or syncs for a lane."""
        return any(lane.syncing is not None or lane.writing is not None for lane in self.lanes)

    def write_inline(self) -> bool:
        """Make the small writes of the server's turn, between the engine and the sockets. True when something was
        written."""
        wrote = False
        for lane, inline in self._inline.items():
            if lane.extents or lane.write_wanted:
                wrote |= inline.write()
        return wrote

    def compact_step(self) -> bool:
        """Do one step of housekeeping in the store. True when there is more to do."""
        for quorum in self._logs:
            quorum.cleaner.look()
        return self.storage.store.compact_step()

    def sockets_changed(self, sockets_used: int) -> None:
        """Tell the store how many descriptors sockets use: they share the limit with files, and sockets go first."""
        allowed = files_allowed(total_limit(), sockets_used)
        self._disk.limit_open_files(min(self._settings.open_files_max, allowed))

    # --- the end

    async def leave_in_order(self, progressed: Callable[[], None]) -> None:
        """Write and sync what is left, then the checkpoint that makes the next start quick. Raises StoreFailure,
        NoSpace."""
        storage = self.storage
        self.say_passed_over()
        run_blocking = WorkerThreads()
        self._reserve.give_up()
        await self._describer.write_all(run_blocking)
        for lane in self.lanes:
            await drain(lane, self._disk, run_blocking=run_blocking, clock=self._clock, progressed=progressed)
        try:
            for quorum in self._logs:
                quorum.put_snapshot()
            storage.store.close_checkpoint()
            self._folder.remember_definitions(self._definitions.generation)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise StoreFailure("write", str(error.filename or "checkpoint"), error) from error
            self._log.warning("store-not-left-clean", reason=f"the checkpoint cannot be written: {error.strerror}")
        self._reserve.adjust()

    def close(self) -> None:
        """Unlock the folder, so that another process can use it."""
        self._definitions.close()
        self._disk.close()
        self._reserve.close()
        self._folder.close()

    # --- the log

    def _say_progress(self, report: Report) -> None:
        if self._stop_wanted():
            raise StartGivenUp
        now = self._clock().monotonic
        if now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            self._log.info(
                "store-recovering", files=report.files, read_bytes=report.read_bytes, messages=report.messages
            )

    def _say_found(self, report: Report, problems: Sequence[str]) -> None:
        facts = {
            "clean": report.clean,
            "queues": report.queues,
            "messages": report.messages,
            "bytes": report.bytes,
            "seconds": round(report.seconds, 3),
        }
        counts = {
            "transient_dropped": report.transient_dropped,
            "without_body": report.without_body,
            "torn": report.torn_count,
            "lost": report.lost_count,
        }
        self._log.info("store-opened", **facts, **{name: count for name, count in counts.items() if count})
        for torn in report.torn:
            self._log.warning("store-torn-tail", path=torn.path, offset=torn.offset, bytes=torn.bytes)
        for lost in report.lost:
            self._log.error("store-record-lost", record=str(lost), messages=lost.messages)
        for gone in report.gone:
            self._log.error("store-file-damaged", file=gone)
        for problem in problems:
            self._log.error("store-record-lost", record=problem, messages=None)

    def say_passed_over(self) -> None:
        """Log the damage that streams have passed over since the last call."""
        while self.storage.passed_over:
            self._log.error("store-record-lost", record=self.storage.passed_over.popleft(), messages=None)
