"""A browser, and a broker with rows to show, for the tests of one module.

Playwright's event loop occupies this thread as long as it runs, so it ends with the module: tests of other modules have
loops of their own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.kit.browser import CHROMIUM, TIME_OUT_MS, Watch, started_browser
from tests.kit.busy_broker import BusyBroker, busy_broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests where no browser is installed."""
    if CHROMIUM is None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="chromium is not installed (see .ci/packages)"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusyBroker]:
    """A broker with two links that wait, one in each direction."""
    with busy_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, which is thrown away."""
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Page]:
    """An empty tab that keeps a browser context and its window open: to open them takes half of the CPU of a test.
    Nothing moves in the context: drawing what does takes CPU all the time."""
    size = ViewportSize(width=1440, height=900)
    with browser.new_context(viewport=size, color_scheme="light", reduced_motion="reduce") as context:
        context.set_default_timeout(TIME_OUT_MS)
        yield context.new_page()


@pytest.fixture
def context(window: Page) -> Iterator[BrowserContext]:
    """A browser context without cookies and storage."""
    yield window.context
    forget(window)


def forget(window: Page) -> None:
    """Close the other tabs of the window, and have its context lose its cookies and storage."""
    for page in window.context.pages:
        if page.url.startswith("http"):  # an origin, which has a storage
            page.evaluate("localStorage.clear()")
        if page is not window:
            page.close()
    window.context.clear_cookies()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A tab of the browser."""
    return context.new_page()


@pytest.fixture
def watch(page: Page) -> Iterator[Watch]:
    """A record of the page. A test must ask for it before it opens the first page."""
    watch = Watch(page)
    yield watch
    watch.end()
