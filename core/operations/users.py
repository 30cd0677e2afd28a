"""Operations on users: make, change and delete them, and what each may do on virtual hosts.

Only users of the broker can be changed. Users in the configuration file have all rights; they are shown, and changed in
the file. Every change applies at once, also to open connections.
"""

from dataclasses import replace
from typing import Literal

from core.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, MAX_LINKS, USER_LIMIT_MAX, USER_LIMITS
from core.access.login import NewPassword
from core.access.records import Secret, UserRecord, parse_secret
from core.access.rights import TAGS, AccessKind, Permission, TopicPermission
from core.control_plane import BrokerControl
from core.declaring import once_gone
from core.errors import Invalid
from core.interface import Snapshot
from core.operations.operation import DONE, VHOST, AnswerField, Arguments, Parameter, Reply, Right, Shape, operation
from core.slices import Walk

USER = Parameter("user", "The user's name.", in_path=True)
PASSWORD = Parameter("password", "The new password. Without it and ``password_hash``, the password stays.", secret=True)
PASSWORD_HASH = Parameter(
    "password_hash", "Instead of ``password``: its hash as in definitions. An empty one forbids logins.", secret=True
)
HASHING_ALGORITHM = Parameter(
    "hashing_algorithm", "The kind of ``password_hash``.", default="rabbit_password_hashing_sha256"
)
USER_TAGS = Parameter(
    "tags", f"The tags, with commas between them: {', '.join(TAGS)}, or others. Without it, the tags stay."
)
CONFIGURE = Parameter(
    "configure", "A pattern: queues and exchanges that the user may declare and delete.", required=True
)
WRITE = Parameter("write", "A pattern: exchanges that the user may publish to, and bind others to.", required=True)
READ = Parameter("read", "A pattern: queues that the user may consume from, and exchanges to bind.", required=True)
EXCHANGE = Parameter("exchange", "The name of a topic exchange.", required=True)
ANY_EXCHANGE = Parameter("exchange", "The topic exchange; without it all.")
TOPIC_WRITE = Parameter("write", "A pattern: routing keys with which the user may publish.", required=True)
TOPIC_READ = Parameter("read", "A pattern: binding keys that the user may use.", required=True)
NAME = Parameter("name", "The name of a queue or an exchange; ``amq.default`` for the default exchange.", required=True)
KEY = Parameter("key", "A routing key or binding key, if ``name`` is a topic exchange.")
ACCESS_KINDS: tuple[AccessKind, ...] = ("configure", "write", "read")
TOPIC_KINDS: tuple[Literal["write", "read"], ...] = ("write", "read")
LIMIT = Parameter("limit", "The limit.", in_path=True, choices=USER_LIMITS)
VALUE = Parameter(
    "value", "The most that the user may have; -1 for no limit.", "number", required=True, low=-1, high=USER_LIMIT_MAX
)
WAY = (
    AnswerField("name", "text", "The name."),
    AnswerField("tags", "list", "The tags."),
    AnswerField("place", "text", "``broker``, ``file`` (the configuration file), or ``default`` for guest."),
    AnswerField("password", "text", "``scram``, ``rabbitmq`` for a hash of RabbitMQ, or ``none``."),
    AnswerField("limits", "map", "The limits on connections, channels, links and publishing."),
)


def _rows(*fields: AnswerField) -> Shape:
    """The shape of rows that each belong to one user."""
    return Shape("rows", (AnswerField("user", "text", "The user."), *fields))


ON_VHOST = AnswerField("vhost", "text", "The virtual host.")
PERMISSIONS = _rows(
    ON_VHOST,
    AnswerField("configure", "text", "The pattern of names to declare and delete."),
    AnswerField("write", "text", "The pattern of names to publish to."),
    AnswerField("read", "text", "The pattern of names to read from."),
)
TOPIC_PERMISSIONS = _rows(
    ON_VHOST,
    AnswerField("exchange", "text", "The topic exchange."),
    AnswerField("write", "text", "The pattern of routing keys."),
    AnswerField("read", "text", "The pattern of binding keys."),
)
ALLOWED = Shape(
    "map",
    (
        AnswerField("user", "text", "The user."),
        ON_VHOST,
        AnswerField("name", "text", "The name."),
        AnswerField("configure", "flag", "Whether the user may declare and delete it."),
        AnswerField("write", "flag", "Whether the user may publish to it, with the key if one is given."),
        AnswerField("read", "flag", "Whether the user may consume from it, or bind it with the key if one is given."),
        AnswerField("refusal", "text", "Why the user may not use the virtual host; null if the user may."),
    ),
)
USER_LIMITS_ROWS = _rows(
    AnswerField("limit", "text", "The name of the limit, for example ``max-connections``."),
    AnswerField("value", "number", "The most that the user may have, or may publish in a second."),
    AnswerField("used", "number", "How many the user has now; null for what is published in a second."),
)


def all_records(control: BrokerControl) -> list[UserRecord]:
    """Return the records of all users, by name."""
    return [control.users.record(name) for name in sorted(control.users.names)]


def user_row(control: BrokerControl, record: UserRecord) -> Snapshot:
    """Return the row of a user."""
    users, name = control.users, record.name
    place = "broker" if users.is_own(name) else "file" if users.in_file(name) else "default"
    password = record.password_kind if place == "broker" else "scram"
    shown = {"name": name, "tags": list(record.tags), "place": place, "password": password}
    return {**shown, "limits": dict(record.limits)}


def permission_rows(record: UserRecord) -> list[Snapshot]:
    """Return the rows of a user's permissions."""
    return [
        {"user": record.name, "vhost": host, "configure": one.configure, "write": one.write, "read": one.read}
        for host, one in record.permissions.items()
    ]


def topic_permission_rows(record: UserRecord) -> list[Snapshot]:
    """Return the rows of a user's topic permissions."""
    return [
        {"user": record.name, "vhost": host, "exchange": exchange, "write": one.write, "read": one.read}
        for host, topics in record.topics.items()
        for exchange, one in sorted(topics.items())
    ]


def changed_user(control: BrokerControl, arguments: Arguments, name: str) -> Walk[bool]:
    """Make or change the user that the parameters describe. Returns whether it is new. Raises Invalid,
    PreconditionFailed, LimitReached."""
    users = control.users
    users.check_changeable(name)
    password, text = arguments.optional_text("password"), arguments.optional_text("password_hash")
    if password is not None and text is not None:
        raise Invalid("either password or password_hash can be given")
    tags = arguments.optional_text("tags")
    own = UserRecord(name=name) if tags is None else UserRecord(name=name, tags=split_tags(tags))
    own.check()
    secret: Secret | None = None
    if password is not None:
        secret = yield from NewPassword(control.logins, password).hashing()
    elif text is not None:
        secret = parse_secret(text, arguments.text("hashing_algorithm"))
    record = users.record(name) if users.is_own(name) else own
    if tags is not None:
        record = replace(record, tags=own.tags)
    if password is not None or text is not None:
        record = replace(record, secret=secret)
    is_new = not users.is_own(name)
    yield from once_gone(lambda: users.set(record))
    return is_new


def split_tags(text: str) -> tuple[str, ...]:
    """Return the tags of a text that has commas between them."""
    return tuple(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))


@operation(
    "users.list",
    "GET",
    "/users",
    right=Right.ADMINISTER,
    answer=Shape("rows", WAY),
    gives=[{"name": "guest", "place": "default"}],
)
def list_users(control: BrokerControl, arguments: Arguments) -> Reply:
    """List the users and their tags."""
    return Reply(200, [user_row(control, record) for record in all_records(control)])


@operation(
    "users.show",
    "GET",
    "/users/{user}",
    USER,
    right=Right.ADMINISTER,
    answer=Shape("map", WAY),
    example={"user": "reader"},
    gives={"name": "reader", "tags": ["management"]},
)
def show_user(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show one user."""
    return Reply(200, user_row(control, control.users.record(arguments.text("user"))))


@operation(
    "users.set",
    "PUT",
    "/users/{user}",
    *(USER, PASSWORD, PASSWORD_HASH, HASHING_ALGORITHM, USER_TAGS),
    right=Right.ADMINISTER,
    example={"user": "writer", "password": "a password of the writer", "tags": "management"},
)
def set_user(control: BrokerControl, arguments: Arguments) -> Walk[Reply]:
    """Make a user, or change the password or the tags of one."""
    yield from changed_user(control, arguments, arguments.text("user"))
    return DONE


@operation("users.delete", "DELETE", "/users/{user}", USER, right=Right.ADMINISTER, example={"user": "reader"})
def delete_user(control: BrokerControl, arguments: Arguments) -> Reply:
    """Delete a user; the user's connections are closed."""
    control.users.delete(arguments.text("user"))
    return DONE


@operation(
    "permissions.list",
    "GET",
    "/permissions",
    right=Right.ADMINISTER,
    answer=PERMISSIONS,
    gives=[{"user": "guest", "read": ".*"}],
)
def list_permissions(control: BrokerControl, arguments: Arguments) -> Reply:
    """List the permissions of all users."""
    return Reply(200, [row for record in all_records(control) for row in permission_rows(record)])


@operation(
    "permissions.check",
    "GET",
    "/permissions/{user}",
    *(USER, NAME, KEY, VHOST),
    right=Right.ADMINISTER,
    answer=ALLOWED,
    example={"user": "reader", "name": "orders"},
    gives={"user": "reader", "name": "orders"},
)
def check_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show what a user may do with a queue or an exchange, which need not exist."""
    user = control.users.record(arguments.text("user")).name
    rights = control.users.rights_of(user, arguments.host(control).virtual_host)
    name, key = arguments.text("name"), arguments.optional_text("key")
    allowed: dict[str, bool] = {what: rights.may(what, name) for what in ACCESS_KINDS}
    if key is not None:
        allowed |= {what: allowed[what] and rights.may_use_topic(what, name, key) for what in TOPIC_KINDS}
    of = {"user": user, "vhost": rights.virtual_host, "name": name}
    return Reply(200, {**of, **allowed, "refusal": rights.refusal()})


@operation(
    "permissions.set",
    "PUT",
    "/permissions/{user}",
    *(USER, CONFIGURE, WRITE, READ, VHOST),
    right=Right.ADMINISTER,
    example={"user": "reader", "configure": "", "write": "", "read": "^orders$"},
)
def set_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    """Set what a user may configure, write to and read from; an empty pattern allows nothing."""
    host = arguments.host(control).virtual_host
    control.users.set_permission(arguments.text("user"), permission_of(arguments), host)
    return DONE


def permission_of(arguments: Arguments) -> Permission:
    """Return the permission that the parameters describe."""
    return Permission(configure=arguments.text("configure"), write=arguments.text("write"), read=arguments.text("read"))


@operation(
    "permissions.clear",
    "DELETE",
    "/permissions/{user}",
    USER,
    VHOST,
    right=Right.ADMINISTER,
    example={"user": "reader"},
)
def clear_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    """Take the virtual host from a user; the user's connections are closed."""
    host = arguments.host(control).virtual_host
    control.users.set_permission(arguments.text("user"), None, host)
    return DONE


@operation(
    "topic-permissions.list",
    "GET",
    "/topic-permissions",
    right=Right.ADMINISTER,
    answer=TOPIC_PERMISSIONS,
    gives=[],
)
def list_topic_permissions(control: BrokerControl, arguments: Arguments) -> Reply:
    """List the topic permissions of all users."""
    return Reply(200, [row for record in all_records(control) for row in topic_permission_rows(record)])


@operation(
    "topic-permissions.set",
    "PUT",
    "/topic-permissions/{user}",
    *(USER, EXCHANGE, TOPIC_WRITE, TOPIC_READ, VHOST),
    right=Right.ADMINISTER,
    example={"user": "reader", "exchange": "amq.topic", "write": "", "read": "^{username}\\."},
)
def set_topic_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    """Restrict the keys with which a user may publish to a topic exchange, and bind to it."""
    host = arguments.host(control).virtual_host
    exchange = arguments.text("exchange")
    control.users.set_topic_permission(arguments.text("user"), exchange, topic_permission_of(arguments), host)
    return DONE


def topic_permission_of(arguments: Arguments) -> TopicPermission:
    """Return the topic permission that the parameters describe."""
    return TopicPermission(write=arguments.text("write"), read=arguments.text("read"))


@operation(
    "topic-permissions.clear",
    "DELETE",
    "/topic-permissions/{user}",
    *(USER, ANY_EXCHANGE, VHOST),
    right=Right.ADMINISTER,
    example={"user": "reader"},
)
def clear_topic_permission(control: BrokerControl, arguments: Arguments) -> Reply:
    """Remove the restriction of a user's keys."""
    host = arguments.host(control).virtual_host
    control.users.set_topic_permission(arguments.text("user"), arguments.optional_text("exchange"), None, host)
    return DONE


@operation(
    "user-limits.list",
    "GET",
    "/user-limits",
    right=Right.ADMINISTER,
    answer=USER_LIMITS_ROWS,
    gives=[],
)
def list_limits(control: BrokerControl, arguments: Arguments) -> Reply:
    """List the limits of users, and how much of them is used."""
    return Reply(200, [row for record in all_records(control) for row in limit_rows(control, record)])


def limit_rows(control: BrokerControl, record: UserRecord) -> list[Snapshot]:
    """Return the rows of a user's limits."""
    limits = control.users.rights_of(record.name).limits
    used = {MAX_CONNECTIONS: limits.connections, MAX_CHANNELS: limits.channels, MAX_LINKS: limits.links}
    return [
        {"user": record.name, "limit": name, "value": value, "used": used.get(name)}
        for name, value in sorted(record.limits.items())
    ]


@operation(
    "user-limits.set",
    "PUT",
    "/user-limits/{user}/{limit}",
    *(USER, LIMIT, VALUE),
    right=Right.ADMINISTER,
    example={"user": "reader", "limit": "max-connections", "value": 10},
)
def set_limit(control: BrokerControl, arguments: Arguments) -> Reply:
    """Limit the connections, the channels and sessions, or the links that a user may have, or how many messages or
    bytes a second the user may publish over AMQP 1.0; what is open stays. Its publisher-weight, from 1 to 100, says how
    many times the share of others its links have of a busy target, with adaptive flow control."""
    value = arguments.number("value")
    control.users.set_limit(arguments.text("user"), arguments.text("limit"), None if value < 0 else value)
    return DONE


@operation(
    "user-limits.clear",
    "DELETE",
    "/user-limits/{user}/{limit}",
    *(USER, LIMIT),
    right=Right.ADMINISTER,
    example={"user": "reader", "limit": "max-connections"},
)
def clear_limit(control: BrokerControl, arguments: Arguments) -> Reply:
    """Remove a limit of a user."""
    control.users.set_limit(arguments.text("user"), arguments.text("limit"), None)
    return DONE


OPERATIONS = (
    *(list_users, show_user, set_user, delete_user),
    *(list_permissions, check_permission, set_permission, clear_permission),
    *(list_topic_permissions, set_topic_permission, clear_topic_permission),
    *(list_limits, set_limit, clear_limit),
)
