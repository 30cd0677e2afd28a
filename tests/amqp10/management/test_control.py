"""Requests under /headgate: what the broker shows, page by page, and what an operator may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.addresses import percent_encode
from amqp10.management.message import RESPONSE_BYTES_MAX
from amqp10.wire.types import ULong
from core.interface import Mailbox, QueueTarget
from core.operations.links import CLOSED_BY_OPERATOR, REASON_CHARACTERS_MAX
from core.rows import IDENTITY_FIELDS, KINDS, PAGE_MAX, WHY_KINDS
from tests.kit.management import Console

PLAIN_KINDS = [kind for kind in KINDS if kind != "policies"]
"""Kinds of which a single item is shown as its row. Policies are tested in test_control_policies.py."""


@pytest.fixture
def console():
    return Console()


def test_status(console):
    answer = console.ask("GET", "/headgate/status")
    assert (answer.status, answer.body["product"], answer.body["version"]) == (200, "Headgate", "0.1.0")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_listed(console, kind):
    answer = console.ask("GET", f"/headgate/{kind}")
    assert answer.status == 200
    assert set(answer.body) == {"items", "next"}
    assert answer.body["next"] is None


@pytest.mark.parametrize("path", ["/headgate/secrets", "/headgate/status/x", "/headgate/queues/q/x", "/headgate/"])
def test_an_unknown_kind_is_not_found(console, path):
    assert console.ask("GET", path).status == 404


def test_one_of_a_kind(console):
    console.ask("PUT", "/queues/my%2Fqueue", {})
    shown = console.ask("GET", "/headgate/queues/my%2Fqueue")
    assert shown.status == 200
    assert (shown.body["name"], shown.body["messages_ready"]) == ("my/queue", 0)
    assert shown.body == console.ask("GET", "/headgate/queues").body["items"][0]


@pytest.mark.parametrize("kind", PLAIN_KINDS)
def test_one_that_does_not_exist(console, kind):
    answer = console.ask("GET", f"/headgate/{kind}/nobody%20here")
    assert (answer.status, answer.body) == (404, f"there is no 'nobody here' under /headgate/{kind}")


@pytest.mark.parametrize("address", ["my/queue", "/queues/my%2Fqueue"])
def test_why_an_address_waits(console, address):
    console.ask("PUT", "/queues/my%2Fqueue", {})
    console.publish(QueueTarget("my/queue"), 3)
    answer = console.ask("GET", f"/headgate/addresses/{percent_encode(address)}/why")
    assert answer.status == 200
    assert answer.body["subject"]["identity"] == "my/queue"
    assert (answer.body["waits"], answer.body["waits_for"]) == (True, "no consumer")
    assert [hop["verdict"] for hop in answer.body["chain"]] == ["ok", "ok", "blocking"]


@pytest.mark.parametrize("kind", WHY_KINDS)
def test_why_of_what_does_not_exist(console, kind):
    answer = console.ask("GET", f"/headgate/{kind}/c17/why")
    assert (answer.status, answer.body) == (404, f"there is no 'c17' under /headgate/{kind}")


@pytest.mark.parametrize("address", ["/exchanges/amq.topic", "/queue/q", "/queues/"])
def test_why_of_an_address_that_names_no_queue(console, address):
    answer = console.ask("GET", f"/headgate/addresses/{percent_encode(address)}/why")
    assert answer.status == 400
    assert address in answer.body


def test_an_identity_that_does_not_decode(console):
    assert console.ask("GET", "/headgate/queues/%FF").status == 400


def test_numbers_are_longs_unless_they_are_too_large(console):
    console.plant.rows = [{"id": "c", "bytes": 2**63 - 1, "more": 2**63, "up": True, "rate": 0.5}]
    [shown] = console.ask("GET", "/headgate/connections").value["items"]
    assert shown == {"id": "c", "bytes": 2**63 - 1, "more": ULong(2**63), "up": True, "rate": 0.5}


# --- pages ----------------------------------------------------------------------------------------------------


def listing(console, limit):
    """The rows of all pages, read by following ``next``."""
    pages = []
    path = f"/headgate/connections?limit={limit}"
    while True:
        answer = console.ask("GET", path)
        assert answer.status == 200
        pages.append([item["id"] for item in answer.body["items"]])
        if answer.body["next"] is None:
            return pages
        path = f"/headgate/connections?limit={limit}&after={percent_encode(answer.body['next'])}"


@given(
    names=st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=30, unique=True),
    limit=st.integers(1, 12),
)
def test_the_pages_together_hold_everything_once_and_in_order(names, limit):
    console = Console()
    console.plant.rows = [{"id": name} for name in names]
    pages = listing(console, limit)
    assert [name for page in pages for name in page] == sorted(names)
    assert all(len(page) == limit for page in pages[:-1])
    assert len(pages[-1]) <= limit


@pytest.mark.parametrize("field", IDENTITY_FIELDS)
def test_the_broker_s_own_word_comes_before_a_name(console, field):
    console.plant.rows = [{"name": "z", field: "a"}, {"name": "y", field: "b"}]
    items = console.ask("GET", "/headgate/connections").body["items"]
    assert [item[field] for item in items] == ["a", "b"]


def test_equal_identities_stay_on_one_page(console):
    console.plant.rows = [{"id": name} for name in "abbbc"]
    assert listing(console, 2) == [["a", "b", "b", "b"], ["c"]]


def test_what_goes_between_two_pages_takes_nothing_with_it(console):
    console.plant.rows = [{"id": name} for name in "abcdef"]
    first = console.ask("GET", "/headgate/connections?limit=3").body
    assert first["next"] == "c"
    console.plant.rows = [{"id": name} for name in "bdef"]
    second = console.ask("GET", "/headgate/connections?limit=3&after=c").body
    assert [item["id"] for item in second["items"]] == ["d", "e", "f"]
    assert second["next"] is None


def test_a_page_has_a_thousand_unless_asked_otherwise(console):
    console.plant.rows = [{"id": f"{number:05}"} for number in range(PAGE_MAX + 1)]
    body = console.ask("GET", "/headgate/connections").body
    assert len(body["items"]) == PAGE_MAX
    assert body["next"] == "00999"


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "", "ten", "1.5", "%D9%A3", "9" * 5000])
def test_a_limit_out_of_bounds(console, limit):
    assert console.ask("GET", f"/headgate/queues?limit={limit}").status == 400


def test_a_page_that_is_too_large_asks_for_a_smaller_limit(console):
    half = "x" * (RESPONSE_BYTES_MAX // 2)
    console.plant.rows = [{"id": "a", "text": half}, {"id": "b", "text": half}]
    answer = console.ask("GET", "/headgate/connections")
    assert answer.status == 400
    assert "ask for less" in answer.body
    assert console.ask("GET", "/headgate/connections?limit=1").status == 200


# --- alarms ---------------------------------------------------------------------------------------------------


def test_an_alarm_is_set_and_cleared_by_hand(console):
    mailbox = Mailbox(lambda: None)
    console.broker.subscribe(mailbox)
    for _ in range(2):
        answer = console.ask("PUT", "/headgate/alarms/memory")
        assert (answer.status, answer.body) == (204, None)
    assert [action.alarms for action in mailbox.take()] == [{"memory"}]
    shown = console.ask("GET", "/headgate/alarms/memory").body
    assert (shown["on"], shown["sources"]) == (True, ["by hand"])
    for _ in range(2):
        assert console.ask("DELETE", "/headgate/alarms/memory").status == 204
    assert [action.alarms for action in mailbox.take()] == [frozenset()]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_an_alarm_that_does_not_exist(console, method):
    answer = console.ask(method, "/headgate/alarms/boredom")
    assert answer.status == 400
    assert "'boredom'" in answer.body


@pytest.mark.parametrize("kind", sorted({*PLAIN_KINDS} - {"alarms", "connections", "links", "sessions"}))
@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_other_kinds_can_only_be_looked_at(console, method, kind):
    assert console.ask(method, f"/headgate/{kind}/x").status == 405


# --- connections ----------------------------------------------------------------------------------------------


def test_a_connection_is_closed_with_a_reason(console):
    console.plant.rows = [{"id": "127.0.0.1:5000/1"}]
    path = f"/headgate/connections/{percent_encode('127.0.0.1:5000/1')}"
    answer = console.ask("DELETE", f"{path}?reason=out+of+order")
    assert (answer.status, answer.body) == (204, None)
    assert console.plant.closed == [("127.0.0.1:5000/1", "out of order")]


def test_the_reason_has_a_default_and_a_bound(console):
    console.plant.rows = [{"id": "c"}]
    console.ask("DELETE", "/headgate/connections/c")
    console.ask("DELETE", f"/headgate/connections/c?reason={'r' * 5000}")
    assert console.plant.closed == [("c", CLOSED_BY_OPERATOR), ("c", "r" * REASON_CHARACTERS_MAX)]


def test_a_connection_that_does_not_exist(console):
    answer = console.ask("DELETE", "/headgate/connections/gone")
    assert (answer.status, answer.body) == (404, "there is no connection 'gone'")
    assert console.plant.closed == []
