"""``headgate status``: version, process id, listeners, alarms and file descriptors of a broker."""

from amqp10.cli.printing import Row, print_one
from amqp10.cli.remote import ask_once, row_of


def print_status(*, json: bool, url: str) -> None:
    """Print the status of a broker."""
    status = row_of(ask_once(url, "status"))
    print_one(status if json else _brief(status), as_json=json)


def _brief(status: Row) -> Row:
    """The status for a table: listeners as addresses, and only the alarms that are on."""
    brief = dict(status)
    if isinstance(listeners := status.get("listeners"), list):
        brief["listeners"] = " ".join(f"{one['host']}:{one['port']}" for one in listeners)
    if isinstance(alarms := status.get("alarms"), list):
        brief["alarms"] = " ".join(str(one["name"]) for one in alarms if one["on"]) or "none"
    return brief
