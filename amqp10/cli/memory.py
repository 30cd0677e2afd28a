"""``headgate memory``: how much is used, and the watermark above which publishers wait."""

from typing import Annotated

from cyclopts import App, Parameter

from amqp10.cli.exits import complain
from amqp10.cli.measured import measured, words
from amqp10.cli.printing import AsJson, print_one, tell
from amqp10.cli.remote import DEFAULT_URL, Url
from amqp10.wire.percent import percent_encode

memory_app = App(name="memory", help="Memory: how much is used, and the watermark above which publishers wait.")


@memory_app.command
def status(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the memory used, the watermark, the limit that it makes, and the alarm.

    For example:

        headgate memory status
    """
    print_one(measured(url, "/headgate/memory"), as_json=json)


@memory_app.command(name="set-watermark")
def set_watermark(
    watermark: Annotated[str, Parameter(help="A share of all memory, from 0 to 1.0; or the word absolute.")],
    size: Annotated[str | None, Parameter(help="Behind absolute: a number of bytes, or a size such as 1GB.")] = None,
    /,
    *,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Set another watermark, until the broker is started again. 0 lets nobody publish.

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
