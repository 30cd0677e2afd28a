"""Operations on definitions: all of them as one document in RabbitMQ's form, and making what such a document has.

An import makes what is missing and changes policies that differ; it deletes nothing. If a queue or exchange exists with
other properties, that is a conflict, and the import does nothing: the queue would have to be deleted with its messages.
Users are exported and imported with their permissions, for callers that may administer them.
"""

from core.access.user_definitions import set_users, shown_users, users_of
from core.control_plane import BrokerControl
from core.operations.operation import DONE, AnswerField, Arguments, Parameter, Reply, Right, Shape, operation, permits
from core.slices import Walk

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
    from core.operations import definition_documents  # here and not above: an idle broker needs none of it

    value = yield from definition_documents.exported(control, arguments.optional_text("vhost"))
    if control.access is not None and permits(arguments.rights, Right.ADMINISTER):
        value.update(shown_users(control.users.records()))
    return Reply(200, value)


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
    from core.operations import definition_documents

    named = arguments.text("vhost") if "vhost" in arguments.values else None  # RabbitMQ has a path with it
    yield from definition_documents.imported(control, arguments.map("document"), named)
    return DONE


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
    from core.operations import definition_documents

    value = arguments.map("document")
    yield from definition_documents.check(value)
    yield from set_users((yield from users_of(value, control.users)), control.users)
    return DONE


OPERATIONS = (export, import_, export_users, import_users)
