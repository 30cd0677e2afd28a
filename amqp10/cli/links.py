"""``headgate links set-credit``: limits the link credit of a publisher."""

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import tell
from amqp10.cli.remote import ask_once


def set_credit(link: str, most: int | None, *, reset: bool, json: bool, url: str) -> None:
    """Limit the link credit of a link, or remove the limit."""
    if reset == (most is not None):
        raise CommandError(Exit.USAGE, "give either a number or --reset")
    if most is not None and most < 1:
        raise CommandError(Exit.USAGE, f"{most}: must be 1 or more; to stop the link: headgate links pause {link}")
    ask_once(url, "links.reset-credit" if most is None else "links.set-credit", link=link, max=most)
    gets = (
        "as much link credit as configuration and policies say" if most is None else f"a link credit of {most} at most"
    )
    tell(f"link {link} gets {gets}", {"link": link, "max_link_credit": most}, as_json=json)
