"""Operations on definitions: all of them as one document in RabbitMQ's form, and making what such a document has.

An import makes what is missing and changes policies that differ; it deletes nothing. If a queue or exchange exists with
other properties, that is a conflict, and the import does nothing: the queue would have to be deleted with its messages.
Users are neither exported nor imported.
"""

from collections.abc import Sequence
from functools import partial

from core.control_plane import BrokerControl
from core.declaring import once_gone
from core.definitions_file.compare import Change, Difference, comparing
from core.definitions_file.document import Document, Thing, label
from core.definitions_file.json_values import finding_problems
from core.definitions_file.reading import Reading, examining
from core.definitions_file.snapshots import reading_snapshots
from core.definitions_file.writing import making_value
from core.engine.broker import OPERATOR, Broker
from core.errors import Inequivalent, Invalid, PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.operations.operation import DONE, AnswerField, Arguments, Parameter, Reply, Right, Shape, operation
from core.slices import Walk

TOLD_MAX = 5
"""The most problems or conflicts that one answer names."""
DOCUMENT = Parameter("document", "Definitions in RabbitMQ's form.", "map", is_document=True, required=True)
DEFINITIONS = Shape(
    "map",
    (
        AnswerField("exchanges", "list", "The declarations of exchanges."),
        AnswerField("queues", "list", "The declarations of queues that are not exclusive."),
        AnswerField("bindings", "list", "The bindings."),
        AnswerField("policies", "list", "The policies."),
    ),
)


@operation("definitions.export", "GET", "/definitions", answer=DEFINITIONS, gives={"vhosts": [{"name": "/"}]})
def export(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Show all definitions as one document in RabbitMQ's form, without users."""
    return Reply(200, (yield from making_value((yield from _found(control.broker)), version=control.version)))


@operation(
    "definitions.import",
    "POST",
    "/definitions",
    DOCUMENT,
    right=Right.CONFIGURE,
    example={"document": {"queues": [{"name": "made", "vhost": "/", "durable": True}]}},
)
def import_(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Make what a document has and the broker does not have; nothing is deleted."""
    # after an error the call may be repeated; it then makes what is still missing
    broker, value = control.broker, arguments.map("document")
    problems: Sequence[object] = yield from finding_problems(value)
    reading = Reading(document=Document(), problems=[], notes=[]) if problems else (yield from examining(value))
    if problems or reading.problems:
        raise Invalid(_told([*problems, *reading.problems]))
    differences = yield from comparing(reading.document, (yield from _found(broker)))
    conflicts = []
    for one in differences:
        if one.change is Change.CONFLICT:
            conflicts.append(_conflict(one))
        yield
    if conflicts:
        raise Inequivalent(_told(conflicts))
    for one in differences:  # what the document does not have is kept, so there are no other steps
        if one.change in (Change.CREATE, Change.CHANGE):
            yield from once_gone(partial(_make, broker, one.thing))
        yield
    return DONE


def _found(broker: Broker) -> Walk[Document]:
    reading = yield from reading_snapshots(broker.declared())
    if reading.problems:
        raise PreconditionFailed(_told(reading.problems))
    return reading.document


def _make(broker: Broker, thing: Thing) -> None:
    match thing:
        case ExchangeDeclaration():
            broker.declare_exchange(thing)
        case QueueDeclaration():
            broker.declare_queue(thing, OPERATOR)
        case Binding():
            broker.bind(thing, OPERATOR)
        case _:
            broker.policies.set(thing)


def _conflict(difference: Difference) -> str:
    return f"{label(difference.thing)} is different: {', '.join(difference.fields)}"


def _told(found: Sequence[object]) -> str:
    more = len(found) - TOLD_MAX
    return "; ".join(map(str, found[:TOLD_MAX])) + (f"; and {more} more" if more > 0 else "")


OPERATIONS = (export, import_)
