"""Queues that are declared or deleted together: one record on disk for what came in one turn.

A record takes two syncs, however many changes are in it. So a declaration or deletion that is to be recorded is
*staged* first: it is checked, and has no effect yet. The engine's next turn records them in the order in which they
were staged, up to :data:`RECORDED_AT_ONCE`, and then makes them; the turns behind it do the others. If the disk refuses
a record, none of its changes is made, and each of their clients gets the error.

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
from core.work import Work

STAGED_WORK = 80
"""The cost of a staged change in units of :mod:`core.work`: what the peer's own turn does for it. It is recorded and
made in another turn, whose length :data:`RECORDED_AT_ONCE` bounds. So one peer can fill a record, whose two syncs take
as long for one change as for all."""

RECORDED_AT_ONCE = 20
"""The most changes in one record. Each takes 0.1 to 0.2 ms and the two syncs 0.5 to 5 ms, so that a record holds the
event loop for less than half of the 20 ms that a neighbour may be kept waiting. Where the disk takes 1 ms to make a
folder and a file, it is 25 ms."""

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
        declare_now: Callable[[QueueDeclaration, object, bool], Declared],
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
        """By the name of the queue, in the order in which they came."""

    def declare(
        self, declaration: QueueDeclaration, owner: object, *, named_by_broker: bool = False
    ) -> Recording[Declared]:
        """Stage a declaration, or declare at once what is not to be staged. Raises StillGoing, and as
        :meth:`Topology.admit_queue`."""
        name = declaration.name
        self._check_not_staged(name)
        if self._recorder is None or name in self._topology.queues or not self._topology.keeps(declaration):
            return Recording[Declared]().finish(self._declare_now(declaration, owner, named_by_broker))
        self._work.spent += STAGED_WORK
        definition = self._topology.new_queue(
            declaration, owner, named_by_broker=named_by_broker, beside=len(self.waiting)
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
        """Record now what is staged before a change of this queue, and that change, if there is one."""
        while name in self.waiting:
            self.record()

    def record(self) -> None:
        """Record the first of what is staged, and make these changes; if they cannot be recorded, make none of them."""
        recorder = self._recorder
        assert recorder is not None, "without a recorder nothing is staged"
        staged = dict(islice(self.waiting.items(), RECORDED_AT_ONCE))
        for name in staged:
            del self.waiting[name]
        numbers: dict[str, int | None] = {}
        try:
            with recorder.together():
                for name, one in staged.items():
                    if isinstance(one, _Deletion):
                        recorder.remove(queues=[name], exchanges=(), bindings=())
                    else:
                        numbers[name] = recorder.add_queue(one.definition.declaration, one.definition.identity)
        except PreconditionFailed as error:
            for one in staged.values():
                one.recording.fail(str(error))
            return
        for name, one in staged.items():
            if isinstance(one, _Deletion):
                self._topology.drop_queue(name)
                one.recording.finish(self._end(name))
            else:
                definition = replace(one.definition, id=numbers[name])
                self._topology.add_queue(definition)
                one.recording.finish((self._make(definition), True))

    def _check_not_staged(self, name: str) -> None:
        if name in self.waiting:
            raise StillGoing(f"queue '{name}' is being declared or deleted; try again in a moment")
