"""``headgate queues``: lists, shows, declares and deletes queues; shows, moves and removes their messages."""

from datetime import UTC, datetime
from time import sleep
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from amqp10.cli.arguments import Arguments, arguments_of
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.listing import fetch_all, fetch_one
from amqp10.cli.printing import AsJson, Row, print_one, print_rows, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.wire.percent import percent_encode

if TYPE_CHECKING:
    from amqp10.blocking.requests import BlockingManagement
    from amqp10.client_core.requests import Answer

COLUMNS = (
    "name",
    "type",
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "oldest_ready_seconds",
    "consumers",
    "durable",
)
COUNTED = ("messages_waiting", "messages_ready", "messages_unacknowledged")
"""The fields that count the messages of a queue: accepted but not enqueued yet, ready, delivered but not settled."""
PEEKED_COLUMNS = ("sequence", "bytes", "priority", "durable", "delivery_count", "expires_at", "deaths", "body")
CREATED = 201
POLL_SECONDS = 0.1
"""How long the command waits before it asks again whether a move is done."""

Count = Annotated[int | None, Parameter(help="The most messages to move. Without it: all messages that are ready now.")]

queues_app = App(
    name="queues", help="Queues: list, show, declare, delete and purge queues; look at messages, move messages."
)


@queues_app.command(name="list")
def list_(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List all queues.

    For example:

        headgate queues list --json
    """
    print_rows([_with_messages(row) for row in fetch_all(url, "queues")], COLUMNS, as_json=json)


@queues_app.command
def show(name: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show all fields of one queue.

    For example:

        headgate queues show orders
    """
    print_one(_with_messages(fetch_one(url, "queues", name)), as_json=json)


@queues_app.command
def declare(
    name: str,
    /,
    *,
    transient: Annotated[
        bool, Parameter(negative="", help="Do not keep the queue across a restart of the broker.")
    ] = False,
    auto_delete: Annotated[
        bool, Parameter(negative="", help="Delete the queue when its last consumer leaves.")
    ] = False,
    argument: Arguments = (),
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Declare a queue. A queue that exists with the same properties stays as it is.

    For example:

        headgate queues declare orders --argument x-queue-type=classic
    """
    body = {
        "durable": not transient,
        "auto_delete": auto_delete,
        "arguments": arguments_of(argument),
    }
    answer = _request(url, "PUT", _path(name), body)
    made, address = answer.status == CREATED, _path(name)  # the address of a queue is also its path
    text = f"queue {name} {'was made' if made else 'exists'}; its address is {address}"
    tell(text, {"queue": name, "made": made, "address": address}, as_json=json)


@queues_app.command
def delete(name: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Delete a queue with all its messages. It is no error when the queue does not exist.

    For example:

        headgate queues delete orders
    """
    count = _count(_request(url, "DELETE", _path(name)))
    tell(f"queue {name} is deleted, and {count} messages with it", {"queue": name, "deleted": count}, as_json=json)


@queues_app.command
def purge(name: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Remove all ready messages of a queue. Messages that were delivered to a consumer are not removed.

    For example:

        headgate queues purge orders
    """
    count = _count(_request(url, "DELETE", f"{_path(name)}/messages"))
    tell(f"{count} messages of queue {name} are removed", {"queue": name, "purged": count}, as_json=json)


@queues_app.command
def peek(
    name: str,
    /,
    *,
    count: Annotated[int, Parameter(help="How many messages to show, from 1 to 100.")] = 10,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the first messages of a queue. The queue is not changed.

    The first 256 bytes of each body are shown.

    For example:

        headgate queues peek orders --count 3
        headgate queues peek orders --json
    """
    answer = _request(url, "GET", f"/headgate{_path(name)}/messages?count={count}")
    rows = [_readable(row) for row in answer.body] if isinstance(answer.body, list) else []
    print_rows(rows if json else [_in_words(row) for row in rows], PEEKED_COLUMNS, as_json=json)


@queues_app.command
def move(source: str, target: str, /, *, count: Count = None, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Move messages from one queue to another, the oldest first, and wait until the move is done.

    A message stays in its queue until the other queue has confirmed it. A message that the other queue refuses ends the
    move. A move goes on in the broker when the command is interrupted.

    For example:

        headgate queues move orders orders-of-old
        headgate queues move orders orders-of-old --count 100
    """
    _move(url, source, f"move?to={percent_encode(target)}{_counted('&', count)}", json=json)


@queues_app.command
def replay(name: str, /, *, count: Count = None, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Move dead letters back, each to the queue in which it first became a dead letter, and wait for the end.

    For example:

        headgate queues replay dead-letters
        headgate queues replay dead-letters --count 1
    """
    _move(url, name, f"replay{_counted('?', count)}", json=json)


def _move(url: str, source: str, request: str, *, json: bool) -> None:
    """Begin a move, wait until it is done, and print the result."""

    def see_through(broker: "BlockingManagement") -> tuple[object, object]:
        path = f"/headgate{_path(source)}"
        begun = broker.request("PUT", f"{path}/{request}").body
        while True:
            shown = broker.request("GET", path).body
            last = shown.get("last_move") if isinstance(shown, dict) else None
            if not isinstance(begun, dict) or not isinstance(last, dict):
                raise CommandError(Exit.REFUSED, "the broker does not tell what became of the messages")
            if last.get("number") != begun.get("move"):
                raise CommandError(Exit.REFUSED, f"the move is over, and another out of queue {source} has begun")
            if last.get("done"):
                return last.get("moved"), last.get("failure")
            sleep(POLL_SECONDS)

    moved, failure = with_broker(url, see_through)
    shown = {"queue": source, "moved": moved, "failure": failure or None}
    tell(f"{moved} messages of queue {source} are moved", shown, as_json=json)
    if failure:
        raise CommandError(Exit.REFUSED, f"it ended there: {failure}")


def _counted(separator: str, count: int | None) -> str:
    return "" if count is None else f"{separator}count={count}"


def _readable(row: object) -> Row:
    """The row of a message, with the body as text."""
    message = dict(row) if isinstance(row, dict) else {}
    body = message.get("body")
    return {**message, "body": body.decode(errors="backslashreplace") if isinstance(body, bytes) else body}


def _in_words(row: Row) -> Row:
    """The row of a message for a table: times and dead letters as text."""
    expires_at, deaths = row.get("expires_at"), row.get("deaths")
    told = [
        f"{death.get('queue')} {death.get('reason')} {death.get('count')}x"
        for death in (deaths if isinstance(deaths, list) else [])
        if isinstance(death, dict)
    ]
    if isinstance(expires_at, int | float):
        expires_at = datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="seconds")
    return {**row, "expires_at": expires_at, "deaths": ", ".join(told) or None}


def _path(name: str) -> str:
    return f"/queues/{percent_encode(name)}"


def _request(url: str, method: str, path: str, body: object = None) -> "Answer":
    return with_broker(url, lambda broker: broker.request(method, path, body))


def _count(answer: "Answer") -> object:
    return answer.body.get("message_count") if isinstance(answer.body, dict) else None


def _with_messages(row: Row) -> Row:
    counts = [row.get(place) for place in COUNTED]
    return {**row, "messages": sum(count for count in counts if isinstance(count, int))}
