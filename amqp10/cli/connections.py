"""``headgate connections``: lists, shows and closes the connections of clients."""

from amqp10.cli.closing import Reason, close_one
from amqp10.cli.listing import noun
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url

connections_app = noun(
    "connections",
    columns=(
        "identity",
        "protocol",
        "peer",
        "container_id",
        "user",
        "state",
        "sessions",
        "links",
        "channels",
        "unsent_bytes",
    ),
    help_text="Connections: list and show the connections of clients; close a connection.",
)


@connections_app.command
def close(identity: str, /, *, reason: Reason = None, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Close a connection. The client is told that an operator has closed it.

    For example:

        headgate connections close c17 --reason "moving to another machine"
    """
    close_one(url, "connections", identity, reason)
    tell(f"connection {identity} is being closed", {"connection": identity}, as_json=json)
