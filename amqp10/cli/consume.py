"""``headgate consume``: the command. What it does is in :mod:`amqp10.cli.consuming`."""

from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.remote import DEFAULT_URL, Url

LINK_CREDIT = 200
"""The link credit without --credit, the same as the automatic link credit of the Trio client."""

AsJson = Annotated[
    bool, Parameter(name="--json", negative="", help="Print a JSON object a line: body, properties, annotations.")
]


def consume_command(
    address: str,
    /,
    *,
    count: Annotated[int | None, Parameter(help="End after so many messages.")] = None,
    link_credit: Annotated[int, Parameter(name="--credit", help="The most link credit to give.")] = LINK_CREDIT,
    drain: Annotated[bool, Parameter(negative="", help="End when the queue has no more ready messages.")] = False,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Receive messages, print each body as a line, and accept it.

    Without --count and --drain the command runs until it is interrupted. It accepts a message after printing it, so no
    message is lost.

    For example:

        headgate consume /queues/orders
        headgate consume /queues/orders --count 10 --json
        headgate consume /queues/orders --drain > orders.txt
    """
    from amqp10.cli.consuming import consume  # here and not above: help needs no client

    consume(url, address, count=count, link_credit=link_credit, drain=drain, as_json=json)
