"""The page of the cluster in a browser, with three real nodes: all are there, and then one is killed."""

import os
import re
import signal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.kit.browser import Watch
from tests.kit.busy_broker import BusyBroker
from tests.kit.demo_cluster import NEXT_LEADER, demo_cluster

pytestmark = pytest.mark.slow

SECONDS_MAX = 30


def node(name: str, *, state: str = "member", here: bool = True, progress: dict[str, object] | None = None):
    """A node of an answer."""
    address = f"10.0.0.{ord(name) - ord('a') + 1}:5672"
    row = {"node": name, "state": state, "here": here, "progress": progress, "addresses": [address] if here else []}
    return row | {"leads": [], "version": "1.0.0", "set_aside": False, "problems": {}, "etcd": "", "etcd_peer": ""}


def progress(copied: int, groups: int, came: int, seconds: float, *waits_for: str) -> dict[str, object]:
    return {"copied": copied, "groups": groups, "bytes": came, "seconds": seconds, "waits_for": list(waits_for)}


def show(page: Page, broker: BusyBroker, *nodes: dict[str, object]) -> Locator:
    """Open the page with these nodes for the broker's answer. Returns the table of the nodes."""
    engine = {"endpoints": [], "tls": False, "asked": "10.0.0.1:2379", "requests": 1, "failures": 0, "own": None}
    answer = {"name": "demo", "node": "a", "joined": True, "trouble": "", "engine": engine, "members_version": 1}
    answer |= {"nodes": nodes, "groups": []}
    page.unroute_all()
    page.route(re.compile(r"/api/headgate/cluster(\?|$)"), lambda route: route.fulfill(json=answer))
    page.goto(f"{broker.admin_url}/#/cluster")
    return page.get_by_role("table", name="Nodes")


def test_a_node_that_joins_is_a_badge_with_what_it_has_copied(page: Page, watch: Watch, broker: BusyBroker):
    joining = node("d", state="joining", progress=progress(3, 16, 13_002_342, 8.4, "copies", "definitions"))
    table = show(page, broker, node("a"), node("b"), node("c"), joining)
    states = table.locator("tbody tr").locator("td:nth-child(2)")
    expect(states).to_have_text(
        ["here"] * 3 + ["joining3 of 16 groups copied, 12.4 MiB in 8.4 s; waits for definitions"]
    )
    expect(table.locator(".badge")).to_have_text(["joining"])
    expect(page.get_by_text("One node can be lost, and quorum queues go on.")).to_be_visible()
    assert watch.complaints == []


def test_the_other_states_of_a_node(page: Page, broker: BusyBroker):
    waits = progress(0, 0, 0, 0.0, "the vote of its etcd")
    copies = progress(1, 2, 512, 0.0, "copies")
    table = show(
        page, broker, node("a", progress=copies), node("b", state="leaving"), node("c", here=False),
        node("d", state="joining", here=False), node("e", state="joining", progress=waits), node("f", state="joining"),
    )  # fmt: skip
    states = table.locator("tbody tr").locator("td:nth-child(2)")
    expect(states).to_have_text(
        [
            "copying1 of 2 groups copied, 512 B in 0 s",
            "leaving",
            "away",
            "joiningaway",
            "joiningwaits for the vote of its etcd",
            "joining",
        ]
    )
    expect(table.locator("td.halt", has_text="away")).to_have_count(2)
    expect(page.get_by_text("No further node can be lost")).to_be_visible()


def test_a_node_that_is_killed_is_away_and_no_further_one_can_be_lost(page: Page, watch: Watch):
    with demo_cluster() as demo:
        nodes, leader = demo.nodes(), demo.leader()
        other = next(name for name in nodes if name != leader)
        page.goto(f"{demo.console(other)}#/cluster")
        expect(page.locator("h1")).to_have_text("Cluster")
        figure = page.locator(".figure")
        expect(figure.filter(has_text="nodes here")).to_contain_text("3 of 3")
        expect(figure.filter(has_text="more can be lost")).to_contain_text("1")
        expect(figure.filter(has_text="groups with a leader")).to_contain_text("3 of 3")
        expect(page.get_by_text("One node can be lost, and quorum queues go on.")).to_be_visible()
        expect(page.get_by_text(f"Cluster demo, as node {other} sees it.")).to_be_visible()
        table = page.get_by_role("table", name="Nodes")
        expect(table.locator("tbody tr", has_text="here")).to_have_count(3)
        expect(table.locator("tbody tr").filter(has_text=re.compile(r"127\.0\.0\.1:\d+"))).to_have_count(3)

        os.kill(nodes[leader][1], signal.SIGKILL)
        demo.until(NEXT_LEADER)
        expect(figure.filter(has_text="nodes here")).to_contain_text("2 of 3", timeout=SECONDS_MAX * 1000)
        expect(page.get_by_text("No further node can be lost")).to_be_visible()
        expect(table.locator("tbody tr", has_text="away").locator("th")).to_have_text(leader)
        groups = page.get_by_role("table", name="Groups")
        expect(groups.locator("tbody tr")).to_have_count(3)
        expect(groups.locator("tbody tr", has_text="none")).to_have_count(0)
        assert watch.complaints == []


def test_a_broker_alone_says_so(page: Page, broker: BusyBroker):
    page.goto(f"{broker.admin_url}/#/cluster")
    expect(page.get_by_text("This broker is in no cluster")).to_be_visible()
    expect(page.get_by_role("table", name="Nodes")).to_be_hidden()
