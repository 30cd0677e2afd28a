"""``headgate publish``: the command. What it does is in :mod:`amqp10.cli.publishing`."""

from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.printing import AsJson
from amqp10.cli.remote import DEFAULT_URL, Url


def publish_command(
    address: str,
    /,
    *body: str,
    count: Annotated[int, Parameter(help="Send each message so many times.")] = 1,
    size: Annotated[int | None, Parameter(help="Send a message with a body of so many bytes, instead of BODY.")] = None,
    transient: Annotated[
        bool, Parameter(help="Do not keep the messages across a restart of the broker.", negative=())
    ] = False,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send messages and wait until the broker has accepted all of them.

    Each BODY is one message. Without BODY and --size, every line of standard input is one message. Messages are
    durable: an accepted message is as safe as the type of its queue promises.

    For example:

        headgate publish /queues/orders hello world
        headgate publish /exchanges/amq.topic/orders.new hello
        headgate publish /queues/orders --size 4096 --count 100000
        journalctl -f | headgate publish /queues/log
    """
    from amqp10.cli.publishing import publish  # here and not above: help needs no client

    publish(url, address, body, count=count, size=size, durable=not transient, as_json=json)
