"""``headgate queues``."""

from typing import Annotated

from cyclopts import App, Parameter

from amqp10.addresses import percent_encode, queue_address
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.listing import AsJson, Row, fetch_all, fetch_one, print_one, print_rows
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.client import Answer

COLUMNS = ("name", "type", "messages", "messages_ready", "messages_unacknowledged", "consumers", "durable")
COUNTED = ("messages_waiting", "messages_ready", "messages_unacknowledged")
"""Where the messages of a queue can be: taken in but not enqueued yet, ready, with a consumer."""
CREATED = 201

queues_app = App(name="queues", help="Queues: list, show, declare, delete and purge them.")


@queues_app.command(name="list")
def list_(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List all queues.

    For example:

        headgate queues list --json
    """
    print_rows([_with_messages(row) for row in fetch_all(url, "queues")], COLUMNS, as_json=json)


@queues_app.command
def show(name: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show everything about one queue.

    For example:

        headgate queues show orders
    """
    print_one(_with_messages(fetch_one(url, "queues", name)), as_json=json)


@queues_app.command
def declare(
    name: str,
    /,
    *,
    transient: Annotated[bool, Parameter(negative="", help="The queue does not outlive the broker.")] = False,
    auto_delete: Annotated[bool, Parameter(negative="", help="Delete it with its last consumer.")] = False,
    argument: Annotated[tuple[str, ...], Parameter(help="KEY=VALUE; may be given several times.")] = (),
    url: Url = DEFAULT_URL,
) -> None:
    """Make a queue, or find that it exists and is the same.

    For example:

        headgate queues declare orders --argument x-queue-type=classic
    """
    body = {
        "durable": not transient,
        "auto_delete": auto_delete,
        "arguments": dict(_argument(text) for text in argument),
    }
    answer = _request(url, "PUT", _path(name), body)
    print(f"queue {name} {'was made' if answer.status == CREATED else 'exists'}; its address is {queue_address(name)}")


@queues_app.command
def delete(name: str, /, *, url: Url = DEFAULT_URL) -> None:
    """Delete a queue with everything in it. One that does not exist is deleted already.

    For example:

        headgate queues delete orders
    """
    print(f"queue {name} is deleted, and {_count(_request(url, 'DELETE', _path(name)))} messages with it")


@queues_app.command
def purge(name: str, /, *, url: Url = DEFAULT_URL) -> None:
    """Remove the messages of a queue that are ready. Those that a consumer has are not.

    For example:

        headgate queues purge orders
    """
    print(f"{_count(_request(url, 'DELETE', f'{_path(name)}/messages'))} messages of queue {name} are removed")


def _path(name: str) -> str:
    return f"/queues/{percent_encode(name)}"


def _request(url: str, method: str, path: str, body: object = None) -> Answer:
    return with_broker(url, lambda connection: connection.request(method, path, body))


def _count(answer: Answer) -> object:
    return answer.body.get("message_count") if isinstance(answer.body, dict) else None


def _with_messages(row: Row) -> Row:
    counts = [row.get(place) for place in COUNTED]
    return {**row, "messages": sum(count for count in counts if isinstance(count, int))}


def _argument(text: str) -> tuple[str, object]:
    """An argument; a value that reads as a number or as true or false is one."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise CommandError(Exit.USAGE, f"--argument {text}: must be KEY=VALUE")
    if value in ("true", "false"):
        return key, value == "true"
    return key, int(value) if value.removeprefix("-").isdecimal() else value
