"""The console in a browser for people who log in: the login page, what each user sees, and the page of users.

The tests run in their order on one broker that serves users only: the first makes the users of the others.
"""

import json
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.kit.browser import TIME_OUT_MS, Watch
from tests.kit.busy_broker import broker_with_console

pytestmark = pytest.mark.slow

ROOT_PASSWORD, PASSWORD = "a long password", "another long one"
HTML_NAME = '<img src=x onerror="alert(1)">'

expect.set_options(timeout=TIME_OUT_MS)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The console of a broker with an administrator, and some users with fewer tags."""
    fast = "[access]\npassword_iterations = 4096\n"
    with broker_with_console(tmp_path_factory.mktemp("broker"), users_only=True, more=fast) as (_, url):
        made = httpx.Client(base_url=f"{url}/api", auth=("guest", "guest"))
        made.put("/users/root", json={"password": ROOT_PASSWORD, "tags": "administrator"}).raise_for_status()
        made.auth = ("root", ROOT_PASSWORD)
        made.put("/permissions/%2F/root", json=dict.fromkeys(("configure", "write", "read"), ".*")).raise_for_status()
        made.put("/queues/%2F/orders", json={}).raise_for_status()
        for name, tags in {"mona": "monitoring", "max": "management", "paul": "policymaker", "plain": ""}.items():
            made.put(f"/users/{name}", json={"password": PASSWORD, "tags": tags}).raise_for_status()
            patterns = {"configure": "", "write": "", "read": ".*"}
            made.put(f"/permissions/%2F/{name}", json=patterns).raise_for_status()
        yield url


def log_in(page: Page, url: str, name: str, password: str, place: str = "") -> None:
    """Log in on the login page."""
    page.goto(f"{url}/{place}")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    enter(page, name, password)


def enter(page: Page, name: str, password: str) -> None:
    """Fill in the form of the login page, and send it."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in", exact=True).click()


def menu_of(page: Page) -> list[str]:
    """The entries of the menu."""
    expect(page.locator("#pages a").first).to_be_visible()
    return page.locator("#pages a").all_inner_texts()


def row(page: Page, table: str, *texts: str) -> Locator:
    """The row of a table that has all of these texts."""
    found = page.get_by_role("table", name=table, exact=True).locator("tbody tr")
    for text in texts:
        found = found.filter(has_text=text)
    return found


def test_a_login_a_wrong_password_and_a_logout(page: Page, url: str):
    log_in(page, url, "root", "wrong", "#/store")
    expect(page.locator(".login [role=alert]")).to_contain_text("the name or the password is wrong")
    expect(page.locator("#pages")).to_be_hidden()
    enter(page, "root", ROOT_PASSWORD)
    expect(page.locator("h1")).to_have_text("Store")
    expect(page.locator("#who")).to_contain_text("root")
    expect(page.locator("#who")).to_contain_text("administrator")
    expect(page.locator("#live")).to_have_text("live")
    assert "Users" in menu_of(page)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert page.context.cookies() == []
    page.reload()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_user_without_a_tag_is_not_let_in(page: Page, url: str):
    log_in(page, url, "plain", PASSWORD)
    expect(page.locator(".login [role=alert]")).to_contain_text("none of the tags")
    assert page.context.cookies() == []


def test_each_user_sees_what_its_tags_allow(context: BrowserContext, url: str):
    everything = [
        *("Overview", "Flow map", "Blocked publishers", "Slow consumers", "Connections", "Exchanges", "Queues"),
        *("Policies", "Users", "Virtual hosts", "Definitions", "Store", "Cluster", "Limits"),
        *("Log", "Audit log", "Operations"),
    ]
    few = ["Exchanges", "Queues", "Policies", "Operations"]
    without_users = [entry for entry in everything if entry not in ("Users", "Audit log")]
    seen = {"root": everything, "mona": without_users, "max": few, "paul": few}
    actions = {"root": ["peek", "why", "actions"], "mona": ["peek", "why", "actions"]}
    actions |= {"max": ["actions"], "paul": ["actions"]}
    for name, entries in seen.items():
        page = context.new_page()
        watch = Watch(page)
        log_in(page, url, name, ROOT_PASSWORD if name == "root" else PASSWORD, "#/queues")
        expect(row(page, "Queues", "orders")).to_be_visible()
        assert menu_of(page) == entries
        assert row(page, "Queues", "orders").get_by_role("button").all_text_contents() == actions[name]
        expect(page.locator(".fault")).to_be_hidden()
        page.goto(f"{url}/#/users")  # by its address: a page that the menu lacks is not shown
        expect(page.locator("h1")).to_have_text("Users" if name == "root" else entries[0])
        page.wait_for_load_state()
        assert watch.complaints == []
        watch.end()
        page.close()
        context.clear_cookies()


def test_a_user_is_made_permitted_changed_and_deleted(page: Page, url: str, watch: Watch):
    log_in(page, url, "root", ROOT_PASSWORD, "#/users")
    dialog = page.locator("dialog")
    page.get_by_role("button", name="Make a user").click()
    for label, text in {"Name": HTML_NAME, "Password": "one", "Password again": "two", "Tags": "management"}.items():
        dialog.get_by_label(label, exact=True).fill(text)
    dialog.get_by_role("button", name="Make").click()
    expect(dialog.get_by_role("alert")).to_have_text("The two passwords differ.")
    dialog.get_by_label("Password again").fill("one")
    dialog.get_by_role("button", name="Make").click()
    expect(row(page, "Users", HTML_NAME)).to_contain_text("management")

    page.get_by_role("button", name="Give a permission").click()
    dialog.get_by_label("User").select_option(HTML_NAME)
    expect(dialog.get_by_label("Virtual host").locator("option")).to_have_text(["/"])
    dialog.get_by_label("Read").fill("(")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog.get_by_role("alert")).to_contain_text("read is not a pattern")
    dialog.get_by_label("Read").fill("^orders$")
    dialog.get_by_role("button", name="Set").click()
    expect(row(page, "Permissions", HTML_NAME)).to_contain_text("^orders$")
    for pattern in ("^a$", "^b$"):  # the second time the dialog begins with what the first has set
        row(page, "Permissions", HTML_NAME).get_by_role("button", name="change").click()
        dialog.get_by_label("Write").fill(pattern)
        dialog.get_by_role("button", name="Set").click()
        expect(row(page, "Permissions", HTML_NAME)).to_contain_text(pattern)
        expect(row(page, "Permissions", HTML_NAME)).to_contain_text("^orders$")

    page.get_by_role("button", name="Restrict a topic exchange").click()
    dialog.get_by_label("User").select_option(HTML_NAME)
    dialog.get_by_label("Write").fill("^shop[.]")
    dialog.get_by_role("button", name="Set").click()
    expect(row(page, "Topic permissions", HTML_NAME)).to_contain_text("amq.topic")
    row(page, "Topic permissions", HTML_NAME).get_by_role("button", name="change").click()
    dialog.get_by_label("Read").fill("^shop[.]eu")
    dialog.get_by_role("button", name="Set").click()
    expect(row(page, "Topic permissions", HTML_NAME)).to_contain_text("^shop[.]eu")

    for table in ("Topic permissions", "Permissions"):
        row(page, table, HTML_NAME).get_by_role("button", name="clear").click()
        dialog.get_by_role("button", name="Clear").click()
        expect(row(page, table, HTML_NAME)).to_have_count(0)
    row(page, "Users", HTML_NAME).get_by_role("button", name="change the tags").click()
    dialog.get_by_label("Tags").fill("monitoring, shop")
    dialog.get_by_role("button", name="Change").click()
    expect(row(page, "Users", HTML_NAME)).to_contain_text("monitoring, shop")
    row(page, "Users", HTML_NAME).get_by_role("button", name="delete").click()
    expect(dialog).to_contain_text("Delete")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row(page, "Users", HTML_NAME)).to_have_count(1)
    row(page, "Users", HTML_NAME).get_by_role("button", name="delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(row(page, "Users", HTML_NAME)).to_have_count(0)
    assert watch.dialogs == []
    assert page.locator("main img, dialog img").count() == 0


def test_a_virtual_host_is_made_limited_and_deleted(page: Page, url: str, watch: Watch):
    log_in(page, url, "root", ROOT_PASSWORD, "#/virtual-hosts")
    dialog = page.locator("dialog")
    expect(row(page, "Virtual hosts", "/").get_by_role("button")).to_have_text(["limits"])
    page.get_by_role("button", name="Make a virtual host").click()
    dialog.get_by_label("Name").fill(HTML_NAME)
    dialog.get_by_role("button", name="Make").click()
    expect(row(page, "Virtual hosts", HTML_NAME)).to_contain_text("no limit")
    for given, shown in (("3", ["0", "3", "0", "no limit"]), ("", ["0", "no limit", "0", "no limit"])):
        row(page, "Virtual hosts", HTML_NAME).get_by_role("button", name="change the limits").click()
        dialog.get_by_label("Queues").fill(given)
        dialog.get_by_role("button", name="Set").click()
        expect(row(page, "Virtual hosts", HTML_NAME).locator("td")).to_contain_text([*shown, "limits"])
    page.goto(f"{url}/#/users")
    expect(row(page, "Permissions", "root", HTML_NAME)).to_have_count(1)  # who makes one may do everything in it
    declare = f"/queues/{quote(HTML_NAME, safe='')}/orders of another"
    httpx.put(f"{url}/api{declare}", auth=("root", ROOT_PASSWORD), json={}).raise_for_status()
    page.goto(f"{url}/#/virtual-hosts")
    row(page, "Virtual hosts", HTML_NAME).get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("Queues")
    choice = page.get_by_label("virtual host")
    expect(choice).to_have_value(HTML_NAME)
    expect(row(page, "Queues", "")).to_have_count(1)
    row(page, "Queues", "").get_by_role("button", name="peek").click()
    expect(dialog).to_contain_text("No message is ready")
    dialog.get_by_role("button", name="Close").click()
    row(page, "Queues", "").get_by_role("button", name="why").click()
    expect(page.locator("#why")).to_contain_text("orders of another")
    expect(page.locator("#why .sentence")).not_to_contain_text("there is no")
    row(page, "Queues", "").get_by_role("link").click()
    expect(page.locator("h1")).to_have_text("orders of another")
    expect(page.locator("main")).to_contain_text("orders of another")
    expect(page.locator(".fault")).to_be_hidden()
    page.locator("main").get_by_role("link", name="Queues", exact=True).click()
    expect(row(page, "Queues", "orders of another")).to_have_count(1)
    policy = {"pattern": "of another$", "definition": {"max-length": 7}}
    set_policy = f"{url}/api/policies/{quote(HTML_NAME, safe='')}/seven"
    httpx.put(set_policy, auth=("root", ROOT_PASSWORD), json=policy).raise_for_status()
    page.locator("#pages").get_by_role("link", name="Policies").click()
    expect(choice).to_have_value(HTML_NAME)
    expect(row(page, "Policies", "seven")).to_contain_text("max-length = 7")
    expect(row(page, "Queues that a policy holds for", "orders of another")).to_have_count(1)
    page.reload()  # the address has the choice
    expect(row(page, "Policies", "seven")).to_have_count(1)
    choice.select_option("/")
    expect(row(page, "Policies", "seven")).to_have_count(0)
    page.locator("#pages").get_by_role("link", name="Store").click()
    expect(page.locator("h1")).to_have_text("Store")
    expect(choice).to_be_hidden()
    expect(page.locator(".fault")).to_be_hidden()
    page.goto(f"{url}/#/virtual-hosts")
    row(page, "Virtual hosts", HTML_NAME).get_by_role("button", name="delete").click()
    expect(dialog).to_contain_text("the permissions on it are removed")
    dialog.get_by_role("button", name="Delete").click()
    expect(row(page, "Virtual hosts", HTML_NAME)).to_have_count(0)
    assert watch.dialogs == []
    assert page.locator("main img, dialog img").count() == 0


def test_a_user_of_one_virtual_host_sees_that_one(page: Page, url: str):
    made = httpx.Client(base_url=f"{url}/api", auth=("root", ROOT_PASSWORD))
    for host in ("shop", "other"):
        made.put(f"/vhosts/{host}", json={}).raise_for_status()
        made.put(f"/queues/{host}/of-{host}", json={}).raise_for_status()
    made.put("/users/sam", json={"password": PASSWORD, "tags": "management"}).raise_for_status()
    everything = dict.fromkeys(("configure", "write", "read"), ".*")
    made.put("/permissions/shop/sam", json=everything).raise_for_status()
    log_in(page, url, "sam", PASSWORD, "#/queues")
    expect(row(page, "Queues", "of-shop")).to_have_count(1)
    expect(row(page, "Queues", "")).to_have_count(1)
    choice = page.get_by_label("virtual host")
    expect(choice).to_be_hidden()
    made.put("/permissions/%2F/sam", json=everything).raise_for_status()
    page.reload()
    expect(choice.locator("option")).to_have_text(["/", "shop"])
    page.goto(f"{url}/#/queues?vhost=other")  # by its address: the broker refuses it
    expect(page.locator(".fault")).to_contain_text("no permission on the virtual host 'other'")
    choice.select_option("shop")
    expect(row(page, "Queues", "of-shop")).to_have_count(1)
    expect(page.locator(".fault")).to_be_hidden()


def test_links_that_wait_are_shown_for_their_virtual_host(page: Page, url: str):
    httpx.put(f"{url}/api/vhosts/shop", auth=("root", ROOT_PASSWORD), json={}).raise_for_status()
    log_in(page, url, "root", ROOT_PASSWORD)
    expect(page.locator("h1")).to_have_text("Overview")
    stalls = [
        {"identity": f"c1/0/{number}", "connection": "c1", "vhost": host, "direction": "in", "reason": "queue-full"}
        | {"container_id": f"of {host}", "address": "/queues/q", "culprit": "queue q", "since": 1, "seconds": 2}
        for number, host in enumerate(("/", "shop", "shop"))
    ]
    stream = f"event: stalls\ndata: {json.dumps({'time': 1, 'total': 3, 'stalls': stalls})}\n\n"
    page.route("**/api/headgate/live", lambda route: route.fulfill(body=stream, content_type="text/event-stream"))
    page.reload()
    blocked = page.locator("#pages a", has_text="Blocked publishers")
    expect(blocked.locator(".tally")).to_have_text("1")
    blocked.click()
    expect(row(page, "Blocked publishers", "of /")).to_have_count(1)
    expect(row(page, "Blocked publishers", "")).to_have_count(1)
    page.get_by_label("virtual host").select_option("shop")
    expect(row(page, "Blocked publishers", "of shop")).to_have_count(2)
    expect(row(page, "Blocked publishers", "")).to_have_count(2)
    expect(blocked.locator(".tally")).to_have_text("2")
    assert page.url.endswith("#/blocked-publishers?vhost=shop")


def test_a_login_that_has_ended_leads_to_the_login_page(browser: Browser, page: Page, url: str):
    log_in(page, url, "mona", PASSWORD, "#/connections")
    expect(page.locator("h1")).to_have_text("Connections")
    with browser.new_context() as context:
        other = context.new_page()
        log_in(other, url, "root", ROOT_PASSWORD, "#/users")
        row(other, "Users", "mona").get_by_role("button", name="change the password").click()
        for label in ("Password", "Password again"):
            other.locator("dialog").get_by_label(label, exact=True).fill("a third one")
        other.locator("dialog").get_by_role("button", name="Change").click()
        expect(other.locator("dialog")).to_be_hidden()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    enter(page, "mona", "a third one")
    expect(page.locator("h1")).to_have_text("Connections")  # where the page was


def test_narrow_and_dark(page: Page, url: str):
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    log_in(page, url, "root", ROOT_PASSWORD, "#/users")
    expect(page.locator("h1")).to_have_text("Users")
    for name in ("users", "virtual-hosts", "queues"):
        page.goto(f"{url}/#/{name}")
        expect(page.locator("tbody tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
