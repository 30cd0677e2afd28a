"""``headgate links set-credit``: limits the link credit of a publisher, or the unsettled messages of a consumer."""

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import tell
from amqp10.cli.remote import ask_once


def set_credit(link: str, most: int | None, *, reset: bool, json: bool, url: str) -> None:
    """Limit a link, or remove the limit."""
    if reset == (most is not None):
        raise CommandError(Exit.USAGE, "give either a number or --reset")
    if most is not None and most < 1:
        raise CommandError(Exit.USAGE, f"{most}: must be 1 or more; to stop the link: headgate links pause {link}")
    ask_once(url, "links.reset-credit" if most is None else "links.set-credit", link=link, max=most)
    if most is None:
        said = f"link {link} is limited by configuration and policies alone"
    else:
        said = f"link {link} is limited to {most}: link credit of a publisher, unsettled messages of a consumer"
    tell(said, {"link": link, "max": most}, as_json=json)
