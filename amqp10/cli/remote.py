"""How a command asks a running broker, and what it tells the user when the broker cannot be asked.

The client is imported when a command asks: the help of a command, and a command that is mistyped, need none. The client
is the blocking one, because Trio takes 50 ms of CPU to import, a third of what a command may take.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import Row
from amqp10.cli.table import table
from amqp10.wire.percent import percent_encode
from core.rows import PAGE_MAX

if TYPE_CHECKING:
    from amqp10.blocking.connection import BlockingConnection
    from amqp10.blocking.requests import BlockingManagement
    from amqp10.client_core.errors import ClientError
    from amqp10.client_core.requests import Answer

HTTP_BAD_REQUEST = 400
HTTP_NOT_FOUND = 404

Result = TypeVar("Result")


def with_broker(url: str, action: "Callable[[BlockingManagement], Result]") -> Result:
    """Connect, make requests to the broker's management node, and close. Raises CommandError for every failure."""
    from amqp10.blocking.requests import BlockingManagement

    return with_connection(url, lambda connection: action(BlockingManagement(connection)))


def ask_once(url: str, operation: str, **values: object) -> "Answer":
    """Connect, request an operation, and close. Raises CommandError."""
    return with_broker(url, lambda broker: ask(broker, operation, **values))


def ask(broker: "BlockingManagement", operation: str, **values: object) -> "Answer":
    """Request an operation of the table, or a method and path, with these values of its parameters. One that is None is
    not sent. The values that the path does not have are in the query, or all in the body if one is a map. Raises
    ClientError."""
    method, pattern = _method_and_path(operation)
    rest = {name: value for name, value in values.items() if value is not None and f"{{{name}}}" not in pattern}
    path = path_of(operation, values)
    if any(isinstance(value, dict) for value in rest.values()):
        return broker.request(method, path, rest)
    query = "&".join(f"{name}={percent_encode(_in_query(value))}" for name, value in rest.items())
    return broker.request(method, f"{path}?{query}" if query else path)


def path_of(operation: str, values: Mapping[str, object]) -> str:
    """The path of a request with these values."""
    _, pattern = _method_and_path(operation)
    return pattern.format_map({name: percent_encode(str(value)) for name, value in values.items()})


def _method_and_path(operation: str) -> tuple[str, str]:
    method, _, pattern = table()["operations"].get(operation, operation).partition(" ")
    return method, pattern


def _in_query(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def pages(broker: "BlockingManagement", kind: str, vhost: str | None = None) -> list[Row]:
    """All rows of a kind, requested page by page over an open connection."""
    from amqp10.client_core.errors import RequestRefused

    rows: list[Row] = []
    limit, after = PAGE_MAX, None
    while True:
        try:
            page = row_of(ask(broker, "rows.list", kind=kind, limit=limit, after=after, vhost=vhost))
        except RequestRefused as refused:
            if refused.status != HTTP_BAD_REQUEST or limit == 1:
                raise
            limit //= 2  # these rows are large, and a page has a limit in bytes too
            continue
        items = page.get("items")
        rows += items if isinstance(items, list) else []
        after = page.get("next")
        if after is None:
            return rows


def row_of(answer: "Answer") -> Row:
    """The fields of an answer that is a map. Raises CommandError for any other answer."""
    if not isinstance(answer.body, dict):
        raise CommandError(Exit.REFUSED, "the broker's answer is not understood; is it a Headgate of another version?")
    return {str(key): item for key, item in answer.body.items()}


def with_connection(url: str, action: "Callable[[BlockingConnection], Result]", *, link: str = "a link") -> Result:
    """Connect, do something, and close. Raises CommandError for every failure; ``link`` names the link that ``action``
    opens."""
    from amqp10.blocking.connection import BlockingConnection
    from amqp10.client_core.errors import ClientError
    from amqp10.client_core.url import Url as BrokerUrl

    try:
        with BlockingConnection.open(BrokerUrl.parse(url)) as connection:
            return action(connection)
    except ClientError as error:
        raise _explained(error, link) from None


def _explained(error: "ClientError", link: str) -> CommandError:
    from amqp10.client_core.errors import (
        BadUrl,
        ConnectionLost,
        LinkRefused,
        NotEncrypted,
        NotLetIn,
        RequestRefused,
        TimedOut,
        Unreachable,
    )
    from amqp10.errors import ErrorCondition

    match error:
        case BadUrl():
            return CommandError(Exit.USAGE, f"{error}; see --url and HEADGATE_URL")
        case NotEncrypted():
            return CommandError(Exit.UNREACHABLE, str(error))
        case Unreachable():
            return CommandError(Exit.UNREACHABLE, f"{error}; is the broker running? Start it with: headgate serve")
        case NotLetIn():
            return CommandError(Exit.NOT_LET_IN, f"{error}; check user and password in --url or HEADGATE_URL")
        case TimedOut():
            return CommandError(Exit.TIMED_OUT, str(error))
        case ConnectionLost():
            return CommandError(Exit.UNREACHABLE, str(error))
        case RequestRefused(status=status):
            return CommandError(Exit.NOT_FOUND if status == HTTP_NOT_FOUND else Exit.REFUSED, error.text)
        case LinkRefused(condition=condition, description=description):
            text = f"the broker closed {link}" + (f": {description}" if description else "")
            if condition == ErrorCondition.NOT_FOUND:
                return CommandError(Exit.NOT_FOUND, f"{text}; queues are listed by: headgate queues list")
            return CommandError(Exit.REFUSED, text if condition is None else f"{text} ({condition})")
        case _:
            return CommandError(Exit.REFUSED, str(error))
