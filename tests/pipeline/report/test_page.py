"""The page made from figures, without Spark and without tables."""

import re
from html.parser import HTMLParser

import pytest

from pipeline.report.figures import Figures, LinkFigures, Row
from pipeline.report.page import page, sentence

WILD = """<script src="https://elsewhere/x.js">alert('1')</script>&amp;"""
OLDER: Row = {
    "connection": "c1", "link": None, "protocol": "amqp-0-9-1", "container_id": "shop", "address": None,
    "share": 0.8, "bottleneck": "queue", "culprit": "orders", "evidence": "of 10 seconds 8",
}  # fmt: skip
NEWER = OLDER | {"link": "c2/0/0", "protocol": "amqp-1.0", "address": "/queues/orders"}


class Outline(HTMLParser):
    """Everything in a page that could fetch or run something, and whether its tags are closed."""

    EMPTY = frozenset({"meta", "br", "line", "rect", "polyline"})

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
        link="c2/0/0", connection="c2", protocol="amqp-1.0", direction="in", address=name, messages=1000, seconds=10,
        blocked_share=0.25, rates=[(0, 50), (1, 150)], link_credits=[(0, 170), (1, 3)],
    )  # fmt: skip
    return Figures(
        counts=[{"node": name, "kind": None, "records": 1, "unknown": 0, "dropped": 0, "fault": name}],
        verdicts=[verdict, NEWER | {"address": name, "bottleneck": None}],
        verdicts_left_out=3,
        links=[link],
        blocked=[{"direction": "in", "reason": name, "culprit": name, "blocked_us_sum": 2_500_000, "intervals_sum": 4}],
        windows=[{"session": name, "side": name, "begin": 0.5, "end": 0.9}],
        capacity=[{"subject": name, "rate": 80.0, "rate_from": 64.0, "blocked_share": 0.1, "seconds": 9, "knee": True}],
        waits=[{"link": "c2/0/0", "direction": "in", "wait_seconds": 0.25}],
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
    html = page(figures())
    words = text(html)
    for part in (
        "the bottleneck is queue orders", "80%", "3 more are in the table bottlenecks", "AMQP 1.0, c2/0/0 to orders",
        "25%", "250 ms", "2.5 s, 4 times", "an incoming-window was closed", "the knee", "x2", "not readable: orders",
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
        counts=[], verdicts=[], verdicts_left_out=0, links=[], blocked=[], windows=[], capacity=[], waits=[], bench=[]
    )  # fmt: skip
    words = text(page(empty))
    assert "Nothing stood still for 50 ms or longer." in words
    assert "Benchmarks" not in words
