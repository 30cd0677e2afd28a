"""What ``headgate top`` shows of the rows of the HTTP API."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.top.rows import (
    CONNECTION_COLUMNS,
    LINK_COLUMNS,
    SESSION_COLUMNS,
    LinkRow,
    Order,
    connection_cells,
    headline,
    link_rows,
    printable,
    seconds,
    session_cells,
    sorted_links,
    why_text,
)

LINK = LinkRow(
    identity="c1/0/0",
    session="c1/0",
    connection="c1",
    client="shop",
    direction="in",
    address="/queues/orders",
    link_credit=10,
    unsettled=0,
    unsettled_age_s=None,
    session_window=None,
    window=None,
    round_trip_ms=None,
    share=None,
    limited_by="",
    rate=0.0,
    blocked_s=0.0,
    reason=None,
    culprit=None,
)

OVERVIEW = {
    "rates": {"in": 120.04, "out": 1.0, "confirmed": 0.0, "settled": 0.0},
    "links_blocked": {"queue-full": 2, "memory": 1},
    "alarms": ["memory"],
    "ready": 12,
    "unacked": 3,
}


def test_a_link_is_put_together_from_what_four_lists_say():
    rows = link_rows(
        links=[
            {
                "identity": "c1/0/0",
                "session": "c1/0",
                "connection": "c1",
                "direction": "in",
                "address": "/queues/orders",
                "link_credit": 0,
                "unconfirmed": 7,
                "oldest_unsettled_seconds": 2.5,
                "window": 64,
                "round_trip_ms": 50.25,
                "share_per_second": 1000,
                "limited_by": "queue",
            },
            {
                "identity": "c2/0/0",
                "session": "c2/0",
                "connection": "c2",
                "direction": "out",
                "waiting": 4,
                "unsettled": 5,
                "link_credit": 5,
            },
            {"identity": "c2/0/1", "session": "c2/0", "connection": "c2", "address": "/management"},
        ],
        connections=[{"identity": "c1", "container_id": "shop"}, {"identity": "c2", "container_id": None}],
        stalls=[{"identity": "c1/0/0", "reason": "queue-full", "culprit": "queue orders", "seconds": 9.0}],
        flow_map={"edges": [{"identity": "c2/0/0", "rate": 33.0}]},
        sessions=[
            {"identity": "c1/0", "incoming_window": 400, "remote_incoming_window": 7},
            {"identity": "c2/0", "incoming_window": 400, "remote_incoming_window": 2048},
        ],
    )
    first, second = rows
    assert first == replace(
        LINK,
        link_credit=0,
        unsettled=7,
        unsettled_age_s=2.5,
        blocked_s=9.0,
        reason="queue-full",
        culprit="queue orders",
        session_window=400,
        window=64,
        round_trip_ms=50.25,
        share=1000,
        limited_by="queue",
    )
    assert first.cells()[-5:] == ("400", "64", "50.2ms", "1000", "queue")
    assert (second.client, second.unsettled, second.rate, second.reason) == ("c2", 9, 33.0, None)
    assert second.cells()[-5:] == ("2048", "-", "-", "-", "-")


def test_cells_fit_their_columns():
    assert len(LINK.cells()) == len(LINK_COLUMNS)
    assert LINK.cells()[4:8] == ("-", "-", "-", "10")
    session = {"identity": "c1/0", "links": 1, "incoming_window": 0, "unsettled_in": 2}
    assert session_cells(session) == ("c1/0", "1", "0", "-", "2", "-")
    assert len(session_cells({})) == len(SESSION_COLUMNS)
    cells = connection_cells({"identity": "c1", "container_id": "shop", "links": 2}, {"c1": 1})
    assert len(cells) == len(CONNECTION_COLUMNS)
    assert (cells[0], cells[-2], cells[-1]) == ("shop", "2", "1")


@pytest.mark.parametrize(
    ("order", "identities"),
    [
        (Order.BLOCKED, ["blocked", "aged", "fast", "starved"]),
        (Order.LINK_CREDIT, ["starved", "aged", "blocked", "fast"]),
        (Order.UNSETTLED_AGE, ["aged", "blocked", "fast", "starved"]),
        (Order.RATE, ["fast", "blocked", "aged", "starved"]),
    ],
)
def test_the_worst_is_first(order: Order, identities: list[str]):
    links = [
        replace(LINK, identity="starved", link_credit=0),
        replace(LINK, identity="blocked", blocked_s=9.0, link_credit=3),
        replace(LINK, identity="aged", unsettled_age_s=5.0, link_credit=2),
        replace(LINK, identity="fast", rate=50.0),
    ]
    assert [link.identity for link in sorted_links(links, order)] == identities


@given(st.lists(st.builds(replace, st.just(LINK), identity=st.text(min_size=1), blocked_s=st.floats(0, 9))), st.data())
def test_lines_rest_whatever_order_they_came_in(links: list[LinkRow], data: st.DataObject):
    shuffled = data.draw(st.permutations(links))
    for order in Order:
        assert [one.identity for one in sorted_links(links, order)] == [
            one.identity for one in sorted_links(shuffled, order)
        ]


@given(st.text())
def test_a_terminal_is_sent_nothing_that_it_obeys(name: str):
    shown = printable(name)
    assert shown.isprintable()
    assert len(shown) <= 48


def test_an_escape_sequence_is_shown_as_what_it_is():
    assert printable("\x1b[2Jgone\n") == "\N{REPLACEMENT CHARACTER}[2Jgone\N{REPLACEMENT CHARACTER}"


def test_the_headline_has_rates_and_alarms():
    assert headline(OVERVIEW).splitlines() == [
        "in 120.0/s  out 1.0/s  confirmed 0.0/s  settled 0.0/s  ready 12  unsettled 3",
        "waiting: 1 memory, 2 queue-full   alarms: memory",
    ]
    assert headline({}).splitlines()[1] == "waiting: none   alarms: none"


def test_why_in_lines():
    answer = {
        "sentence": "It waits: the queue is full.",
        "advice": "Consume.",
        "chain": [
            {"edge": "session -> link", "verdict": "ok", "says": ""},
            {"edge": "link -> queue", "verdict": "blocking", "says": "full\x1b"},
        ],
    }
    assert why_text(answer).splitlines() == [
        "It waits: the queue is full.",
        "",
        "What to do: Consume.",
        "",
        " o session -> link  ",
        " X link -> queue  full\N{REPLACEMENT CHARACTER}",
    ]


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.0, "0.0s"), (59.94, "59.9s"), (61.0, "1m01s"), (7325.0, "2h02m")]
)
def test_durations(value: float | None, shown: str):
    assert seconds(value) == shown
