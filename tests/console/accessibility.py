"""axe-core finds nothing on any page of the console, in each look, and in its dialogs.

It comes from a package registry, which not every machine has. So ``make test`` leaves it out; ``make test-ci`` names
this file, and it can be named by hand:

    python -m pytest tests/console/accessibility.py
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.test_console import LOOKS, PAGES
from tests.kit.browser import TIME_OUT_MS
from tests.kit.busy_broker import BusyBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NPM_CI = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
FOUND = """() => axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`))"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, in the version that its lock file names."""
    if shutil.which("npm") is None:
        pytest.skip("not installed: npm")
    copy = shutil.copytree(Path(__file__).parent / "axe", tmp_path_factory.mktemp("axe") / "axe")
    subprocess.run(NPM_CI, cwd=copy, check=True)
    return (copy / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def found(page: Page) -> list[str]:
    """What axe-core finds on the page as it is now."""
    page.wait_for_timeout(300)  # until colours that change slowly are what they will be
    violations: list[str] = page.evaluate(FOUND)
    return violations


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing(browser: Browser, broker: BusyBroker, axe: str, look: tuple[int, int, str]):
    width, height, scheme = look
    # axe-core is no file of the console, so the page would not run it
    with browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, bypass_csp=True
    ) as context:
        context.set_default_timeout(TIME_OUT_MS)
        context.add_init_script(axe)
        page = context.new_page()
        problems = []
        for name, title in PAGES.items():
            page.goto(f"{broker.admin_url}/#/{name}")
            expect(page.locator("h1")).to_have_text(title)
            problems += [f"{name}: {one}" for one in found(page)]
        page.goto(f"{broker.admin_url}/#/queues")
        page.get_by_role("button", name="actions of mails", exact=True).click()
        problems += [f"the list of actions: {one}" for one in found(page)]
        page.locator(".sheet").get_by_role("button", name=re.compile("^Get")).click()
        page.locator("dialog form menu").get_by_role("button", name="Get", exact=True).click()
        expect(page.locator("dialog .answer pre")).to_be_visible()
        problems += [f"a form with its answer: {one}" for one in found(page)]
        assert problems == []
