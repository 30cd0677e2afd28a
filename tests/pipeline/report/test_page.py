"""The page made from figures, without Spark and without tables."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.report.charts import Value
from pipeline.report.figures import Figures, LinkFigures, Row
from pipeline.report.page import above, page, sentence
from pipeline.report.prometheus import exposition

WILD = """<script src="https://elsewhere/x.js">alert('1')</script>&amp;"""
DAY = "2026-11-27"
OLDER: Row = {
    "day": DAY, "node": "n", "user": "alice",
    "connection": "c1", "link": None, "protocol": "amqp-0-9-1", "container_id": "shop", "address": None,
    "share": 0.8, "bottleneck": "queue", "culprit": "orders", "evidence": "of 10 seconds 8",
}  # fmt: skip
NEWER = OLDER | {"link": "c2/0/0", "protocol": "amqp-1.0", "address": "/queues/orders"}


class Outline(HTMLParser):
    """Everything in a page that could fetch or run something, and whether its tags are closed."""

    EMPTY = frozenset({"meta", "br", "line", "rect", "polyline", "polygon"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self._open.pop() == tag

    def whole(self) -> bool:
        return not self._open


def figures(name: str = "orders") -> Figures:
    verdict = OLDER | {"container_id": name, "culprit": name, "evidence": name}
    link = LinkFigures(
        link="c2/0/0", connection="c2", protocol="amqp-1.0", direction="in", address=name, container_id=name,
        messages=1000, granted=900, seconds=10, rates=[Value(0, 0, 50), Value(1, 0, 150)],
        link_credits=[Value(0, 3, 170), Value(1, 0, 3)], held_up=[(0, 0.5)],
    )  # fmt: skip
    return Figures(
        days=[DAY],
        begin=1795787452,
        end=1795787454,
        counts=[{"node": name, "kind": None, "records": 1, "unknown": 0, "dropped": 0, "fault": name}],
        verdicts=[verdict, NEWER | {"address": name, "bottleneck": None}],
        verdicts_left_out=3,
        links=[link],
        blocked=[{"direction": "in", "reason": name, "culprit": name, "blocked_us_sum": 2_500_000, "intervals_sum": 4}],
        culprits=[{"user": name, "address": name, "culprit": name, "blocked_us_sum": 2_500_000, "intervals_sum": 4}],
        windows=[{"session": name, "side": name, "begin": 0.5, "end": 0.9}],
        capacity=[
            {"day": DAY, "subject": name, "rate": 80.0, "rate_from": 64.0, "blocked_share": 0.1, "seconds": 9,
             "knee": True}
        ],
        waits=[
            {"day": DAY, "node": "n", "connection": "c2", "link": "c2/0/0", "direction": "in", "wait_seconds": 0.25}
        ],
        weeks=[
            {"day": f"2026-11-2{n}", "before": f"2026-11-1{3 + n}", "messages": 200, "messages_before": 100,
             "blocked_us": 1_000_000, "blocked_us_before": None, "bottlenecks": 1, "bottlenecks_before": None}
            for n in (6, 7)
        ],
        bench=[
            {"scenario": name, "broker": name, "figure": name, "median": 5.0, "ratio": 2.0, "earlier_file": name,
             "earlier_commit": name}
        ],
    )  # fmt: skip


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (OLDER, "AMQP 0.9.1, connection c1 (shop): the bottleneck is queue orders"),
        (OLDER | {"bottleneck": "channel", "culprit": "c1/3"},
         "AMQP 0.9.1, connection c1 (shop): the bottleneck is channel c1/3: routing, CPU"),
        (OLDER | {"bottleneck": "message store"},
         "AMQP 0.9.1, connection c1 (shop): the bottleneck is the message store: the disk"),
        (OLDER | {"bottleneck": None}, "AMQP 0.9.1, connection c1 (shop): no bottleneck"),
        (NEWER | {"bottleneck": None}, "AMQP 1.0, link c2/0/0 to /queues/orders: no bottleneck"),
        (NEWER | {"bottleneck": "store-slow", "culprit": "store"},
         "AMQP 1.0, link c2/0/0 to /queues/orders: it waits because of store-slow; what has to change is store"),
    ],
)  # fmt: skip
def test_a_verdict_in_words(verdict: Row, words: str):
    assert sentence(verdict) == words


def test_the_page_has_every_part():
    html = page(figures(), limit=0.5)
    words = text(html)
    for part in (
        "the bottleneck is queue orders", "80%", "3 more are in the table bottlenecks",
        "AMQP 1.0, c2/0/0 of orders to orders", "How it flowed: 2026-11-27, 13:50:52 to 13:50:54 UTC",
        "250 ms", "2.5 s, 4 times", "an incoming-window was closed", "held up for more than 50%", "+100%",
        "Week beside week", "orders orders orders 2.5 s",
        "the knee", "x2", "not readable: orders",
    ):  # fmt: skip
        assert part in words, part
    assert html.count("<svg") == 3


def test_the_page_fetches_nothing_and_runs_nothing_whatever_names_there_are():
    html = page(figures(WILD))
    outline = Outline()
    outline.feed(html)
    assert outline.whole()
    assert not {"script", "link", "img", "iframe", "object", "base", "form", "a"} & set(outline.tags)
    assert not {"src", "href", "style"} & outline.attributes
    assert not [name for name in outline.attributes if name.startswith("on")]
    assert "url(" not in html
    assert "@import" not in html
    assert WILD.replace("'", "&#x27;").replace('"', "&quot;") not in html
    assert "alert(" in text(html)


def test_tables_without_anything_in_them_make_a_page_too():
    empty = Figures(
        days=[], begin=0, end=0, counts=[], verdicts=[], verdicts_left_out=0, links=[], blocked=[], culprits=[],
        windows=[], capacity=[], waits=[], weeks=[], bench=[],
    )  # fmt: skip
    words = text(page(empty))
    assert "Nothing stood still for 50 ms or longer." in words
    assert "Benchmarks" not in words
    assert "Week beside week" not in words


def test_what_is_above_the_limit_is_marked():
    shown = figures()
    assert [row["share"] for row in above(shown, 0.5)] == [0.8, 0.8]
    assert above(shown, 0.8) == []
    assert page(shown, limit=0.5).count('<tr class="above">') == 2
    assert '<tr class="above">' not in page(shown)


def test_links_of_one_connection_can_be_told_apart_in_the_charts():
    shown = figures()
    other = replace(shown.links[0], link="c2/1/0", address="other")
    html = page(replace(shown, links=[shown.links[0], other]))
    names = re.findall(r'class="name"[^>]*>([^<]*)<', html)
    assert names[:2] == [
        "AMQP 1.0, c2/0/0 of orders to orders: 100 messages/s", "AMQP 1.0, c2/1/0 of orders to other: 100 messages/s",
    ]  # fmt: skip


def test_link_credit_is_shown_from_the_least_to_the_most():
    chart = page(figures()).split("Link credit and windows")[1].split("</svg>")[0]
    points = re.search(r'<polygon[^>]*points="([^"]*)"', chart)
    assert points is not None
    heights = {float(point.split(",")[1]) for point in points[1].split()}
    assert len(heights) == 3, "the most, the least, and 0: no flat line"


def test_a_link_that_never_has_link_credit_left_is_told_in_words_and_is_no_flat_line():
    shown = figures()
    empty = replace(shown.links[0], link_credits=[Value(0, 0, 0), Value(1, 0, 0)])
    html = page(replace(shown, links=[empty])).split("Link credit and windows")[1].split("<h2>")[0]
    assert "used up the 90 messages/s that it was granted" in html
    assert "<svg" not in html


def test_figures_for_prometheus():
    text = exposition(figures('a "b"\n\\c'))
    lines = text.splitlines()
    assert sum(line.startswith("# TYPE headgate_pipeline_") for line in lines) == 4
    name = r"a \"b\"\n\\c"
    labels = f'node="n",connection="c1",link="",protocol="amqp-0-9-1",container_id="{name}",user="alice",address=""'
    assert f"headgate_pipeline_held_up_ratio{{{labels}}} 0.8" in lines
    assert f'headgate_pipeline_bottleneck{{{labels},bottleneck="queue",culprit="{name}"}} 1' in lines
    assert f'headgate_pipeline_blocked_seconds{{user="{name}",address="{name}",culprit="{name}"}} 2.5' in lines
    assert lines[-1] == "headgate_pipeline_dropped_records 0"
    assert len(list(text_string_to_metric_families(text))) == 4
