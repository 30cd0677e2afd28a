"""Metrics of single links, for a client that asks for them."""

from collections.abc import Iterator, Sequence

from core.interface import Snapshot
from core.observe.metric_families import ON_DEMAND
from core.observe.metrics import LinkMetrics

ROWS: list[list[Snapshot]] = [
    [
        {
            "identity": "c1/0/0",
            "vhost": "/",
            "direction": "in",
            "address": "/queues/a",
            "link_credit": 170,
            "delivery_count": 3,
            "unconfirmed": 2,
        },
        {
            "identity": "c1/0/1",
            "vhost": "/",
            "direction": "out",
            "address": "/queues/b",
            "link_credit": 10,
            "delivery_count": 0,
            "waiting": 1,
            "queue_grant": None,
        },
    ],
    [
        {"identity": host, "vhost": host, "direction": "in", "address": address, "link_credit": 1, "delivery_count": 0}
        for host, address in (("/", None), ("b", "/queues/b"))
    ],
]


class Connections:
    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, kind: str) -> Iterator[Sequence[Snapshot]]:
        assert kind == "links"
        for rows in ROWS:
            self.asked += 1
            yield rows


def series(address: str | None = None, limit: int = 10) -> dict[tuple[str, str], float]:
    """Values by family and link."""
    families = filter(None, LinkMetrics(Connections()).collect(address, limit))
    return {(metric.name, sample.labels["link"]): sample.value for metric in families for sample in metric.samples}


def test_each_figure_of_each_link():
    found = series()
    assert found[("headgate_link_link_credit", "c1/0/0")] == 170
    assert found[("headgate_link_unconfirmed", "c1/0/0")] == 2
    assert found[("headgate_link_waiting", "c1/0/1")] == 1
    assert {link for _, link in found} == {"c1/0/0", "c1/0/1", "/", "b"}


def test_what_a_link_has_not_is_left_out():
    assert ("headgate_link_queue_grant", "c1/0/1") not in series()


def test_the_links_of_an_address():
    assert {link for _, link in series("/queues/b")} == {"c1/0/1"}
    assert {link for _, link in series("vhost:b:/queues/b")} == {"b"}  # a queue of that name in another virtual host
    assert series("/queues/nowhere") == {}


def test_no_more_are_looked_for_than_are_wanted():
    connections = Connections()
    families = list(filter(None, LinkMetrics(connections).collect(None, 1)))
    assert [metric.name for metric in families] == [family.name for family in ON_DEMAND]
    assert connections.asked == 1


def test_others_have_their_turn_behind_each_connection():
    connections = Connections()
    asked = [connections.asked for step in LinkMetrics(connections).collect("/queues/nowhere", 1) if step is None]
    assert asked == [1, 2]
