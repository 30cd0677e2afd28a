"""The text of a whole scrape, of a broker in which every figure differs from the others, is as it was recorded.

Clients cannot rely on the order of families, so both texts are compared family by family.
"""

import platform
from itertools import count
from pathlib import Path

from prometheus_client.exposition import generate_latest

from core.clock import Now
from core.flow_facts import StallSubject
from core.interface import FlowReason
from tests.core.observe.test_metrics import Fixed, Scraped, link, queue

RECORDED = Path(__file__).with_name("scrape.txt")
REASONS = (
    "being drained for a stop",
    "out of descriptors",
    "too many from one address",
    "too many before authentication",
    "too many connections",
    "the moon is full",
)


def busy() -> Scraped:
    """A broker in which everything has happened."""
    scraped, numbers = Scraped(), count(1)
    scraped.broker.queues = [
        {key: value if key == "name" else next(numbers) for key, value in queue(name).items()} for name in "abcd"
    ]
    scraped.broker.alarms.measured("memory", {"used": next(numbers), "limit": next(numbers)})
    scraped.broker.alarms.measured("disk", {"free": next(numbers), "limit": next(numbers)})
    scraped.broker.alarms.set("disk", "by hand")
    scraped.broker.alarms.notice("event-loop-lag", True)
    scraped.server.totals |= {"refused": {reason: next(numbers) for reason in REASONS}}
    balance = ("granted", "consumed", "drained", "withdrawn", "unbalanced")
    scraped.server.links = [
        [
            link(direction, credit=next(numbers), address=f"/queues/{address}", unconfirmed=next(numbers))
            | {"oldest_unsettled_seconds": next(numbers) / 8}
            | {figure: next(numbers) for figure in balance}
            for address in "abcb"
        ]
        for direction in ("in", "out", "in")
    ]
    scraped.server.links.append([{"direction": "out", "link_credit": 0}, link() | {"address": None}])
    scraped.idle["a"] = 0.25
    for traffic in scraped.traffic.values():
        for name in traffic.counts():
            setattr(traffic, name, next(numbers))
        traffic.channels_opened += traffic.channels
        traffic.logins.attempts, traffic.logins.succeeded = next(numbers), next(numbers)
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            traffic.logins.failed[mechanism] += next(numbers)
            traffic.logins.put_off[mechanism] += next(numbers)
        traffic.sizes.counts[1], traffic.sizes.counts[-1], traffic.sizes.total = 7, 1, 200_000_000
        flow = traffic.flow
        for totals in flow.link_credit.values():
            for figure in balance:
                setattr(totals, figure, next(numbers))
        flow.transfers_over_credit = next(numbers)
        flow.flow_frames["in", "grant"] += next(numbers)
        flow.closed_windows.begin(("in", "disk"), float(next(numbers)) / 1000)
        for kind in ("reader", "channel"):
            flow.stage_credit.begin(kind, float(next(numbers)) / 100)
        flow.paused_readers.begin("memory", float(next(numbers)) / 1000)
        flow.settle_seconds[True].observe(0.003, next(numbers))
        flow.settle_seconds[False].observe(0.3, next(numbers))
        flow.decode_errors["pre_auth", "framing-error"] += next(numbers)
        flow.decode_errors["message", "decode-error"] += next(numbers)
    lane = scraped.lanes[0]
    for name in ("batches", "written_bytes", "syncs", "written", "staged_bytes"):
        setattr(lane, name, next(numbers))
    lane.write_seconds, lane.sync_seconds = 1.25, 2.5
    lane.sync_counts[3], lane.batch_counts[2] = next(numbers), next(numbers)
    scraped.lag.lag_counts[4], scraped.lag.lag_seconds = next(numbers), 0.75
    scraped.full_sockets.begin(99.5)
    for address in ("", "/queues/a"):
        who = StallSubject(
            identity=f"c{address}", connection="c", peer="", container_id="", user="", direction="in", address=address
        )
        scraped.stalls.blocked(who, FlowReason.MEMORY, "alarm memory", Now(90.0, 90.0))
    return scraped


def families(text: str) -> list[str]:
    """The families of a text, each with its help, type and series, in the order of their names."""
    return sorted(text.split("# HELP ")[1:])


def test_the_text_of_a_scrape_is_as_recorded():
    text = generate_latest(Fixed(list(filter(None, busy().metrics(addresses_max=2).collect())))).decode()
    text = text.replace(platform.python_version(), "3.x")
    assert families(text) == families(RECORDED.read_text())
