"""``headgate alarms``: lists alarms and notices, and raises and clears alarms by hand."""

from amqp10.cli.listing import noun
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.wire.percent import percent_encode

alarms_app = noun(
    "alarms",
    columns=("name", "level", "on", "since", "cause"),
    help_text="Alarms and notices. Publishers wait while an alarm is on. Raise and clear alarms by hand.",
)


@alarms_app.command(name="set")
def set_(name: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Raise an alarm by hand. Publishers wait until the alarm is cleared.

    For example:

        headgate alarms set memory
    """
    with_broker(url, lambda broker: broker.request("PUT", f"/headgate/alarms/{percent_encode(name)}"))
    tell(f"alarm {name} is on", {"alarm": name, "by_hand": True}, as_json=json)


@alarms_app.command
def clear(name: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Clear an alarm that was raised by hand. The alarm stays on while its measured value is beyond the limit.

    For example:

        headgate alarms clear memory
    """
    with_broker(url, lambda broker: broker.request("DELETE", f"/headgate/alarms/{percent_encode(name)}"))
    tell(f"alarm {name} is cleared", {"alarm": name, "by_hand": False}, as_json=json)
