"""``python -m tests.console.screenshots FOLDER [PAGE ...]``: a picture of every page of the console, to look at.

Each page is shown in four looks (a desk and a telephone, light and dark) and three states: with load, where clients
wait; with an alarm; and empty, as a broker shows it that has just been started. The name of a picture is
``STATE-LOOK-NUMBER-PAGE.png``. With names of pages, only those are shown. Errors of the page are printed, and the exit
status is 1 then.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser

from tests.console.test_console import PAGES
from tests.kit.browser import TIME_OUT_MS, Watch, started_browser
from tests.kit.busy_broker import broker_with_console, busy_broker

LOOKS = {
    "desk-light": (1440, 900, "light"),
    "desk-dark": (1440, 900, "dark"),
    "phone-light": (390, 844, "light"),
    "phone-dark": (390, 844, "dark"),
}
SETTLE_MS = 700
"""After the first answer of the broker: a page has drawn its charts by then, also on a busy machine."""


@contextmanager
def under_load(folder: Path) -> Iterator[str]:
    """A broker with clients, two of which wait."""
    with busy_broker(folder) as broker:
        yield broker.admin_url


@contextmanager
def with_alarm(folder: Path) -> Iterator[str]:
    """The same with the memory alarm."""
    with under_load(folder) as url:
        httpx.put(f"{url}/api/headgate/alarms/memory", headers={"x-headgate-request": "1"}).raise_for_status()
        yield url


@contextmanager
def empty(folder: Path) -> Iterator[str]:
    """A broker that has just been started."""
    with broker_with_console(folder) as (_, url):
        yield url


STATES: dict[str, Callable[[Path], object]] = {"load": under_load, "alarm": with_alarm, "empty": empty}


def shoot(browser: Browser, url: str, state: str, folder: Path, pages: Sequence[str]) -> list[str]:
    """Make the pictures of one state. Returns what the pages complained of."""
    complaints: list[str] = []
    for look, (width, height, scheme) in LOOKS.items():
        with browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme) as context:
            context.set_default_timeout(TIME_OUT_MS)
            page = context.new_page()
            watch = Watch(page)
            for number, name in enumerate(pages):
                if state == "empty" and "/" in name and not name.startswith("exchange/"):
                    continue  # there is no such connection, link or queue
                page.goto(f"{url}/#/{name}")
                page.locator("main:not([aria-busy=true])").wait_for()
                page.wait_for_timeout(SETTLE_MS)
                title = re.sub(r"\W+", "-", name)[:24]
                page.screenshot(path=folder / f"{state}-{look}-{number:02}-{title}.png")
            complaints += watch.complaints
    return complaints


def main(words: Sequence[str] | None = None) -> int:
    """Make all pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.console.screenshots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as queues or queue/orders; default: all")
    parser.add_argument("--states", nargs="*", choices=STATES, default=list(STATES), help="default: all")
    given = parser.parse_args(words)
    if unknown := set(given.pages) - set(PAGES):
        parser.error(f"there is no page {', '.join(sorted(unknown))}; there are {', '.join(PAGES)}")
    given.folder.mkdir(parents=True, exist_ok=True)
    complaints: list[str] = []
    with started_browser() as browser:
        for state in given.states:
            with tempfile.TemporaryDirectory(prefix="headgate-shots-") as data, STATES[state](Path(data)) as url:  # type: ignore[attr-defined]
                complaints += shoot(browser, url, state, given.folder, given.pages or list(PAGES))
    for one in complaints:
        print(one)
    print(f"{len(list(given.folder.glob('*.png')))} pictures in {given.folder}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
