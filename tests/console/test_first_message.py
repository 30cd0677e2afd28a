"""The way to a first message through the console is short, and does not grow."""

import pytest
from playwright.sync_api import Page

from tests.console.first_message import CLICKS_MAX, first_message
from tests.kit.browser import Watch
from tests.kit.busy_broker import BusyBroker

pytestmark = pytest.mark.slow


def test_a_first_message_is_published_and_got_with_few_clicks(page: Page, broker: BusyBroker, watch: Watch):
    way = first_message(page, broker.admin_url)
    assert 0 < way.clicks <= CLICKS_MAX
    assert watch.complaints == []
