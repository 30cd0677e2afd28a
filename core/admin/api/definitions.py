"""Definitions over HTTP: exports them as one document in RabbitMQ's form, and imports such a document.

An import makes what is missing and changes policies that differ; it deletes nothing. If a queue or exchange exists with
other properties, that is a conflict, and the import does nothing: the queue would have to be deleted with its messages.
Users are neither exported nor imported.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from core.admin.api.operations import OPERATOR
from core.admin.api.refusals import HttpRefusal, bad_request
from core.declaring import once_gone
from core.definitions_file.compare import Change, Difference, comparing
from core.definitions_file.document import Document, Thing, label
from core.definitions_file.json_values import finding_problems
from core.definitions_file.reading import Reading, examining
from core.definitions_file.snapshots import reading_snapshots
from core.definitions_file.writing import making_value
from core.engine.broker import Broker
from core.errors import PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration, Snapshot
from core.slices import Walk

TOLD_MAX = 5
"""The most problems or conflicts that one answer names."""


class BrokerDefinitions:
    """The definitions of one broker."""

    def __init__(self, broker: Broker, *, version: str) -> None:
        self._broker = broker
        self._version = version

    def show(self) -> Walk[Snapshot]:
        """Return all definitions as one document: those that exist when the walk begins."""
        return (yield from making_value((yield from self._found()), version=self._version))

    def apply(self, value: Mapping[str, object]) -> Walk[None]:
        """Make what a document has and the broker does not have. Raises HttpRefusal and EngineError.

        After an error the call may be repeated; it then makes what is still missing.
        """
        problems: Sequence[object] = yield from finding_problems(value)
        reading = Reading(document=Document(), problems=[], notes=[]) if problems else (yield from examining(value))
        if problems or reading.problems:
            raise bad_request(_told([*problems, *reading.problems]))
        differences = yield from comparing(reading.document, (yield from self._found()))
        conflicts = []
        for one in differences:
            if one.change is Change.CONFLICT:
                conflicts.append(_conflict(one))
            yield
        if conflicts:
            raise HttpRefusal(409, "conflict", _told(conflicts))
        for one in differences:  # what the document does not have is kept, so there are no other steps
            if one.change in (Change.CREATE, Change.CHANGE):
                yield from once_gone(partial(self._make, one.thing))
            yield

    def _found(self) -> Walk[Document]:
        reading = yield from reading_snapshots(self._broker.declared())
        if reading.problems:
            raise PreconditionFailed(_told(reading.problems))
        return reading.document

    def _make(self, thing: Thing) -> None:
        match thing:
            case ExchangeDeclaration():
                self._broker.declare_exchange(thing)
            case QueueDeclaration():
                self._broker.declare_queue(thing, OPERATOR)
            case Binding():
                self._broker.bind(thing, OPERATOR)
            case _:
                self._broker.policies.set(thing)


def _conflict(difference: Difference) -> str:
    return f"{label(difference.thing)} is different: {', '.join(difference.fields)}"


def _told(found: Sequence[object]) -> str:
    more = len(found) - TOLD_MAX
    return "; ".join(map(str, found[:TOLD_MAX])) + (f"; and {more} more" if more > 0 else "")
