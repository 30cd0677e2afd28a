"""Queues that are declared or deleted together: one record on disk for what came in one turn.

A record takes two syncs, however many changes are in it. So a declaration or deletion that is to be recorded is
*staged* first: it is checked, and has no effect yet. The engine's next turn begins to record them in the order in which
they were staged, up to :data:`RECORDED_AT_ONCE`. While the record is on its way to the disk, more are staged; they are
the next record. When a record is on the disk, its changes are made, up to :data:`MADE_AT_ONCE` in a turn. If the disk
refuses a record, none of its changes is made, and each of their clients gets the error.

Staged are queues that outlive the broker and do not exist, and deletions of such queues without bindings: neither
depends on another change. There is one staged change for a queue; a second one waits for it. All other changes are
recorded one by one, and first what is staged for the same queue.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from core.declaring import Recording
from core.engine.routing.recorder import DefinitionsRecorder
from core.engine.routing.topology import QueueDefinition, Topology
from core.errors import PreconditionFailed, StillGoing
from core.interface import QueueDeclaration, QueueInfo
from core.store.definition_record import DefinitionRecord
from core.work import Work

STAGED_WORK = 80
"""The cost of a staged change in units of :mod:`core.work`: what the peer's own turn does for it. It is recorded and
made in other turns, whose length :data:`RECORDED_AT_ONCE` and :data:`MADE_AT_ONCE` bound. So one peer can fill a
record, whose two syncs take as long for one change as for all."""

RECORDED_AT_ONCE = 64
"""The most changes in one record. Each takes 0.04 to 0.06 ms to write to each of the two files, so that a record holds
the event loop twice for less than 4 ms, a fifth of the 20 ms that a neighbour may be kept waiting."""

MADE_AT_ONCE = 20
"""The most changes that are made in one turn: 0.1 to 0.2 ms each."""

Declared = tuple[QueueInfo, bool]
"""What a declaration returns: see :meth:`core.interface.Engine.declare_queue`."""


@dataclass(frozen=True, slots=True)
class _Declaration:
    definition: QueueDefinition
    recording: Recording[Declared]


@dataclass(frozen=True, slots=True)
class _Deletion:
    recording: Recording[int]


class StagedQueues:
    """The declarations and deletions that wait for the next turn."""

    def __init__(
        self,
        topology: Topology,
        recorder: DefinitionsRecorder | None,
        work: Work,
        declare_now: Callable[..., Declared],
        delete_now: Callable[[str, object], int],
        make: Callable[[QueueDefinition], QueueInfo],
        end: Callable[[str], int],
    ) -> None:
        """``declare_now`` and ``delete_now`` declare and delete a queue at once; the third argument of the former is
        ``named_by_broker``. ``make`` makes a queue that has been declared, and ``end`` ends one that has been deleted
        and returns how many ready messages it had."""
        self._topology = topology
        self._recorder = recorder
        self._work = work
        self._declare_now, self._delete_now = declare_now, delete_now
        self._make, self._end = make, end
        self.waiting: dict[str, _Declaration | _Deletion] = {}
        """What is not made yet, by the name of the queue, in the order in which they came."""
        self._record: DefinitionRecord | None = None
        """The record that is on its way to the disk."""
        self._recording: dict[str, int | None] = {}
        """The names of the queues in it, with the numbers of the new ones."""
        self._recorded: dict[str, int | None] = {}
        """The same of queues whose changes are on the disk and not made yet. These are the first ones that wait, and
        those on their way the next ones."""

    def declare(
        self,
        declaration: QueueDeclaration,
        owner: object,
        *,
        named_by_broker: bool = False,
        identity: str | None = None,
    ) -> Recording[Declared]:
        """Stage a declaration, or declare at once what is not to be staged. ``identity``: that of the queue, if it has
        one at other nodes already. Raises StillGoing, and as :meth:`Topology.admit_queue`."""
        name = declaration.name
        self._check_not_staged(name)
        if self._recorder is None or name in self._topology.queues or not self._topology.keeps(declaration):
            return Recording[Declared]().finish(self._declare_now(declaration, owner, named_by_broker=named_by_broker))
        self._work.spent += STAGED_WORK
        definition = self._topology.new_queue(
            declaration, owner, named_by_broker=named_by_broker, beside=len(self.waiting), identity=identity
        )
        recording: Recording[Declared] = Recording()
        self.waiting[name] = _Declaration(definition, recording)
        return recording

    def delete(self, name: str, owner: object) -> Recording[int]:
        """Stage a deletion, or delete at once what is not to be staged. Raises StillGoing, Locked."""
        self._check_not_staged(name)
        definition = self._topology.queues.get(name)
        if definition is None or definition.id is None or self._topology.has_bindings(name):
            return Recording[int]().finish(self._delete_now(name, owner))
        self._topology.queue(name, owner)
        self._work.spent += STAGED_WORK
        recording: Recording[int] = Recording()
        self.waiting[name] = _Deletion(recording)
        return recording

    def settle(self, name: str) -> None:
        """Record and make now what is staged before a change of this queue, and that change, if there is one."""
        while name in self.waiting:
            if self._record is not None:
                self._record.finish()
            self.go_on()

    def go_on(self) -> bool:
        """Begin to record what is staged, and make some of what is recorded. Returns whether there is more to do
        now."""
        if self._record is not None and self._record.done:
            record, self._record = self._record, None
            self._end_record(record.error)
        if self._record is None and len(self.waiting) > len(self._recorded):
            self._begin()
        for name in list(islice(self._recorded, MADE_AT_ONCE)):
            self._make_one(name, self._recorded.pop(name))
        return bool(self._recorded) or (self._record is None and bool(self.waiting))

    def _begin(self) -> None:
        recorder = self._recorder
        assert recorder is not None, "without a recorder nothing is staged"
        first = len(self._recorded)
        changes = dict(islice(self.waiting.items(), first, first + RECORDED_AT_ONCE))
        numbers = self._recording = dict.fromkeys(changes)
        try:
            with recorder.together(self._begun):
                for name, one in changes.items():
                    if isinstance(one, _Deletion):
                        recorder.remove(queues=[name], exchanges=(), bindings=())
                    else:
                        numbers[name] = recorder.add_queue(one.definition.declaration, one.definition.identity)
        except PreconditionFailed as error:
            self._end_record(error)
            return
        if self._record is None:
            self._end_record(None)

    def _begun(self, record: DefinitionRecord) -> None:
        self._record = record

    def _end_record(self, error: PreconditionFailed | None) -> None:
        """The record is on the disk, or the disk refuses it."""
        changes, self._recording = self._recording, {}
        if error is None:
            self._recorded |= changes
            return
        for name in changes:
            self.waiting.pop(name).recording.fail(str(error))

    def _make_one(self, name: str, number: int | None) -> None:
        """Make a change that is on the disk."""
        one = self.waiting.pop(name)
        if isinstance(one, _Deletion):
            self._topology.drop_queue(name)
            one.recording.finish(self._end(name))
        else:
            definition = replace(one.definition, id=number)
            self._topology.add_queue(definition)
            one.recording.finish((self._make(definition), True))

    def _check_not_staged(self, name: str) -> None:
        if name in self.waiting:
            raise StillGoing(f"queue '{name}' is being declared or deleted; try again in a moment")
