"""Closing one thing of a running broker, for the nouns that can be closed."""

from typing import Annotated
from urllib.parse import urlencode

from cyclopts import Parameter

from amqp10.cli.remote import with_broker
from amqp10.wire.percent import percent_encode

Reason = Annotated[str | None, Parameter(help="What the client is told.")]


def close_one(url: str, kind: str, identity: str, reason: str | None) -> None:
    """Have one of the connections, sessions or links closed. Raises CommandError when there is none."""
    query = "" if reason is None else f"?{urlencode({'reason': reason})}"
    path = f"/headgate/{kind}/{percent_encode(identity)}{query}"
    with_broker(url, lambda broker: broker.request("DELETE", path))
