"""All blocked seconds in the metrics, over one run of both protocols: figures that another way to count them must keep.

The run was written when each stall and each party of stage credit kept a time of its own, which every scrape added up.
"""

from core.amqp091.methods import ChannelClose
from tests.kit.scraped import Scraped
from tests.kit.settings import make_settings
from tests.kit.wire import InProcessBroker, numbered
from tests.kit.wire091 import connect

FAMILIES = {
    "link": "headgate_link_blocked_seconds_total",
    "stage": "headgate_stage_credit_blocked_seconds_total",
    "window": "headgate_session_window_closed_seconds_total",
    "reader": "headgate_connection_read_paused_seconds_total",
}
FEW = make_settings(amqp10={"max_link_credit": 10, "link_credit_top_up": 5, "unconfirmed_limit": 10})

Figures = dict[tuple[str, ...], float]


EXPECTED = {
    ("link", "/queues/b", "out", "link-credit"): [800, 2800, 5800, *[6000] * 11],
    ("link", "/queues/b", "out", "session-window"): [0, 0, 0, 800, 2800, 2800, *[3000] * 8],
    ("link", "/queues/a", "in", "disk"): [0, 0, 0, 1000, *[3000] * 10],
    ("link", "", "in", "disk"): [0, 0, 0, 0, *[2000] * 10],
    ("link", "", "in", "stage-credit"): [0, 0, 3000, 4000, 4000, 4000, 4000, 5000, 5000, 5000, 6000, 7000, 7000, 7000],
    ("stage", "reader"): [0, 0, 3000, 4000, 4000, 4000, 4000, 5000, 5000, 5000, 6000, 7000, 7000, 7000],
    ("stage", "channel"): [0, 0, 3000, 4000, 4000, 4000, 4000, 5000, 5000, 5000, 6000, 7000, 7000, 7000],
    ("window", "in", "disk"): [0, 0, 0, 1000, *[3000] * 10],
    ("window", "out", "session-window"): [0, 0, 0, 800, 2800, 2800, *[3000] * 8],
    ("reader", "amqp091", "disk"): [0, 0, 0, 0, *[2000] * 10],
    ("reader", "amqp091", "stage-credit"): [
        0,
        0,
        3000,
        4000,
        4000,
        4000,
        4000,
        5000,
        5000,
        5000,
        6000,
        7000,
        7000,
        7000,
    ],
}
"""Milliseconds of each series, at each moment of the run."""


def blocked(scrape: Scraped) -> Figures:
    """All blocked seconds that are not 0, in milliseconds."""
    found = scrape()
    return {
        (short, *labels): round(seconds * 1000)
        for short, name in FAMILIES.items()
        for labels, seconds in found.get(name, {}).items()
        if seconds
    }


def test_the_blocked_seconds_of_a_run_of_both_protocols():
    broker = InProcessBroker(FEW)
    scrape, told = Scraped(broker), list[Figures]()

    def after(seconds: float) -> None:
        broker.go_round(seconds)
        told.append(blocked(scrape))

    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue("a"), handle=0)
    peer.attach_receiver(broker.queue("b"), handle=1)
    broker.fill(numbered(20), "b")
    after(1.0)  # the consumer of b has no link credit
    broker.stall("a")
    peer.publish(numbered(10))
    after(2.0)  # the publisher of a has none either
    publisher = connect(broker, 1, 2)
    publisher.declare("c")
    broker.stall("c")
    for _ in range(10):
        publisher.publish(1, numbered(100), routing_key="c")
    after(3.0)  # the reader and the channel of 0.9.1 have no stage credit
    broker.raise_alarm("disk")
    peer.grant(100, handle=1, incoming_window=2)
    after(1.0)
    broker.recover("a")
    broker.recover("c")
    publisher.publish(2, numbered(1), routing_key="c")
    after(2.0)  # the alarm holds up both publishers
    broker.clear_alarm("disk")
    peer.flow(incoming_window=1000)
    publisher.publish(1, numbered(1), routing_key="c")
    after(0.0)
    after(2.0)
    broker.stall("c")
    for _ in range(10):
        publisher.publish(1, numbered(100), routing_key="c")
    after(1.0)  # the reader and the channel again
    broker.engine.delete_queue("c", broker)
    broker.run()
    after(0.0)
    after(1.0)
    broker.stall("a")
    publisher.publish(2, numbered(1000), routing_key="a")
    after(1.0)
    publisher.send(2, ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0))
    peer.disconnect()
    after(1.0)
    publisher.disconnect()
    after(0.0)
    after(1.0)
    series = {key for figures in told for key in figures}
    assert {key: [figures.get(key, 0) for figures in told] for key in series} == EXPECTED
