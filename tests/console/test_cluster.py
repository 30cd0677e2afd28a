"""The page of the cluster in a browser, with three real nodes: all are there, and then one is killed."""

import os
import re
import signal

import pytest
from playwright.sync_api import Page, expect

from tests.kit.browser import Watch
from tests.kit.busy_broker import BusyBroker
from tests.kit.demo_cluster import NEXT_LEADER, demo_cluster

pytestmark = pytest.mark.slow

SECONDS_MAX = 30


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
