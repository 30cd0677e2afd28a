"""Closes a connection, a session or a link of a running broker."""

from typing import Annotated
from urllib.parse import urlencode

from cyclopts import Parameter

from amqp10.cli.remote import with_broker
from amqp10.wire.percent import percent_encode

Reason = Annotated[str | None, Parameter(help="The reason that the broker sends to the client.")]


def close_one(url: str, kind: str, identity: str, reason: str | None) -> None:
    """Close a connection, session or link. Raises CommandError when it does not exist."""
    query = "" if reason is None else f"?{urlencode({'reason': reason})}"
    path = f"/headgate/{kind}/{percent_encode(identity)}{query}"
    with_broker(url, lambda broker: broker.request("DELETE", path))
