"""The console in a browser, against a broker whose links wait: what it shows, how it is reached, what it must
not do."""

import json
import re
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.kit.browser import TIME_OUT_MS, Watch
from tests.kit.busy_broker import HTML_NAME, TOKEN, BusyBroker, broker_with_console, busy_broker

pytestmark = pytest.mark.slow

STALLED_LINK = "c1/1/0"
STALLED_EDGE = f'[data-edge="{STALLED_LINK}"]'
FLOWING_EDGE = '[data-edge="c2/0/0"]'

PAGES = {
    "overview": "Overview",
    "flow-map": "Flow map",
    "connections": "Connections",
    "connection/c1": "shop (c1)",
    "session/c1%2F1": "Session c1/1",
    "link/c1%2F1%2F0": "Link c1/1/0",
    "queues": "Queues",
    "queue/orders": "orders",
    "exchanges": "Exchanges",
    "exchange/amq.topic": "amq.topic",
    f"queue/{quote(HTML_NAME, safe='')}": HTML_NAME,
    "slow-consumers": "Slow consumers",
    "blocked-publishers": "Blocked publishers",
    "store": "Store",
    "cluster": "Cluster",
    "limits": "Limits",
    "policies": "Policies",
    "virtual-hosts": "Virtual hosts",
    "users": "Users",
    "definitions": "Definitions",
    "log": "Log",
    "audit-log": "Audit log",
    "operations": "Operations",
}
LOOKS = ((1440, 900, "light"), (1440, 900, "dark"), (360, 740, "light"))

expect.set_options(timeout=TIME_OUT_MS)


def open_page(page: Page, broker: BusyBroker, name: str) -> None:
    """Open the page, and wait until it shows rows."""
    page.goto(f"{broker.admin_url}/#/{name}")
    expect(page.locator("h1")).to_have_text(PAGES[name])


def row(page: Page, *texts: str) -> Locator:
    """The line of a table that has all of these texts."""
    found = page.locator("tbody tr")
    for text in texts:
        found = found.filter(has_text=text)
    return found


def test_a_link_that_waits_is_shown_with_reason_and_culprit(page: Page, broker: BusyBroker, watch: Watch):
    open_page(page, broker, "overview")
    stalled = row(page, "shop", STALLED_LINK)
    expect(stalled.locator(".badge")).to_have_text("queue-full")
    expect(stalled).to_contain_text("queue orders")
    lasted = stalled.locator("td.number")
    expect(lasted).not_to_have_text(lasted.text_content() or "")  # it grows
    expect(row(page, "mailer").locator(".badge")).to_have_text("link-credit")
    expect(page.locator("#pages a", has_text="Blocked publishers").locator(".tally")).to_have_text("1")
    expect(page.locator("#live")).to_have_text("live")
    assert watch.complaints == []


def test_the_flow_map_colours_a_link_that_waits_and_a_click_says_why(page: Page, broker: BusyBroker):
    open_page(page, broker, "flow-map")
    expect(page.locator(STALLED_EDGE)).to_have_class(re.compile(r"\b(most|whole)\b"))
    expect(page.locator(STALLED_EDGE)).to_have_attribute("aria-label", re.compile("shop to /queues/orders.*queue-full"))
    expect(page.locator(FLOWING_EDGE)).to_have_class("edge ")
    colours = [stroke_of(page, edge) for edge in (STALLED_EDGE, FLOWING_EDGE)]
    assert colours[0] != colours[1]
    expect(page.locator(".map .label", has_text="queue-full")).to_be_visible()

    page.locator(f"{STALLED_EDGE} .reach").dispatch_event("click")
    why = page.locator("#why")
    expect(why.locator(".badge").first).to_have_text("queue-full")
    expect(why.locator(".sentence")).to_contain_text("orders")
    expect(why.locator(".todo")).to_contain_text("onsume")
    expect(why.locator(".steps .blocks").first).to_contain_text("link → queue")
    why.get_by_role("button", name="Close").click()
    expect(why).to_be_hidden()


def stroke_of(page: Page, edge: str) -> str:
    """The colour of a pipe."""
    return page.locator(f"{edge} .pipe").evaluate("pipe => getComputedStyle(pipe).stroke")


def test_time_lines_move(page: Page, broker: BusyBroker):
    open_page(page, broker, "link/c1%2F1%2F0")
    chart = page.get_by_role("img", name="Link credit in the last five minutes")
    expect(chart.locator("canvas")).to_be_visible()
    points = int(chart.get_attribute("data-points") or 0)
    until = float(chart.get_attribute("data-until") or 0)
    page.wait_for_function(
        "([before, chart]) => Number(chart.dataset.until) > before", arg=[until, chart.element_handle()]
    )
    assert int(chart.get_attribute("data-points") or 0) > points > 0
    expect(page.locator(".figure", has_text="waits for")).to_contain_text("queue-full")


def test_an_alarm_stands_above_every_page_while_it_lasts(page: Page, broker: BusyBroker):
    open_page(page, broker, "blocked-publishers")
    alarm = f"{broker.admin_url}/api/headgate/alarms/memory"
    httpx.put(alarm, headers={"x-headgate-request": "1"}).raise_for_status()
    try:
        banner = page.get_by_role("alert")
        expect(banner).to_contain_text("Alarm: memory")
        expect(banner).to_contain_text("since")
        expect(banner).to_contain_text("Publishers are stopped")
        expect(row(page, "till").locator(".badge")).to_have_text("memory")
    finally:
        httpx.delete(alarm, headers={"x-headgate-request": "1"}).raise_for_status()
    # a busy machine may show a notice as well: the event loop was late
    expect(page.locator(".alarm:not(.notice)")).to_have_count(0)
    expect(row(page, "till")).to_have_count(0)


def test_a_name_that_is_html_is_text(page: Page, broker: BusyBroker, watch: Watch):
    for name in ("queues", f"queue/{quote(HTML_NAME, safe='')}"):
        open_page(page, broker, name)
        expect(page.get_by_text(HTML_NAME, exact=True).first).to_be_visible()
    for action in ("peek into", "move:", "delete:", "bind:", "why"):
        page.get_by_role("button", name=re.compile(f"^{action} <img")).click()
        expect(page.get_by_role("heading", level=2).filter(has_text=HTML_NAME)).to_be_visible()
        page.keyboard.press("Escape")
    assert page.locator("main img, main script, dialog img, dialog script, aside img").count() == 0
    assert watch.dialogs == watch.complaints == []


def test_nothing_that_is_no_file_of_the_page_can_run(page: Page, broker: BusyBroker):
    open_page(page, broker, "overview")
    ran = page.evaluate("""() => {
        const script = document.createElement("script");
        try { script.textContent = "window.ran = true"; document.body.append(script); } catch {}
        try { document.body.innerHTML = "<img src=x onerror='window.ran = true'>"; }
        catch { return [window.ran, "refused"]; }
        return [window.ran, "taken"];
    }""")
    assert ran == [None, "refused"]


def test_peek(page: Page, broker: BusyBroker):
    open_page(page, broker, "queues")
    page.get_by_role("button", name="peek into mails", exact=True).click()
    expect(page.locator("dialog .message")).to_have_count(3)
    expect(page.locator("dialog .message").first).to_contain_text("mail 0")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("dialog")).to_be_hidden()
    expect(row(page, "mails").locator("td").first).to_have_text("3")


def test_by_keyboard_alone(page: Page, broker: BusyBroker):
    open_page(page, broker, "overview")
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    tab_to(page, "#pages a[href='#/flow-map']", backwards=True)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Flow map")
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator(STALLED_EDGE)).to_be_attached()
    tab_to(page, STALLED_EDGE)
    page.keyboard.press("Enter")
    expect(page.locator("#why .sentence")).to_be_visible()
    expect(page.locator("#why button")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(STALLED_EDGE)).to_be_focused()
    page.wait_for_timeout(1200)  # the map is drawn again meanwhile, and the focus stays
    expect(page.locator(STALLED_EDGE)).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#why .sentence")).to_be_visible()


def tab_to(page: Page, selector: str, *, backwards: bool = False) -> None:
    """Press Tab until the wanted element has the focus, and check that every focus on the way is visible."""
    for _ in range(60):
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
        outlined = page.evaluate("""() => {
            const focused = document.activeElement;
            if (focused === document.body || focused.matches(".edge")) return true;
            return getComputedStyle(focused).outlineStyle !== "none";
        }""")
        assert outlined
        if page.locator(selector).evaluate("element => element === document.activeElement"):
            return
    pytest.fail(f"{selector} cannot be reached with Tab")


def test_light_and_dark(page: Page, broker: BusyBroker):
    open_page(page, broker, "overview")
    light = ground_of(page)
    page.emulate_media(color_scheme="dark")
    dark = ground_of(page)
    assert brightness(light) > 200 > 60 > brightness(dark)
    switch = page.get_by_role("button", name=re.compile("^Colours"))
    switch.click()
    assert ground_of(page) == light
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    assert ground_of(page) == light  # the choice is remembered
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name=re.compile("^Colours")).click()
    assert ground_of(page) == dark


def ground_of(page: Page) -> str:
    """The colour of the page's background."""
    return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")


def brightness(colour: str) -> float:
    """The mean of red, green and blue."""
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_every_page_in_every_look_and_nothing_from_elsewhere(page: Page, broker: BusyBroker, watch: Watch):
    for name in PAGES:
        open_page(page, broker, name)
        page.wait_for_load_state()
        expect(page.locator(".fault")).to_be_hidden()
        page.wait_for_timeout(150)
        for width, height, scheme in LOOKS:
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(30)
            wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{name} is {wider} px wider than {width} px"
    origins = {f"{url.scheme}://{url.netloc}" for url in map(urlsplit, watch.urls)}
    assert origins == {broker.admin_url}
    assert len(watch.urls) > 2 * len(PAGES)
    assert watch.complaints == []


def test_a_list_is_sorted(page: Page, broker: BusyBroker):
    open_page(page, broker, "queues")
    names = page.locator("tbody th")
    for first, last in (("payments", HTML_NAME), (HTML_NAME, "payments")):
        heading = page.get_by_role("columnheader").get_by_role("button", name=re.compile("^queue"))  # an arrow follows
        heading.click()
        expect(names.first).to_have_text(first)
        expect(names.last).to_have_text(last)


def test_the_last_hour_is_what_the_broker_has_recorded(page: Page, broker: BusyBroker):
    now = int(time.time())
    times = list(range(now - 3000, now - 10, 10))
    series = dict.fromkeys(("in", "out", "confirmed", "settled", "waiting"), [1.0] * len(times))
    page.route("**/api/headgate/timelines", lambda route: route.fulfill(json={"times": times, "series": series}))
    open_page(page, broker, "overview")
    chart = page.get_by_role("img", name="Messages a second")
    expect(chart.locator("canvas")).to_be_visible()
    page.get_by_role("button", name="1 h", exact=True).click()
    expect(chart).to_have_attribute("data-points", re.compile(r"^3\d\d$"))
    page.get_by_role("button", name="5 min", exact=True).click()
    expect(chart).to_have_attribute("data-points", re.compile(r"^\d\d$"))


def test_nothing_is_said_to_be_missing_before_the_broker_has_answered(page: Page, broker: BusyBroker):
    asked: list[Route] = []
    page.route(re.compile(r"/api/headgate/policies\?"), lambda route: asked.append(route))
    open_page(page, broker, "policies")
    expect(page.locator("main")).to_have_attribute("aria-busy", "true")
    expect(page.get_by_text("No policies", exact=True)).to_be_hidden()
    while not asked:
        page.wait_for_timeout(20)
    asked[0].fulfill(json={"items": [], "next": None})
    expect(page.get_by_text("No policies", exact=True)).to_be_visible()
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")


ENDS = """all => all.map((one) => one.getBoundingClientRect()).filter(({ width }) => width > 0)
    .map(({ left, right }) => [left, right])"""


def test_on_a_phone_everything_in_a_row_is_within_reach(page: Page, broker: BusyBroker):
    page.set_viewport_size({"width": 390, "height": 844})
    for name in ("queues", "connections", "blocked-publishers", "exchanges", "policies", "log", "flow-map"):
        open_page(page, broker, name)
        expect(page.locator("tbody tr").first).to_be_visible()
        cells = page.locator("tbody :is(th, td, button, .badge)").evaluate_all(ENDS)
        assert all(0 <= left < right <= 390 for left, right in cells), name
    expect(row(page, "shop").locator(".badge")).to_be_visible()
    consumer = page.locator(".map .node", has_text="mailer")
    consumer.scroll_into_view_if_needed()  # the map is wider: it scrolls
    box = consumer.bounding_box()
    assert box is not None
    assert 0 <= box["x"] < box["x"] + box["width"] <= 390
    row(page, "shop").get_by_role("button", name="why").click()
    expect(page.locator("#why .badge").first).to_have_text("queue-full")


REASONS = ("unconfirmed-limit", "session-window", "memory-share", "queue-full", "link-credit", None)


def many_links() -> dict[str, object]:
    """A flow map in which each of six publishers and consumers has a link to each of three addresses."""
    node = {"connection": "c1", "peer": "203.0.113.127:65535", "container_id": "a-client-with-a-long-name"}
    ends = {
        side: [{"identity": f"{side}{number}", **node} for number in range(6)] for side in ("publisher", "consumer")
    }
    full = {"queue": "q", "messages_ready": 1_000_000, "messages_unacknowledged": 1_000_000}
    addresses = [
        {"identity": f"/queues/{number}", "address": f"/queues/a-queue-{number}", **full} for number in range(3)
    ]
    return {
        "publishers": ends["publisher"],
        "consumers": ends["consumer"],
        "addresses": addresses,
        "edges": [edge(number) for number in range(36)],
        "edges_total": 36,
    }


def edge(number: int) -> dict[str, object]:
    """A link that carries much, or that waits for one of the reasons."""
    end, address, reason = number % 6, f"/queues/{number // 12}", REASONS[number % 5 if number % 7 else 5]
    facts = {"identity": f"c{number}/0/0", "reason": reason, "culprit": "queue q", "rate": 12_345.0}
    facts |= {"blocked": reason is not None, "blocked_share": 0.7}
    if number // 6 % 2 == 0:
        return {"direction": "in", "from": f"publisher{end}", "to": address, **facts}
    return {"direction": "out", "from": address, "to": f"consumer{end}", **facts}


COLLIDING = """() => {
    const all = [...document.querySelectorAll(".map .label, .map .node rect, .map .gate")];
    const boxes = all.map((one) => [one, one.getBBox()]);
    const words = boxes.filter(([one]) => one.matches(".label") && one.textContent);
    const apart = (a, b) => a.x >= b.x + b.width || a.y >= b.y + b.height;
    const meet = (a, b) => !apart(a, b) && !apart(b, a);
    return words.flatMap(([one, a]) => boxes.filter(([other, b]) => other !== one && meet(a, b))
        .map(([other]) => `${one.textContent} and ${other.tagName} ${other.textContent}`));
}"""


def test_words_on_the_flow_map_do_not_collide(page: Page, broker: BusyBroker):
    page.route(re.compile(r"/api/headgate/flow-map\?"), lambda route: route.fulfill(json=many_links()))
    open_page(page, broker, "flow-map")
    for width in (390, 1000, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.locator(".map .label")).to_have_count(36)
        assert page.evaluate(COLLIDING) == [], width


def test_why_a_connection_waits_is_beside_it(page: Page, broker: BusyBroker):
    open_page(page, broker, "connections")
    page.get_by_role("button", name="why connection c1 waits", exact=True).click()
    expect(page.locator("#why .badge").first).to_have_text("queue-full")


def test_a_list_says_how_many_rows_it_has_and_how_many_a_search_has_found(page: Page, broker: BusyBroker):
    open_page(page, broker, "queues")
    count = page.locator(".tools .count")
    expect(count).to_have_text("5 in all")
    page.get_by_label("Search Queues").fill("ders")
    expect(count).to_have_text("1 of 5")


def test_everything_about_a_thing_has_units_and_what_is_not_set_stands_at_the_end(page: Page, broker: BusyBroker):
    open_page(page, broker, "queue/orders")
    facts = page.locator(".facts div")
    expect(facts.filter(has_text="ready bytes")).to_contain_text(re.compile(r"KiB|B$"))
    expect(facts.filter(has_text="oldest ready")).to_contain_text(re.compile(r" (s|min)$"))
    expect(facts.filter(has_text="arguments")).to_contain_text("x-max-length = 20")
    expect(facts.filter(has_text="–")).to_have_count(0)
    expect(page.locator(".unset")).to_contain_text("policy")


def test_the_overview_says_what_the_broker_uses_and_where_an_alarm_is(page: Page, broker: BusyBroker):
    open_page(page, broker, "overview")
    figure = page.locator(".figure")
    expect(figure.filter(has_text="memory, alarm above")).to_contain_text(re.compile(r"iB.*iB"))
    expect(figure.filter(has_text="disk free, alarm below")).to_contain_text(re.compile(r"iB.*iB"))
    expect(figure.filter(has_text="descriptors, at most")).to_be_visible()


def test_what_stands_where_there_are_no_queues_does_not_collide(page: Page, broker: BusyBroker):
    page.route(re.compile(r"/api/headgate/queues\?"), lambda route: route.fulfill(json={"items": [], "next": None}))
    open_page(page, broker, "queues")
    button = page.locator(".empty").get_by_role("button", name="Declare a queue")
    expect(button).to_be_visible()
    command, button_box = page.locator(".empty code").bounding_box(), button.bounding_box()
    assert command is not None
    assert button_box is not None
    assert command["y"] + command["height"] < button_box["y"]


def test_the_count_in_the_menu_stands_within_its_entry(page: Page, broker: BusyBroker):
    open_page(page, broker, "blocked-publishers")  # this entry is bold, and so the widest
    entry = page.locator("#pages a[aria-current=page]")
    expect(entry.locator(".tally")).to_be_visible()
    outer, inner = entry.bounding_box(), entry.locator(".tally").bounding_box()
    assert outer is not None
    assert inner is not None
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] - 8


def test_on_a_small_desk_figures_stand_beside_the_buttons_and_not_below_them(page: Page, broker: BusyBroker):
    page.set_viewport_size({"width": 1024, "height": 700})
    open_page(page, broker, "queues")
    expect(row(page, "orders").get_by_role("button", name="actions of orders")).to_be_visible()
    expect(row(page, "orders").get_by_role("button", name="peek into orders")).to_be_hidden()
    out = page.get_by_role("columnheader", name="out").bounding_box()
    buttons = row(page, "orders").locator(".actions").bounding_box()
    assert out is not None
    assert buttons is not None
    assert out["x"] + out["width"] <= buttons["x"]


def test_on_a_phone_a_strip_of_figures_has_no_hole(page: Page, broker: BusyBroker):
    page.set_viewport_size({"width": 390, "height": 844})
    for name in ("link/c1%2F1%2F0", "queue/orders"):  # five figures; of a link some more are hidden
        open_page(page, broker, name)
        figures = page.locator(".figure:not([hidden])")
        expect(figures).to_have_count(5)
        strip, last = page.locator(".figures").bounding_box(), figures.last.bounding_box()
        assert strip is not None
        assert last is not None
        assert last["width"] >= strip["width"] - 4, name


def test_on_a_phone_the_words_to_sort_by_take_one_line(page: Page, broker: BusyBroker):
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, broker, "queues")
    expect(page.locator("tbody tr").first).to_be_visible()
    box = page.locator("thead tr").bounding_box()
    assert box is not None
    assert box["height"] < 48
    expect(page.locator("thead").get_by_role("button", name="type")).to_be_attached()
    page.locator("thead").get_by_role("button", name="type").click()  # it scrolls into view
    expect(page.locator("thead th[aria-sort=descending]")).to_contain_text("type")


def test_columns_are_chosen_and_the_choice_is_remembered(page: Page, broker: BusyBroker):
    open_page(page, broker, "queues")
    heading = page.get_by_role("columnheader", name="policy")
    cell = row(page, "orders").locator("td").nth(-2)
    expect(heading).to_be_visible()
    page.get_by_role("button", name="Columns of Queues").click()
    page.locator("dialog").get_by_label("policy", exact=True).uncheck()
    page.keyboard.press("Escape")
    expect(heading).to_be_hidden()
    expect(cell).to_be_hidden()
    page.get_by_role("button", name="Columns of Queues").click()
    page.locator("dialog").get_by_label("durable", exact=True).check()
    page.locator("dialog").get_by_role("button", name="Close").click()
    page.reload()
    expect(page.get_by_role("columnheader", name="durable")).to_be_visible()
    expect(page.get_by_role("columnheader", name="policy")).to_be_hidden()


def test_the_log_is_shown_with_the_newest_line_first_and_searched(page: Page, broker: BusyBroker):
    httpx.put(f"{broker.admin_url}/api/headgate/alarms/memory", headers={"x-headgate-request": "1"}).raise_for_status()
    httpx.delete(f"{broker.admin_url}/api/headgate/alarms/memory", headers={"x-headgate-request": "1"})
    open_page(page, broker, "log")
    expect(row(page, "connection-established").first).to_be_visible()
    numbers = httpx.get(f"{broker.admin_url}/api/headgate/log").json()
    assert [line["number"] for line in numbers] == sorted((line["number"] for line in numbers), reverse=True)
    page.get_by_label("Search Log").fill("memory alarm")
    expect(row(page, "connection-established")).to_have_count(0)
    expect(row(page, "memory").first).to_be_visible()


def test_the_audit_log_is_shown_and_without_one_the_page_says_how_to_get_it(
    page: Page, broker: BusyBroker, tmp_path: Path
):
    open_page(page, broker, "audit-log")
    expect(page.get_by_text("audit.file")).to_be_visible()
    settings = f"[audit]\nfile = {json.dumps(str(tmp_path / 'audit.log'))}\n"
    with broker_with_console(tmp_path, more=settings) as (_, admin_url):
        api = {"base_url": f"{admin_url}/api", "headers": {"x-headgate-request": "1"}}
        with httpx.Client(**api) as client:  # type: ignore[arg-type]
            client.put("/queues/%2F/audited", json={}).raise_for_status()
            client.put("/headgate/alarms/nonsense")
        page.goto(f"{admin_url}/#/audit-log")
        expect(row(page, "done", "audited").first).to_be_visible()
        expect(row(page, "failed", "nonsense")).to_have_count(1)


def test_a_page_about_what_has_gone_says_so(page: Page, broker: BusyBroker):
    page.goto(f"{broker.admin_url}/#/link/c99%2F0%2F0")
    expect(page.locator(".fault")).to_contain_text("It has gone, or was never there.")


def test_with_a_token(context: BrowserContext, page: Page, watch: Watch, tmp_path: Path):
    with busy_broker(tmp_path, token=TOKEN) as broker:
        page.goto(broker.admin_url)
        page.get_by_label("token").fill("wrong-wrong-wrong")
        page.keyboard.press("Enter")
        expect(page.locator(".login [role=alert]")).to_contain_text("was not accepted")
        page.get_by_label("token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(row(page, "shop").locator(".badge")).to_have_text("queue-full")
        page.reload()
        expect(row(page, "shop").locator(".badge")).to_have_text("queue-full")
        assert not any(TOKEN in url for url in watch.urls)
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
        assert TOKEN not in cookie["value"]
        assert page.evaluate("[document.cookie, sessionStorage.length, ...Object.values(localStorage)]") == ["", 0, ""]
    expect(page.locator("#live")).to_have_text("no answer")


def test_when_the_cause_ends_it_is_shown_no_more(page: Page, broker: BusyBroker):
    open_page(page, broker, "blocked-publishers")
    expect(row(page, "shop")).to_have_count(1)
    broker.free_orders()
    expect(row(page, "shop")).to_have_count(0)
    expect(page.get_by_text("No publisher waits")).to_be_visible()
    open_page(page, broker, "flow-map")
    expect(page.locator(".map .label", has_text="queue-full")).to_have_count(0)
