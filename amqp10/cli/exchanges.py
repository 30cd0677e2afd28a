"""``headgate exchanges``: lists, shows, declares and deletes exchanges."""

from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.arguments import Arguments, arguments_of
from amqp10.cli.listing import noun
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.wire.percent import percent_encode

exchanges_app = noun(
    "exchanges",
    columns=("name", "type", "durable", "auto_delete", "internal", "arguments"),
    help_text="Exchanges: list, show, declare and delete exchanges.",
)


@exchanges_app.command
def declare(
    name: str,
    /,
    *,
    type: Annotated[  # noqa: A002 - the option is --type
        str, Parameter(help="direct, fanout, topic, headers or x-local-random.")
    ] = "direct",
    transient: Annotated[
        bool, Parameter(negative="", help="Do not keep the exchange across a restart of the broker.")
    ] = False,
    auto_delete: Annotated[
        bool, Parameter(negative="", help="Delete the exchange when its last binding is deleted.")
    ] = False,
    internal: Annotated[
        bool, Parameter(negative="", help="Only other exchanges may send messages to the exchange.")
    ] = False,
    argument: Arguments = (),
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Declare an exchange. An exchange that exists with the same properties stays as it is.

    For example:

        headgate exchanges declare shop --type topic
    """
    body = {
        "type": type,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": arguments_of(argument),
    }
    with_broker(url, lambda broker: broker.request("PUT", _path(name), body))
    address = f"{_path(name)}/ROUTING-KEY"
    tell(f"exchange {name} is there; its address is {address}", {"exchange": name, "address": address}, as_json=json)


@exchanges_app.command
def delete(name: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Delete an exchange with its bindings. It is no error when the exchange does not exist.

    For example:

        headgate exchanges delete shop
    """
    with_broker(url, lambda broker: broker.request("DELETE", _path(name)))
    tell(f"exchange {name} is deleted", {"exchange": name}, as_json=json)


def _path(name: str) -> str:
    return f"/exchanges/{percent_encode(name)}"
