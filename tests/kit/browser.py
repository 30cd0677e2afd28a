"""Debian's Chromium, driven by Playwright, and a record of what it did."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",  # tests may run as root, in a container
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIME_OUT_MS = 8000
"""How long a page may take: far more than any step needs, also beside other programs."""


@contextmanager
def started_browser() -> Iterator[Browser]:
    """A browser without a window, with a fresh profile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watch:
    """A record of a page: the URLs that it requested, its errors, and its dialogs."""

    def __init__(self, page: Page) -> None:
        self.urls: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self._context = page.context
        self._context.on("request", self._requested)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._said)
        page.on("dialog", self._asked)

    def end(self) -> None:
        """Record no further requests: the context of the page is one for many tests."""
        self._context.remove_listener("request", self._requested)

    def _requested(self, request: Request) -> None:
        self.urls.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def _asked(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()
