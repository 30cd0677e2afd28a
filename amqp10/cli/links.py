"""``headgate links``: lists, shows, pauses, resumes and closes links, and limits their link credit."""

from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.closing import Reason, close_one
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.listing import noun
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.wire.percent import percent_encode

links_app = noun(
    "links",
    columns=(
        "identity",
        "direction",
        "address",
        "link_credit",
        "delivery_count",
        "unconfirmed",
        "waiting",
        "paused",
        "name",
    ),
    help_text=(
        "Links with their link credit, as the broker sees them: the direction is in for the link of a publisher, and"
        " out for the link of a consumer. Pause and resume a link, limit its link credit, close a link."
    ),
)


@links_app.command
def pause(link: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Pause a link. A publisher loses its link credit; a consumer gets no messages for its link credit.

    The client stays attached, and is told the reason "paused". The broker still takes messages that are on their way.
    The pause ends when the link ends.

    For example:

        headgate links pause c17/0/1
    """
    _request(url, "PUT", link, "pause")
    tell(f"link {link} is paused", {"link": link, "paused": True}, as_json=json)


@links_app.command
def resume(link: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """End the pause of a link.

    For example:

        headgate links resume c17/0/1
    """
    _request(url, "DELETE", link, "pause")
    tell(f"link {link} goes on", {"link": link, "paused": False}, as_json=json)


@links_app.command(name="set-credit")
def set_credit(
    link: str,
    most: Annotated[int | None, Parameter(help="The most link credit that the publisher gets, 1 or more.")] = None,
    /,
    *,
    reset: Annotated[
        bool, Parameter(negative="", help="Use the limit of the configuration and the policies again.")
    ] = False,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Limit the link credit of a publisher. Link credit above the limit is taken back.

    The limit ends when the link ends.

    For example:

        headgate links set-credit c17/0/0 10
        headgate links set-credit c17/0/0 --reset
    """
    if reset == (most is not None):
        raise CommandError(Exit.USAGE, "give either a number or --reset")
    if most is None:
        _request(url, "DELETE", link, "credit")
        text = f"link {link} gets as much link credit as configuration and policies say"
        tell(text, {"link": link, "max_link_credit": None}, as_json=json)
        return
    if most < 1:
        raise CommandError(Exit.USAGE, f"{most}: must be 1 or more; to stop the link: headgate links pause {link}")
    _request(url, "PUT", link, f"credit?max={most}")
    tell(f"link {link} gets a link credit of {most} at most", {"link": link, "max_link_credit": most}, as_json=json)


@links_app.command
def close(link: str, /, *, reason: Reason = None, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Detach a link. The client gets the error amqp:link:detach-forced.

    For example:

        headgate links close c17/0/1 --reason "this consumer is stuck"
    """
    close_one(url, "links", link, reason)
    tell(f"link {link} is being closed", {"link": link}, as_json=json)


def _request(url: str, method: str, link: str, rest: str) -> None:
    path = f"/headgate/links/{percent_encode(link)}/{rest}"
    with_broker(url, lambda broker: broker.request(method, path))
