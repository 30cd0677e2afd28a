"""How a command asks a running broker, and what it tells the user when the broker cannot be asked.

The client is imported when a command asks: the help of a command, and a command that is mistyped, need none. The client
is the blocking one, because Trio takes 50 ms of CPU to import, a third of what a command may take.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import Parameter

from amqp10.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from amqp10.blocking.connection import BlockingConnection
    from amqp10.blocking.requests import BlockingManagement
    from amqp10.client_core.errors import ClientError

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672"
HTTP_NOT_FOUND = 404

Url = Annotated[
    str, Parameter(name="--url", env_var="HEADGATE_URL", help="The broker, as amqp://USER:PASSWORD@HOST:PORT.")
]

Result = TypeVar("Result")


def with_broker(url: str, action: "Callable[[BlockingManagement], Result]") -> Result:
    """Connect, make requests to the broker's management node, and close. Raises CommandError for every failure."""
    from amqp10.blocking.requests import BlockingManagement

    return with_connection(url, lambda connection: action(BlockingManagement(connection)))


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
        NotLetIn,
        RequestRefused,
        TimedOut,
        Unreachable,
    )
    from amqp10.errors import ErrorCondition

    match error:
        case BadUrl():
            return CommandError(Exit.USAGE, f"{error}; see --url and HEADGATE_URL")
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
