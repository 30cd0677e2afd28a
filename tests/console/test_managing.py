"""The console manages: every action of every place is done in a browser, and the broker is asked what became of it.

Forms are made from the table of operations, so the labels are the names of the parameters.

A test says with :func:`does` which actions it does. What it says is checked: each one was carried out when the test
ends, and together the tests do everything that ``actions.js`` lists.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Response, expect

from tests.kit.broker_process import ROOT, STOP_SECONDS
from tests.kit.browser import TIME_OUT_MS, Watch
from tests.kit.busy_broker import BusyBroker

pytestmark = pytest.mark.slow

expect.set_options(timeout=TIME_OUT_MS)

ASKED_BY_ACTION = """async () => {
    const { ACTIONS, MAKING } = await import("/console/actions.js");
    const done = Object.entries(ACTIONS).flatMap(([noun, all]) => all.map((one) => [`${noun}: ${one.word}`, one.of]));
    return Object.fromEntries([...done, ...Object.entries(MAKING).map(([noun, [, of]]) => [`make: ${noun}`, of])]);
}"""
"""The operation of each action that the console has, by its kind and word."""

CLOSED = ("link", "session", "connection")
DOES: dict[str, set[str]] = {}
"""The actions that each test does."""


def does(*actions: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Say of a test which actions it does; ``{kind}`` in one is the parameter of the test."""

    def said(test: Callable[..., None]) -> Callable[..., None]:
        DOES.setdefault(test.__name__, set()).update(actions)
        return test

    return said


@pytest.fixture(autouse=True)
def carried_out(request: pytest.FixtureRequest, page: Page, api: httpx.Client) -> Iterator[None]:
    """Check that the page has carried out what the test says it does."""
    done: list[tuple[str, str]] = []

    def answered(response: Response) -> None:
        if response.ok:
            done.append((response.request.method, response.url))

    page.on("response", answered)
    yield
    parameters = getattr(request.node, "callspec", None)
    said = {
        action.format(**parameters.params) if parameters else action
        for action in DOES.get(request.function.__name__, ())
    }
    if said:
        asked, table = page.evaluate(ASKED_BY_ACTION), {one["name"]: one for one in rows(api, "/operations")}
        missed = {action for action in said if not any(map(_asks_for(table[asked[action]]), done))}
        assert missed == set()


def _asks_for(operation: dict[str, Any]) -> Callable[[tuple[str, str]], bool]:
    """Whether a request asks for this operation."""
    path = re.compile(re.sub(r"\\?{\w+\\?}", "[^/]+", re.escape(operation["path"])) + r"(\?|$)")
    return lambda one: one[0] == operation["method"] and path.search(one[1]) is not None


@pytest.fixture
def api(broker: BusyBroker) -> Iterator[httpx.Client]:
    """The HTTP API of the broker."""
    marks = {"x-headgate-request": "1"}
    with httpx.Client(base_url=f"{broker.admin_url}/api", headers=marks) as client:
        yield client


def rows(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    """The rows that a path has."""
    answer = api.get(path)
    answer.raise_for_status()
    return answer.json()


def eventually(page: Page, happened: Callable[[], bool]) -> None:
    """Wait until it has happened in the broker."""
    for _ in range(TIME_OUT_MS // 50):
        if happened():
            return
        page.wait_for_timeout(50)
    pytest.fail("it did not happen")


def open_page(page: Page, broker: BusyBroker, name: str, title: str) -> None:
    """Open a page of the console."""
    page.goto(f"{broker.admin_url}/#/{name}")
    expect(page.locator("h1")).to_have_text(title)


def row(page: Page, table: str, text: str) -> Locator:
    """The rows of a table that have this text."""
    return page.get_by_role("table", name=table, exact=True).locator("tbody tr").filter(has_text=text)


def act(page: Page, called: str, word: str) -> None:
    """Open the form of an action in a row."""
    page.get_by_role("button", name=f"actions of {called}", exact=True).click()
    page.locator(".sheet").get_by_role("button", name=re.compile(f"^{word}")).click()


def fill(page: Page, **values: str) -> None:
    """Fill in fields of the form."""
    for name, value in values.items():
        page.locator("dialog").get_by_label(name.replace("_", " "), exact=True).fill(value)


def send(page: Page, word: str, *, closes: bool = True) -> None:
    """Send the form."""
    page.locator("dialog form menu").get_by_role("button", name=word, exact=True).click()
    if closes:
        expect(page.locator("dialog")).to_be_hidden()


def declare(api: httpx.Client, name: str, messages: int = 0) -> None:
    """Make a queue with some messages."""
    api.put(f"/queues/%2F/{name}", json={}).raise_for_status()
    for number in range(messages):
        body = {"routing_key": name, "payload": f"message {number}", "properties": {}}
        api.post("/exchanges/%2F/amq.default/publish", json=body).raise_for_status()


def ready(api: httpx.Client, name: str) -> int:
    """How many messages a queue has ready."""
    return next(one["messages_ready"] for one in rows(api, "/queues/%2F") if one["name"] == name)


def test_every_action_of_the_console_is_done_by_a_test(page: Page, broker: BusyBroker):
    open_page(page, broker, "queues", "Queues")
    done = {action.format(kind=kind) for actions in DOES.values() for action in actions for kind in CLOSED}
    assert done == set(page.evaluate(ASKED_BY_ACTION))


@does("make: queue")
def test_a_queue_is_declared_with_arguments_and_a_refusal_stays_at_the_form(
    page: Page, broker: BusyBroker, api: httpx.Client
):
    open_page(page, broker, "queues", "Queues")
    page.get_by_role("button", name="Declare a queue").first.click()
    fill(page, name="bounded", queue_type="classic")
    page.get_by_role("button", name="Add to arguments").click()
    fill(page, **{"arguments: key": "x-max-length", "arguments: value": "many"})
    send(page, "Declare", closes=False)
    expect(page.locator("dialog [role=alert]")).to_contain_text("x-max-length")
    fill(page, **{"arguments: value": "7"})
    send(page, "Declare")
    expect(row(page, "Queues", "bounded")).to_have_count(1)
    found = next(one for one in rows(api, "/queues/%2F") if one["name"] == "bounded")
    assert (found["arguments"]["x-max-length"], found["durable"]) == (7, True)


@does("queue: Publish", "queue: Get", "queue: Purge")
def test_publish_get_and_purge(page: Page, broker: BusyBroker, api: httpx.Client):
    declare(api, "inbox")
    open_page(page, broker, "queues", "Queues")
    act(page, "inbox", "Publish")
    fill(page, payload="by hand")
    for _ in range(2):  # the form stays, for one more
        send(page, "Publish", closes=False)
        expect(page.locator("dialog .answer")).to_contain_text("routed")
    page.keyboard.press("Escape")
    eventually(page, lambda: ready(api, "inbox") == 2)
    act(page, "inbox", "Get")
    send(page, "Get", closes=False)
    expect(page.locator("dialog .answer pre")).to_have_text("by hand")
    assert ready(api, "inbox") == 2  # it went back
    page.get_by_label("ackmode").select_option("ack_requeue_false")
    send(page, "Get", closes=False)
    eventually(page, lambda: ready(api, "inbox") == 1)
    page.keyboard.press("Escape")
    act(page, "inbox", "Purge")
    expect(page.locator("dialog")).to_contain_text("removed for good")
    send(page, "Purge")
    eventually(page, lambda: ready(api, "inbox") == 0)


@does("queue: Replay")
def test_dead_letters_are_replayed(page: Page, broker: BusyBroker, api: httpx.Client):
    declare(api, "morgue")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "morgue"}
    api.put("/queues/%2F/alive", json={"arguments": arguments}).raise_for_status()
    body = {"routing_key": "alive", "payload": "again", "properties": {}}
    api.post("/exchanges/%2F/amq.default/publish", json=body).raise_for_status()
    api.post("/queues/%2F/alive/get", json={"count": 1, "ackmode": "reject_requeue_false"}).raise_for_status()
    eventually(page, lambda: ready(api, "morgue") == 1)
    open_page(page, broker, "queues", "Queues")
    act(page, "morgue", "Replay")
    send(page, "Replay")
    eventually(page, lambda: ready(api, "alive") == 1)


@does("queue: Move")
def test_messages_are_moved(page: Page, broker: BusyBroker, api: httpx.Client):
    declare(api, "here", messages=3)
    declare(api, "there")
    open_page(page, broker, "queues", "Queues")
    act(page, "here", "Move")
    fill(page, to="nowhere", count="2")
    send(page, "Move", closes=False)
    expect(page.locator("dialog [role=alert]")).to_contain_text("nowhere")
    fill(page, to="there")
    send(page, "Move")
    eventually(page, lambda: (ready(api, "here"), ready(api, "there")) == (1, 2))


@does("queue: Delete")
def test_a_queue_is_deleted_from_its_page(page: Page, broker: BusyBroker, api: httpx.Client):
    declare(api, "short-lived", messages=1)
    open_page(page, broker, "queue/short-lived", "short-lived")
    page.get_by_role("button", name="delete: short-lived").click()
    expect(page.locator("dialog")).to_contain_text("with its messages")
    page.get_by_label("if-empty", exact=True).check()
    send(page, "Delete", closes=False)
    expect(page.locator("dialog [role=alert]")).to_contain_text("is not empty")
    page.get_by_label("if-empty", exact=True).uncheck()
    send(page, "Delete")
    expect(page.locator("h1")).to_have_text("Queues")  # the page of what has gone is left
    expect(row(page, "Queues", "short-lived")).to_have_count(0)


@does("make: exchange", "make: binding", "binding: Unbind")
@does("exchange: Publish", "exchange: Bind to a queue", "exchange: Bind to an exchange", "exchange: Delete")
def test_an_exchange_is_declared_bound_published_to_and_deleted(page: Page, broker: BusyBroker, api: httpx.Client):
    declare(api, "from-news")
    open_page(page, broker, "exchanges", "Exchanges")
    page.get_by_role("button", name="Declare an exchange").click()
    fill(page, name="news")
    page.get_by_label("type", exact=True).select_option("topic")
    send(page, "Declare")
    act(page, "news", "Bind to a queue")
    fill(page, destination="nowhere", routing_key="sport.#")
    send(page, "Bind to a queue", closes=False)
    expect(page.locator("dialog [role=alert]")).to_contain_text("nowhere")
    fill(page, destination="from-news")
    send(page, "Bind to a queue")
    expect(row(page, "Bindings", "sport.#")).to_have_count(1)
    act(page, "news", "Publish")
    fill(page, routing_key="weather", payload="rain")
    send(page, "Publish", closes=False)
    expect(page.locator("dialog .answer")).to_contain_text("no")
    fill(page, routing_key="sport.chess")
    send(page, "Publish", closes=False)
    expect(page.locator("dialog .answer")).to_contain_text("yes")
    page.keyboard.press("Escape")
    assert ready(api, "from-news") == 1
    act(page, "news", "Bind to an exchange")
    fill(page, destination="amq.fanout")
    send(page, "Bind to an exchange")
    expect(row(page, "Bindings", "amq.fanout")).to_have_count(1)
    page.get_by_role("button", name="Bind", exact=True).click()
    fill(page, source="news", destination="from-news", routing_key="snow")
    page.get_by_label("kind", exact=True).select_option("q")
    send(page, "Bind")
    expect(row(page, "Bindings", "snow")).to_have_count(1)
    page.goto(f"{broker.admin_url}/#/exchange/news")
    row(page, "Bindings", "sport.#").get_by_role("button", name="unbind").click()
    send(page, "Unbind")
    expect(row(page, "Bindings", "sport.#")).to_have_count(0)
    page.get_by_role("button", name="delete: news").click()
    send(page, "Delete")
    expect(page.locator("h1")).to_have_text("Exchanges")
    assert "news" not in {one["name"] for one in rows(api, "/exchanges/%2F")}


@does("queue: Bind")
def test_a_queue_is_bound_from_its_row(page: Page, broker: BusyBroker, api: httpx.Client):
    declare(api, "listener")
    open_page(page, broker, "queues", "Queues")
    act(page, "listener", "Bind")
    fill(page, source="amq.direct", routing_key="hear")
    send(page, "Bind")
    page.goto(f"{broker.admin_url}/#/queue/listener")
    expect(row(page, "Bindings", "amq.direct")).to_contain_text("hear")


@does("make: policy", "policy: Change", "policy: Clear")
def test_a_policy_is_made_changed_and_cleared(page: Page, broker: BusyBroker, api: httpx.Client):
    open_page(page, broker, "policies", "Policies")
    page.get_by_role("button", name="Make a policy").first.click()
    fill(page, policy="short", pattern="^short")
    page.get_by_role("button", name="Add to definition").click()
    fill(page, **{"definition: key": "max-length", "definition: value": "5"})
    send(page, "Set")
    expect(row(page, "Policies", "short")).to_contain_text("max-length = 5")
    page.get_by_role("button", name="change: short").click()
    expect(page.get_by_label("pattern", exact=True)).to_have_value("^short")  # it begins with what is there
    fill(page, **{"definition: value": "6", "priority": "2"})
    send(page, "Change")
    expect(row(page, "Policies", "short")).to_contain_text("max-length = 6")
    found = api.get("/headgate/policies/short").json()
    assert (found["definition"], found["priority"], found["pattern"]) == ({"max-length": 6}, 2, "^short")
    page.get_by_role("button", name="clear: short").click()
    send(page, "Clear")
    expect(row(page, "Policies", "short")).to_have_count(0)


@does("link: Pause", "link: Resume", "link: Bound", "link: Free")
def test_a_link_is_paused_bounded_and_freed(page: Page, broker: BusyBroker, api: httpx.Client):
    link = next(one for one in rows_of(api, "links") if one["name"] == "payments-out")
    open_page(page, broker, f"connection/{link['connection']}", f"till ({link['connection']})")
    called = f"link {link['identity']}"

    def facts() -> dict[str, Any]:
        return next(one for one in rows_of(api, "links") if one["identity"] == link["identity"])

    for word, change in (("Pause", {"paused": True}), ("Resume", {"paused": False})):
        act(page, called, word)
        send(page, word)
        eventually(page, lambda wanted=change: facts().items() >= wanted.items())
    act(page, called, "Bound")
    fill(page, max="3")
    send(page, "Bound")
    eventually(page, lambda: facts()["link_credit"] <= 3)
    act(page, called, "Free")
    send(page, "Free")
    eventually(page, lambda: facts()["link_credit"] > 3)


def rows_of(api: httpx.Client, kind: str) -> list[dict[str, Any]]:
    """Rows of Headgate's own API."""
    return api.get(f"/headgate/{kind}").json()["items"]


def test_definitions_go_out_and_come_in(page: Page, broker: BusyBroker, api: httpx.Client, tmp_path: Path):
    open_page(page, broker, "definitions", "Definitions")
    with page.expect_download() as begun:
        page.get_by_role("button", name="Save as a file").click()
    saved = json.loads(Path(begun.value.path()).read_text(encoding="utf-8"))
    assert "orders" in {one["name"] for one in saved["queues"]}
    page.get_by_role("button", name="Import a file").click()
    fill(page, document="[")
    send(page, "Import", closes=False)
    expect(page.locator("dialog [role=alert]")).to_contain_text("no JSON")
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"name": "imported", "vhost": "/", "durable": True}]}))
    page.get_by_label("a file").set_input_files(file)
    expect(page.get_by_label("document", exact=True)).to_have_value(re.compile("imported"))
    send(page, "Import")
    expect(page.get_by_text("The file was imported.")).to_be_visible()
    assert "imported" in {one["name"] for one in rows(api, "/queues/%2F")}


def test_every_operation_is_found_and_opens_a_form(page: Page, broker: BusyBroker, api: httpx.Client, watch: Watch):
    open_page(page, broker, "operations", "Operations")
    items = page.locator(".operations li:not([hidden]) button")
    expect(items).to_have_count(len(rows(api, "/operations")))
    dialog = page.locator("dialog")
    for number in range(items.count()):
        items.nth(number).click()
        dialog.locator("form").wait_for()  # at the next frame; expect looks again only after 0.1 s
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
    search = page.get_by_label("Search operations")
    search.fill("peek queue")
    expect(items).to_have_count(1)
    items.first.click()
    fill(page, queue="mails")
    send(page, "Show", closes=False)
    expect(page.locator("dialog .answer pre").first).to_contain_text("mail 0")
    page.keyboard.press("Escape")
    search.fill("no such thing at all")
    expect(page.get_by_text("No operation has this")).to_be_visible()
    assert watch.complaints == []


def test_a_list_is_searched_with_the_keyboard(page: Page, broker: BusyBroker):
    open_page(page, broker, "queues", "Queues")
    expect(row(page, "Queues", "orders")).to_have_count(1)
    page.keyboard.press("/")
    expect(page.get_by_label("Search Queues")).to_be_focused()
    page.keyboard.type("audit stream")
    expect(row(page, "Queues", "")).to_have_count(1)
    page.keyboard.type(" and more?")
    expect(page.get_by_text("has “audit stream and more?” in it")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("Search on this page")
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    expect(page.locator("#pages a[aria-current=page]")).to_be_focused()


@does("make: limit", "limit: Change", "limit: Clear")
def test_a_user_is_limited(page: Page, broker: BusyBroker, api: httpx.Client):
    api.put("/users/lisa", json={"password": "a long password", "tags": ""}).raise_for_status()
    open_page(page, broker, "users", "Users")
    page.get_by_role("button", name="Limit a user").click()
    fill(page, user="lisa", value="-7")
    page.get_by_label("limit", exact=True).select_option("max-connections")
    page.locator("dialog form").evaluate("form => (form.noValidate = true)")  # the broker refuses it too
    send(page, "Set", closes=False)
    expect(page.locator("dialog [role=alert]")).to_contain_text("Value must be a number from -1")
    fill(page, value="5")
    send(page, "Set")
    expect(row(page, "Limits of users", "lisa")).to_contain_text("5")
    page.get_by_role("button", name="change: max-connections of lisa").click()
    expect(page.get_by_label("value", exact=True)).to_have_value("5")
    fill(page, value="6")
    send(page, "Change")
    expect(row(page, "Limits of users", "lisa")).to_contain_text("6")
    page.get_by_role("button", name="clear: max-connections of lisa").click()
    send(page, "Clear")
    expect(row(page, "Limits of users", "lisa")).to_have_count(0)


@pytest.mark.parametrize("kind", CLOSED)
@does("{kind}: Close")
def test_what_is_closed_is_gone_and_its_client_is_told_why(
    page: Page, broker: BusyBroker, api: httpx.Client, kind: str
):
    declare(api, "watched")
    command = [sys.executable, "-m", "amqp10", "consume", "/queues/watched", "--url", broker.amqp_url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as client:
        try:
            eventually(page, lambda: links_to(api, "/queues/watched") != [])
            (link,) = links_to(api, "/queues/watched")
            identity = link["identity"] if kind == "link" else link[kind]
            page.goto(f"{broker.admin_url}/#/{kind}/{identity.replace('/', '%2F')}")
            page.get_by_role("button", name=f"close: {kind} {identity}").click()
            fill(page, reason="moving house")
            send(page, "Close")
            expect(page.locator("h1")).not_to_contain_text(identity)  # the page of what has gone is left
            eventually(page, lambda: links_to(api, "/queues/watched") == [])
            assert "moving house" in client.communicate(timeout=STOP_SECONDS)[1]
        finally:
            client.kill()


def links_to(api: httpx.Client, address: str) -> list[dict[str, Any]]:
    """The links of an address."""
    return [one for one in rows_of(api, "links") if one["address"] == address]
