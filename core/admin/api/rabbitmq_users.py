"""The operations of RabbitMQ's management API on users, permissions and topic permissions.

They are those of :mod:`core.operations.users` with RabbitMQ's paths, names and rows. Tags are a list in answers, and a
text with commas in requests.
"""

from collections.abc import Iterable
from functools import partial

from core.access.records import UserRecord
from core.admin.api.rabbitmq import MADE, MAKES, item_operation, list_operation, operation
from core.admin.api.refusals import not_found
from core.control_plane import BrokerControl
from core.declaring import once_done
from core.interface import Snapshot
from core.operations import users
from core.operations.operation import DONE, NOTHING, Arguments, Handler, Operation, Parameter, Reply, Right, Shape
from core.slices import Walk

LIMIT = "/user-limits/{user}/{limit}"
NAMES = Parameter("users", "The names of users.", "list", required=True)


def _user_row(control: BrokerControl, record: UserRecord) -> Snapshot:
    return {
        "name": record.name,
        "password_hash": "",  # clients need the field; the hash is shown in definitions only
        "tags": list(record.tags),
        "limits": dict(record.limits),
    }


def _users(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    return [_user_row(control, record) for record in users.all_records(control)]


def _user(control: BrokerControl, arguments: Arguments) -> Snapshot:
    return _user_row(control, control.users.record(arguments.text("name")))


def _without_permissions(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    return [_user_row(control, record) for record in users.all_records(control) if not record.permissions]


def _set_user(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    is_new = yield from users.changed_user(control, arguments, arguments.text("name"))
    return MADE if is_new else DONE


def _delete_user(control: BrokerControl, arguments: Arguments) -> Reply:
    control.users.delete(arguments.text("name"))
    return DONE


def _there(arguments: Arguments, rows: Iterable[Snapshot]) -> list[Snapshot]:
    """Those of the virtual host that the path names, if it names one."""
    named = arguments.values.get("vhost")
    return [row for row in rows if named in (None, row["vhost"])]


def _permissions(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    return _there(arguments, (row for record in users.all_records(control) for row in users.permission_rows(record)))


def _permissions_of_user(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    return _there(arguments, users.permission_rows(control.users.record(arguments.text("user"))))


def _permission(control: BrokerControl, arguments: Arguments) -> Snapshot:
    for row in _permissions_of_user(control, arguments):
        return row
    raise not_found(f"user {arguments.text('user')!r} has no permission on {arguments.text('vhost')!r}")


def _set_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    host = arguments.host(control).virtual_host
    is_new = control.users.set_permission(arguments.text("user"), users.permission_of(arguments), host)
    return MADE if is_new else DONE


def _clear_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    control.users.set_permission(arguments.text("user"), None, arguments.host(control).virtual_host)
    return DONE


def _topic_permissions(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    return _there(
        arguments, (row for record in users.all_records(control) for row in users.topic_permission_rows(record))
    )


def _topic_permissions_of_user(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    return _there(arguments, users.topic_permission_rows(control.users.record(arguments.text("user"))))


def _set_topic_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    exchange, host = arguments.text("exchange"), arguments.host(control).virtual_host
    topic = users.topic_permission_of(arguments)
    is_new = control.users.set_topic_permission(arguments.text("user"), exchange, topic, host)
    return MADE if is_new else DONE


def _limits_row(record: UserRecord) -> Snapshot:
    return {"user": record.name, "value": dict(record.limits)}


def _limits(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    return [_limits_row(record) for record in users.all_records(control) if record.limits]


def _limits_of_user(control: BrokerControl, arguments: Arguments) -> list[Snapshot]:
    record = control.users.record(arguments.text("user"))
    return [_limits_row(record)] if record.limits else []


def _delete_many(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    names = [str(name) for name in arguments.list("users")]
    for name in names:
        control.users.record(name)
        control.users.check_changeable(name)
    for name in names:
        yield from once_done(partial(control.users.delete, name))
    return DONE


def _write(
    method: str, path: str, summary: str, handler: Handler, *parameters: Parameter, answer: Shape = NOTHING
) -> Operation:
    return operation(method, path, summary, handler, parameters=parameters, answer=answer, right=Right.ADMINISTER)


OPERATIONS = (
    list_operation("/users", "The users.", _users, Right.ADMINISTER),
    list_operation("/users/without-permissions", "Users without any.", _without_permissions, Right.ADMINISTER),
    item_operation("/users/{name}", "One user.", _user, Right.ADMINISTER),
    _write(
        "PUT",
        "/users/{name}",
        "Make or change a user.",
        _set_user,
        *(users.PASSWORD, users.PASSWORD_HASH, users.HASHING_ALGORITHM, users.USER_TAGS),
        Parameter(
            name="vhost", sentence="Ignored: rabbitmqadmin sends it, and users belong to no virtual host.", ignored=True
        ),
        answer=MAKES,
    ),
    _write("DELETE", "/users/{name}", "Delete a user.", _delete_user),
    _write("POST", "/users/bulk-delete", "Delete users.", _delete_many, NAMES),
    list_operation("/users/{user}/permissions", "A user's.", _permissions_of_user, Right.ADMINISTER),
    list_operation("/users/{user}/topic-permissions", "A user's.", _topic_permissions_of_user, Right.ADMINISTER),
    *(
        list_operation(path, "The permissions.", _permissions, Right.ADMINISTER)
        for path in ("/permissions", "/vhosts/{vhost}/permissions")
    ),
    item_operation("/permissions/{vhost}/{user}", "A user's.", _permission, Right.ADMINISTER),
    _write(
        "PUT",
        "/permissions/{vhost}/{user}",
        "Set what a user may do.",
        _set_permission,
        *(users.CONFIGURE, users.WRITE, users.READ),
        answer=MAKES,
    ),
    _write("DELETE", "/permissions/{vhost}/{user}", "Clear what a user may do.", _clear_permission),
    *(
        list_operation(path, "The topic permissions.", _topic_permissions, Right.ADMINISTER)
        for path in ("/topic-permissions", "/vhosts/{vhost}/topic-permissions")
    ),
    list_operation("/topic-permissions/{vhost}/{user}", "A user's.", _topic_permissions_of_user, Right.ADMINISTER),
    _write(
        "PUT",
        "/topic-permissions/{vhost}/{user}",
        "Restrict a user's keys.",
        _set_topic_permission,
        *(users.EXCHANGE, users.TOPIC_WRITE, users.TOPIC_READ),
        answer=MAKES,
    ),
    _write(
        "DELETE",
        "/topic-permissions/{vhost}/{user}",
        "Remove the restriction of a user's keys.",
        users.clear_topic_permission.handler,
        users.ANY_EXCHANGE,
    ),
    list_operation("/user-limits", "The limits of users.", _limits, Right.ADMINISTER),
    list_operation("/user-limits/{user}", "A user's.", _limits_of_user, Right.ADMINISTER),
    _write("PUT", LIMIT, "Limit what a user may have.", users.set_limit.handler, users.VALUE),
    _write("DELETE", LIMIT, "Remove a limit.", users.clear_limit.handler),
)
