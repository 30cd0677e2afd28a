"""``headgate disk``: shows the free disk space, and changes the limit below which publishers wait."""

from typing import Annotated

from cyclopts import App, Parameter

from amqp10.cli.measured import measured, words
from amqp10.cli.printing import AsJson, print_one, tell
from amqp10.cli.remote import DEFAULT_URL, Url
from amqp10.wire.percent import percent_encode

disk_app = App(name="disk", help="Disk space: how much is free, and the limit below which publishers wait.")


@disk_app.command
def status(*, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the free space on the data folder's disk, the limit, and the alarm.

    For example:

        headgate disk status
    """
    print_one(measured(url, "/headgate/disk"), as_json=json)


@disk_app.command(name="set-free-limit")
def set_free_limit(
    limit: Annotated[str, Parameter(help="A number of bytes, a size such as 1GB, or the word mem_relative.")],
    times: Annotated[
        str | None, Parameter(help="After mem_relative: the limit as a multiple of the memory of the machine.")
    ] = None,
    /,
    *,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Set the limit until the broker is restarted.

    For example:

        headgate disk set-free-limit 1GB
        headgate disk set-free-limit mem_relative 1.0
    """
    wanted = words(limit, times)
    now = measured(url, f"/headgate/disk?free_limit={percent_encode(wanted)}", method="PUT")
    text = f"disk free limit is {now['free_limit']}: {now['limit']} bytes, {now['free']} are free"
    tell(text, now, as_json=json)
