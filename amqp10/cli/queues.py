"""``headgate queues``: shows, moves and replays the messages of a queue."""

from collections.abc import Mapping
from datetime import UTC, datetime
from time import sleep
from typing import TYPE_CHECKING

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import Row, print_rows, tell
from amqp10.cli.remote import ask, ask_once, row_of, with_broker

if TYPE_CHECKING:
    from amqp10.blocking.requests import BlockingManagement

PEEKED_COLUMNS = ("sequence", "bytes", "priority", "durable", "delivery_count", "expires_at", "deaths", "body")
POLL_SECONDS = 0.1
"""How long the command waits before it asks again whether a move is done."""


def peek(queue: str, *, count: int, vhost: str | None, json: bool, url: str) -> None:
    """Print the first messages of a queue."""
    answer = ask_once(url, "queues.peek", queue=queue, count=count, vhost=vhost)
    rows = [_readable(row) for row in answer.body] if isinstance(answer.body, list) else []
    print_rows(rows if json else [_in_words(row) for row in rows], PEEKED_COLUMNS, as_json=json)


def move(queue: str, to: str, *, count: int | None, vhost: str | None, json: bool, url: str) -> None:
    """Move messages to another queue, and wait until the move is done."""
    _see_through("queues.move", queue, {"to": to, "count": count}, vhost=vhost, url=url, json=json)


def replay(queue: str, *, count: int | None, vhost: str | None, json: bool, url: str) -> None:
    """Move dead letters back, and wait until the move is done."""
    _see_through("queues.replay", queue, {"count": count}, vhost=vhost, url=url, json=json)


def _see_through(
    operation: str, queue: str, values: Mapping[str, object], *, vhost: str | None, url: str, json: bool
) -> None:
    """Begin a move, wait until it is done, and print the result."""

    def moved_by(broker: "BlockingManagement") -> tuple[object, object]:
        begun = row_of(ask(broker, operation, queue=queue, vhost=vhost, **values))
        while True:
            last = row_of(ask(broker, "rows.show", kind="queues", identity=queue, vhost=vhost)).get("last_move")
            if not isinstance(last, dict):
                raise CommandError(Exit.REFUSED, "the broker does not tell what became of the messages")
            if last.get("number") != begun.get("move"):
                raise CommandError(Exit.REFUSED, f"the move is over, and another out of queue {queue} has begun")
            if last.get("done"):
                return last.get("moved"), last.get("failure")
            sleep(POLL_SECONDS)

    moved, failure = with_broker(url, moved_by)
    shown = {"queue": queue, "moved": moved, "failure": failure or None}
    tell(f"{moved} messages of queue {queue} are moved", shown, as_json=json)
    if failure:
        raise CommandError(Exit.REFUSED, f"it ended there: {failure}")


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
