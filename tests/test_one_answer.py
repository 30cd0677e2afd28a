"""Why a link or connection waits: within a second every view gives the same answer, and within a second of the end
none.

The views are the log, the metrics, ``headgate why --json``, the ledger (which the command line, the HTTP API and the
console show), the client's own ``/flow/self``, and, where the list of reasons says that the peer is told, the link's
flow.
"""

import pytest

from amqp10.frontend.reasons import REASON_KEY
from amqp10.wire.performatives import Flow
from amqp10.wire.types import plain
from core.interface import Snapshot
from core.observe.why import why
from core.slices import run_at_once
from tests.amqp10.frontend.test_flow_self import follow, stalls
from tests.kit.looker import Looker
from tests.kit.scraped import Scraped
from tests.kit.stall_scenarios import LINKS, OUT, READERS, Cause
from tests.kit.wire import InProcessBroker, WirePeer
from tests.kit.wire091 import Wire091Peer

DECIDED_BY_THE_CLIENT = {"session-window", "link-credit", "socket"}
"""Reasons that the peer is not told on the link, because they are its own decision. So is that of a consumer that
holds as many unsettled messages as it may."""


def answers(broker: InProcessBroker, kind: str, identity: str) -> dict[str, list[tuple[object, object]]]:
    """The reason and culprit of the one stall, by view; [] where there is no stall. Metrics have no culprit."""
    found = run_at_once(why(Looker(broker), kind, identity))
    assert found is not None
    blocked = Scraped(broker)()["headgate_links_blocked"] if kind == "links" else {}
    return {
        "ledger": [_said(row) for row in broker.control.snapshot("stalls")],
        "why": [_said(found)] if found["waits"] else [],
        "metrics": [(labels[2], labels[1]) for labels, links in blocked.items() if links],
    }


def _said(row: Snapshot) -> tuple[object, object]:
    return row["reason"], row["culprit"]


def lines(broker: InProcessBroker, event: str) -> list[tuple[object, object]]:
    return [_said(line) for line in broker.log.entries if line["event"] == event]


@pytest.mark.parametrize("cause", [pytest.param(cause, id=cause.name) for cause in LINKS])
def test_a_link_of_amqp_1_0(cause: Cause[WirePeer]):
    scenario = cause.begin()
    broker, peer = scenario.broker, scenario.peer
    if cause.reason != "socket":  # a client that does not read is told nothing
        follow(peer)
    answer = (cause.reason, cause.culprit)
    direction = "out" if cause.identity == OUT else "in"
    broker.go_round(1.0)
    assert answers(broker, "links", cause.identity) == {
        "ledger": [answer],
        "why": [answer],
        "metrics": [(cause.reason, direction)],
    }
    assert lines(broker, "stall-started") == [answer]
    if cause.reason != "socket":
        assert stalls(peer) == [("blocked", cause.identity, *answer)]
    told = cause.reason not in DECIDED_BY_THE_CLIENT and (cause.identity, cause.reason) != (OUT, "policy")
    assert flows(peer) == ([cause.reason] if told else [])

    scenario.end()
    broker.go_round(1.0)
    assert answers(broker, "links", cause.identity) == {"ledger": [], "why": [], "metrics": []}
    assert lines(broker, "stall-ended") == [answer]
    if cause.reason != "socket":
        assert stalls(peer) == [("unblocked", cause.identity, *answer)]
    assert flows(peer) == ([None] if told else [])


def flows(peer: WirePeer) -> list[object]:
    """The reasons that the links' flows have given since the last call."""
    taken = peer.take(Flow, lambda flow: REASON_KEY in (flow.properties or {}))
    return [plain(flow.properties[REASON_KEY]) for flow in taken]


@pytest.mark.parametrize("cause", [pytest.param(cause, id=cause.name) for cause in READERS])
def test_a_reader_of_amqp_0_9_1(cause: Cause[Wire091Peer]):
    """AMQP 0.9.1 has no flow that could carry the reason, and no address ``/flow/self``."""
    scenario = cause.begin()
    broker, answer = scenario.broker, (cause.reason, cause.culprit)
    broker.go_round(1.0)
    told = answers(broker, "connections", cause.identity)
    assert (told["ledger"], told["why"]) == ([answer], [answer])
    assert lines(broker, "stall-started") == [answer]
    scenario.end()
    broker.go_round(2.5)  # a stage counts as blocked for a second after its block
    told = answers(broker, "connections", cause.identity)
    assert told["ledger"] == []
    assert lines(broker, "stall-ended") == [answer]
