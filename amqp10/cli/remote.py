"""Talking to a running broker on behalf of a command, and the words for everything that can stand in its way."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, TypeVar

import trio
from cyclopts import Parameter

from amqp10.cli.exits import CommandError, Exit, sole_error
from amqp10.client import (
    BadUrl,
    ClientConnection,
    ClientError,
    ClientSettings,
    ConnectionLost,
    LinkClosed,
    NotLetIn,
    RequestRefused,
    TimedOut,
    Unreachable,
    connect,
)
from amqp10.errors import ErrorCondition

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672"
HTTP_NOT_FOUND = 404

Url = Annotated[
    str, Parameter(name="--url", env_var="HEADGATE_URL", help="The broker, as amqp://USER:PASSWORD@HOST:PORT.")
]

Result = TypeVar("Result")


def with_broker(url: str, action: Callable[[ClientConnection], Awaitable[Result]]) -> Result:
    """Connect, do something, close. Raises CommandError for whatever goes wrong on the way."""
    try:
        return trio.run(partial(_connected, url, action))
    except (ClientError, BaseExceptionGroup) as error:
        sole = sole_error(error)
        raise (_explained(sole) if isinstance(sole, ClientError) else sole) from None


async def _connected(url: str, action: Callable[[ClientConnection], Awaitable[Result]]) -> Result:
    async with connect(url, ClientSettings(reconnect=None)) as connection:
        return await action(connection)


def _explained(error: ClientError) -> CommandError:
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
        case LinkClosed(condition=ErrorCondition.NOT_FOUND):
            return CommandError(Exit.NOT_FOUND, f"{error.text}; queues are listed by: headgate queues list")
        case _:
            return CommandError(Exit.REFUSED, str(error))
