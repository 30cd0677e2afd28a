"""Operations on definitions: all of them as one document in RabbitMQ's form, and making what such a document has.

An import makes what is missing and changes policies that differ; it deletes nothing. If a queue or exchange exists with
other properties, that is a conflict, and the import does nothing: the queue would have to be deleted with its messages.
Users are exported and imported with their permissions, for callers that may administer them.
"""

from collections.abc import Sequence
from functools import partial

from core.access.user_definitions import LISTS, set_users, shown_users, users_of
from core.control_plane import BrokerControl
from core.declaring import once_gone
from core.definitions_file.compare import Change, Difference, comparing
from core.definitions_file.document import Document, Thing, label
from core.definitions_file.json_values import finding_problems
from core.definitions_file.reading import examining
from core.definitions_file.snapshots import reading_snapshots
from core.definitions_file.writing import making_value
from core.engine.broker import OPERATOR, Broker
from core.errors import Inequivalent, Invalid, PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, QueueDeclaration
from core.operations.definition_hosts import LIMITS, hosts_of, limits_of
from core.operations.operation import DONE, AnswerField, Arguments, Parameter, Reply, Right, Shape, operation, permits
from core.slices import Walk

TOLD_MAX = 5
"""The most problems or conflicts that one answer names."""
DOCUMENT = Parameter("document", "Definitions in RabbitMQ's form.", "map", is_document=True, required=True)
ONE_HOST = Parameter("vhost", "Only those of this virtual host; without it those of all.")
USER_LISTS = Shape(
    "map",
    (
        AnswerField("users", "list", "The users, with hashes of their passwords."),
        AnswerField("permissions", "list", "The permissions."),
        AnswerField("topic_permissions", "list", "The topic permissions."),
    ),
)
DEFINITIONS = Shape(
    "map",
    (
        AnswerField("exchanges", "list", "The declarations of exchanges."),
        AnswerField("queues", "list", "The declarations of queues that are not exclusive."),
        AnswerField("bindings", "list", "The bindings."),
        AnswerField("policies", "list", "The policies."),
    ),
)


@operation(
    "definitions.export",
    "GET",
    "/definitions",
    ONE_HOST,
    answer=DEFINITIONS,
    gives={"vhosts": [{"name": "/"}]},
    is_audited=True,
)
def export(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Show all definitions as one document in RabbitMQ's form; with users only for administrators."""
    named = arguments.optional_text("vhost")
    value: dict[str, object] = {}
    for name in control.hosts.names if named is None else [named]:
        document = yield from _found(control.hosts.named(name))
        one = yield from making_value(document, version=control.version, host=name)
        if limits := control.hosts.limits(name).shown():
            one["parameters"] = [{"vhost": name, "component": LIMITS, "name": "limits", "value": limits}]
        value = {key: _joined(value.get(key), more) for key, more in one.items()}
    if control.access is not None and permits(arguments.rights, Right.ADMINISTER):
        value.update(shown_users(control.users.records()))
    return Reply(200, value)


def _joined(before: object, more: object) -> object:
    """Join the lists of two virtual hosts; other values are the same for all."""
    return [*before, *more] if isinstance(before, list) and isinstance(more, list) else more


@operation(
    "definitions.import",
    "POST",
    "/definitions",
    DOCUMENT,
    right=Right.ADMINISTER,
    example={"document": {"queues": [{"name": "made", "vhost": "/", "durable": True}]}},
)
def import_(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Make what a document has and the broker does not have, virtual hosts too; nothing is deleted."""
    # after an error the call may be repeated; it then makes what is still missing
    named = arguments.text("vhost") if "vhost" in arguments.values else None  # RabbitMQ has a path with it
    value = arguments.map("document")
    problems: Sequence[object] = yield from finding_problems(value)
    if problems:
        raise Invalid(_told(problems))
    if named is not None:
        control.hosts.named(named)
    value, hosts = (yield from hosts_of(value)) if named is None else (value, [named])
    changes: dict[str, list[Thing]] = {}
    for name in hosts:
        reading = yield from examining(value, host=name)
        if reading.problems:
            raise Invalid(_told(reading.problems))
        changes[name] = yield from _changes(control.hosts.find(name), reading.document)
    limits = [(name, limits_of(value, name)) for name in hosts]
    has_users = any(value.get(name) for name in LISTS)
    known = [*control.hosts.names, *hosts]
    records = (yield from users_of(value, control.users, known)) if has_users else []
    for name, limit in limits:
        yield from once_gone(partial(control.hosts.add, name))
        if limit is not None:
            yield from once_gone(partial(control.hosts.set_limits, name, limit))
        yield None
        for thing in changes[name]:
            yield from once_gone(partial(_make, control.hosts.named(name), thing))
            yield None
    if has_users:
        yield from set_users(records, control.users)
    return DONE


def _changes(broker: Broker | None, document: Document) -> Walk[list[Thing]]:
    """Return what of a document is to be made in a virtual host; None for one that is to be made itself. Raises
    Inequivalent for a conflict."""
    if broker is None:
        return document.things()
    differences = yield from comparing(document, (yield from _found(broker)))
    conflicts = []
    for one in differences:
        if one.change is Change.CONFLICT:
            conflicts.append(_conflict(one))
        yield None
    if conflicts:
        raise Inequivalent(_told(conflicts))
    # what the document does not have is kept, so there are no other steps
    return [one.thing for one in differences if one.change in (Change.CREATE, Change.CHANGE)]


@operation(
    "users.export",
    "GET",
    "/definitions/users",
    right=Right.ADMINISTER,
    answer=USER_LISTS,
    gives={"permissions": [{"user": "reader", "read": "^orders$"}]},
    is_audited=True,
)
def export_users(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show the users of the broker as definitions have them: with hashes of passwords, and permissions."""
    return Reply(200, {**shown_users(control.users.records())})


@operation(
    "users.import",
    "POST",
    "/definitions/users",
    DOCUMENT,
    right=Right.ADMINISTER,
    example={"document": {"users": [{"name": "made", "password_hash": "", "tags": ["monitoring"]}]}},
)
def import_users(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Make and change the users that a document has; no user is deleted."""
    value = arguments.map("document")
    problems: Sequence[object] = yield from finding_problems(value)
    if problems:
        raise Invalid(_told(problems))
    yield from set_users((yield from users_of(value, control.users)), control.users)
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


OPERATIONS = (export, import_, export_users, import_users)
