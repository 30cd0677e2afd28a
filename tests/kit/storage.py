"""The storage of a broker, over any disk: opened as the server opens it, with lanes that a test moves by hand.

:func:`work` does what the tasks of the lanes would do until nothing is left; :func:`write` and :func:`sync` run one
batch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from core.config.store import StoreSettings
from core.engine.options.policies import PolicyDeclaration
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.engine.routing.recorder import Later
from core.engine.storage import Storage
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.store.command_log import LocalCommandLog
from core.store.definition_record import DefinitionRecord, Steps
from core.store.definitions import Definitions, StoredQueue
from core.store.disk import Disk
from core.store.errors import StoreFailure
from core.store.lane import Lane, SyncBatch, WriteBatch
from core.store.store import STREAMS, open_store
from tests.kit.faulty_disk import MemoryDisk


class KeptDefinitions:
    """The definitions of a data folder, in memory. As in the database, each change is kept at once. If ``slow``, queues
    that are recorded together are on the disk when the test takes the steps of the record that is ``under_way``."""

    takes_all = False

    def __init__(self) -> None:
        self.slow = False
        self.under_way: list[DefinitionRecord] = []
        self._last_number = 0
        self.deleted: list[int] = []
        """The numbers of the queues that were removed."""
        self._queues: dict[str, StoredQueue] = {}
        self._exchanges: dict[str, ExchangeDeclaration] = {}
        self._bindings: list[Binding] = []
        self._policies: dict[str, PolicyDeclaration] = {}

    def load(self) -> Definitions:
        """All definitions, in the order in which they were made."""
        return Definitions(
            queues=list(self._queues.values()),
            exchanges=list(self._exchanges.values()),
            bindings=list(self._bindings),
            policies=list(self._policies.values()),
        )

    def number(self, queue: str) -> int:
        """The number under which a queue is kept."""
        return self._queues[queue].id

    # --- Recorder

    @contextmanager
    def together(self, later: Later | None = None) -> Iterator[None]:
        """See :class:`core.engine.storage.Recorder`. Here none fails."""
        yield
        if self.slow and later is not None:
            self.under_way.append(DefinitionRecord(_one_step()))
            later(self.under_way[-1])

    def add_queue(self, declaration: QueueDeclaration, identity: str) -> int:
        """See :class:`core.engine.storage.Recorder`, also for the methods that follow."""
        self._last_number += 1
        self._queues[declaration.name] = StoredQueue(self._last_number, declaration, identity)
        return self._last_number

    def add_exchange(self, declaration: ExchangeDeclaration) -> None:
        self._exchanges[declaration.name] = declaration

    def add_binding(self, binding: Binding) -> None:
        if binding not in self._bindings:
            self._bindings.append(binding)

    def remove(self, *, queues: Sequence[str], exchanges: Sequence[str], bindings: Sequence[Binding]) -> None:
        for name in queues:
            if (removed := self._queues.pop(name, None)) is not None:
                self.deleted.append(removed.id)
        for name in exchanges:
            self._exchanges.pop(name, None)
        self._bindings = [binding for binding in self._bindings if binding not in bindings]

    def set_policy(self, policy: PolicyDeclaration) -> None:
        self._policies[policy.name] = policy

    def remove_policy(self, name: str) -> None:
        self._policies.pop(name, None)


def _one_step() -> Steps:
    yield lambda: None


def open_storage(
    disk: Disk, definitions: KeptDefinitions, generation: int = 1, settings: StoreSettings | None = None
) -> Storage:
    """Open what a broker starts with on this disk. ``generation`` counts the starts.

    Raises StoreDamaged, StoreRefused, StoreFailure.
    """
    settings = settings or StoreSettings()
    found = definitions.load()
    numbers: dict[str, list[int]] = {"classic": [], "quorum": [], "stream": []}
    for queue in found.queues:
        numbers[str(queue.declaration.arguments.get("x-queue-type", "classic"))].append(queue.id)
    ids = [str(number) for number in numbers["classic"]]
    streams = [str(number) for number in numbers["stream"]]
    deleted = [str(number) for number in definitions.deleted]
    store = open_store(disk, settings, generation=generation, queue_ids=ids, stream_ids=streams, deleted=deleted)
    log = LocalCommandLog(
        disk, store.quorum, file_bytes_max=settings.command_log_file_size_limit, salvage=settings.salvage
    )
    quorum = QuorumQueues(log, garbage_fraction=settings.garbage_fraction)
    quorum.recover()
    quorum.retain(numbers["quorum"])
    for name in disk.names(STREAMS):
        if name.isdigit() and int(name) not in numbers["stream"]:
            disk.remove_folder(f"{STREAMS}/{name}")
    return Storage(found=found, recorder=definitions, store=store, quorum=quorum, salvage=settings.salvage)


def open_storage_of_member() -> Storage:
    """The storage of a node that has just started in a cluster with one group. It does not know which node leads the
    group."""
    disk = MemoryDisk()
    storage = open_storage(disk, KeptDefinitions())
    copy = LocalCommandLog(disk, storage.store.quorum, file_bytes_max=2**20, group=1)
    shared = SharedLog(copy, node=1, group=1)
    queues = QuorumQueues(copy, shared=shared)
    queues.recover()
    storage.groups = QuorumGroups()
    storage.groups.all = {1: QuorumGroup(1, shared, queues)}
    return storage


def lanes(storage: Storage) -> tuple[Lane, Lane, Lane]:
    """The lanes of classic queues, quorum queues and streams."""
    store = storage.store
    return store.classic, store.quorum, store.streams


# --- the lanes, by hand ------------------------------------------------------------------------------------------


def write(lane: Lane, disk: Disk) -> bool:
    """Write the batch that is taken or staged. False when there is none. Raises NoSpace; then the batch stays taken."""
    batch = lane.writing or lane.take_write()
    if batch is None or lane.failed is not None:
        return False
    _run(lane, batch, disk)
    lane.wrote(batch)
    return True


def sync(lane: Lane, disk: Disk, now: float) -> bool:
    """Sync the batch that is taken, wanted or old enough. False when there is none."""
    batch = lane.syncing or lane.take_sync(now)
    if batch is None or lane.failed is not None:
        return False
    _run(lane, batch, disk)
    lane.did_sync(batch)
    return True


def _run(lane: Lane, batch: WriteBatch | SyncBatch, disk: Disk) -> None:
    """Run a batch as the lane's task does. A failure ends the lane, and is raised."""
    try:
        batch.run(disk)
    except StoreFailure as failure:
        lane.fail(failure)
        raise


def work(storage: Storage, now: float) -> bool:
    """Write and sync until nothing is left to be done by this time. True when there was something."""
    disk = storage.store.disk
    worked = False
    while any(write(lane, disk) or sync(lane, disk, now) for lane in lanes(storage)):
        worked = True
    return worked


def drain(storage: Storage, now: float) -> None:
    """Write and sync everything, and note on the disk that it is synced."""
    disk = storage.store.disk
    for lane in lanes(storage):
        lane.want_sync()
        while write(lane, disk) or sync(lane, disk, now):
            lane.want_sync()
        if (mark := lane.take_mark()) is not None:
            _run(lane, mark, disk)
            lane.wrote(mark)


def leave_in_order(storage: Storage, now: float) -> None:
    """Do what the server does last, after the broker has concluded."""
    drain(storage, now)
    storage.quorum.put_snapshot()
    storage.store.close_checkpoint()
