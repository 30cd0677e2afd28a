"""``headgate memory``: shows the memory that the broker uses, and changes the memory watermark."""

from typing import Annotated

from cyclopts import App, Parameter

from amqp10.cli.exits import complain
from amqp10.cli.measured import measured, words
from amqp10.cli.printing import AsJson, print_one, tell
from amqp10.cli.remote import DEFAULT_URL, Url
from amqp10.wire.percent import percent_encode

memory_app = App(name="memory", help="Memory: how much the broker uses, and the watermark above which publishers wait.")


@memory_app.command
def status(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the used memory, the watermark, the limit in bytes, and the alarm.

    For example:

        headgate memory status
    """
    print_one(measured(url, "/headgate/memory"), as_json=json)


@memory_app.command(name="set-watermark")
def set_watermark(
    watermark: Annotated[
        str, Parameter(help="A fraction of the memory of the machine, from 0 to 1.0; or the word absolute.")
    ],
    size: Annotated[str | None, Parameter(help="After absolute: a number of bytes, or a size such as 1GB.")] = None,
    /,
    *,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Set the watermark until the broker is restarted. With the watermark 0 all publishers wait.

    For example:

        headgate memory set-watermark 0.4
        headgate memory set-watermark absolute 1GB
    """
    wanted = words(watermark, size)
    now = measured(url, f"/headgate/memory?watermark={percent_encode(wanted)}", method="PUT")
    text = f"memory watermark is {now['watermark']}: the limit is {now['limit']} bytes, {now['used']} are used"
    tell(text, now, as_json=json)
    if now["warning"] is not None:
        complain(str(now["warning"]))
