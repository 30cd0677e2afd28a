"""``headgate sessions``: lists, shows and closes sessions of AMQP 1.0."""

from amqp10.cli.closing import Reason, close_one
from amqp10.cli.listing import noun
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url

sessions_app = noun(
    "sessions",
    columns=("identity", "links", "incoming_window", "remote_incoming_window", "unsettled_in", "unsettled_out"),
    help_text="Sessions of AMQP 1.0 with their windows, as the broker sees them; close a session.",
)


@sessions_app.command
def close(session: str, /, *, reason: Reason = None, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """End a session with all its links. The client gets the error amqp:link:detach-forced.

    For example:

        headgate sessions close c17/0 --reason "this consumer is stuck"
    """
    close_one(url, "sessions", session, reason)
    tell(f"session {session} is being closed", {"session": session}, as_json=json)
