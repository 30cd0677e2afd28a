"""``headgate connections``."""

from typing import Annotated
from urllib.parse import urlencode

from cyclopts import Parameter

from amqp10.addresses import percent_encode
from amqp10.cli.listing import noun
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker

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
    help_text="Who is connected; close a connection.",
)


@connections_app.command
def close(
    identity: str,
    /,
    *,
    reason: Annotated[str | None, Parameter(help="What the client is told.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Close a connection; its client is told that an operator did.

    For example:

        headgate connections close c17 --reason "moving to another machine"
    """
    query = "" if reason is None else f"?{urlencode({'reason': reason})}"
    path = f"/headgate/connections/{percent_encode(identity)}{query}"
    with_broker(url, lambda connection: connection.request("DELETE", path))
    print(f"connection {identity} is being closed")
