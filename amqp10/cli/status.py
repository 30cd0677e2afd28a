"""``headgate status``: version, process id, listeners, alarms and file descriptors of a broker."""

from amqp10.cli.printing import AsJson, Row, print_one
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker


def status_command(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show version, process id, listeners, alarms that are on, and file descriptors.

    For example:

        headgate status --json
    """
    status = with_broker(url, lambda broker: broker.request("GET", "/headgate/status").body)
    row: Row = status if isinstance(status, dict) else {}
    print_one(row if json else _brief(row), as_json=json)


def _brief(status: Row) -> Row:
    """The status for a table: listeners as addresses, and only the alarms that are on."""
    brief = dict(status)
    if isinstance(listeners := status.get("listeners"), list):
        brief["listeners"] = " ".join(f"{one['host']}:{one['port']}" for one in listeners)
    if isinstance(alarms := status.get("alarms"), list):
        brief["alarms"] = " ".join(str(one["name"]) for one in alarms if one["on"]) or "none"
    return brief
