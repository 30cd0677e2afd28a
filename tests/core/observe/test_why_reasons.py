"""One scenario for each reason of docs/flow-reasons. ``why`` names the same reason and culprit as the ledger of stalls,
also from the figures alone, and its answer clears when the cause ends."""

from collections.abc import Iterator
from typing import Any

import pytest

from core.amqp091.methods import BasicQos, BasicQosOk
from core.interface import Binding, ExchangeDeclaration, FlowReason, Snapshot
from core.observe.advice import ADVICE, QUEUE_ADVICE, HopKind, WaitsFor
from core.observe.why import why
from core.slices import run_at_once
from tests.kit.looker import Looker
from tests.kit.stall_scenarios import IN, LINKS, OUT, READERS, Cause, consuming, publishing
from tests.kit.wire import InProcessBroker, numbered

AnyCause = Cause[Any]
BY_NAME: dict[str, AnyCause] = {
    **{f"link, {cause.name}": cause for cause in LINKS},
    **{f"reader, {cause.name}": cause for cause in READERS},
}
CAUSES = pytest.mark.parametrize("name", BY_NAME)


def ask(broker: InProcessBroker, kind: str, identity: str, *, ledger: bool = True) -> Snapshot:
    answer = run_at_once(why(Looker(broker, ledger=ledger), kind, identity))
    assert answer is not None
    return answer


def kind_of(name: str) -> str:
    return "links" if name.startswith("link") else "connections"


def verdicts(answer: Snapshot) -> dict[object, object]:
    chain = answer["chain"]
    assert isinstance(chain, list)
    return {hop["edge"]: hop["verdict"] for hop in chain}


def test_every_reason_has_its_scenario_and_its_advice():
    assert {cause.reason for cause in BY_NAME.values()} == {reason.value for reason in FlowReason} - {"no-message"}
    assert list(ADVICE) == list(FlowReason)
    assert list(QUEUE_ADVICE) == list(WaitsFor)


@CAUSES
def test_why_agrees_with_the_ledger_and_clears(name: str):
    cause = BY_NAME[name]
    scenario = cause.begin()
    scenario.broker.go_round(1.0)
    answer = ask(scenario.broker, kind_of(name), cause.identity)
    (stall,) = scenario.broker.stalls.snapshot(cause.identity)
    assert (answer["waits"], answer["reason"], answer["culprit"]) == (True, cause.reason, cause.culprit)
    assert {key: answer[key] for key in ("reason", "culprit", "since", "seconds")} == {
        key: stall[key] for key in ("reason", "culprit", "since", "seconds")
    }
    assert verdicts(answer)[answer["edge"]] == "blocking"
    assert answer["advice"] == ADVICE[FlowReason(cause.reason)].do
    scenario.end()
    scenario.broker.go_round(1.0)
    after = ask(scenario.broker, kind_of(name), cause.identity)
    assert (after["waits"], after["since"], after["also"]) == (False, None, [])
    assert after["reason"] in (None, "no-message")


@CAUSES
def test_the_figures_alone_say_the_same(name: str):
    """There is no ledger of stalls, or it has not looked yet."""
    cause = BY_NAME[name]
    scenario = cause.begin()
    scenario.broker.go_round(1.0)
    answer = ask(scenario.broker, kind_of(name), cause.identity)
    alone = ask(scenario.broker, kind_of(name), cause.identity, ledger=False)
    assert (alone["since"], alone["seconds"]) == (None, None)
    told = ("waits", "reason", "culprit", "edge", "numbers", "also", "chain", "advice")
    assert {key: alone[key] for key in told} == {key: answer[key] for key in told}


@CAUSES
def test_the_connection_and_the_queue_say_so_too(name: str):
    cause = BY_NAME[name]
    scenario = cause.begin()
    scenario.broker.go_round(1.0)
    answers = [ask(scenario.broker, "connections", "test-0")]
    if name != "reader, channel":  # messages that have not left their channel do not wait for the queue
        answers.append(ask(scenario.broker, "addresses", "q"))
    for answer in answers:
        assert (answer["waits"], answer["reason"], answer["culprit"]) == (True, cause.reason, cause.culprit)


# --- row 3.32: each stage slowed in turn ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "edge", "shows"),
    [
        ("link, unconfirmed-limit", HopKind.LINK_QUEUE, {"link_credit": 0, "withheld": False}),
        ("link, queue-full", HopKind.LINK_QUEUE, {"link_credit": 0, "withheld": True, "max_length": 2}),
        ("link, store-slow", HopKind.QUEUE_STORE, {"unsynced": 255, "sync_wanted": True}),
        ("link, memory", HopKind.PUBLISHER_SESSION, {"incoming_window": 0, "incoming_window_closed": True}),
        ("link, session-window", HopKind.LINK_SESSION, {"remote_incoming_window": 0, "waiting": 3}),
        ("link, socket", HopKind.SESSION_CONSUMER, {"waiting": 1}),
        ("reader, channel", HopKind.READER_CHANNEL, {"marked": 1, "held_up_by": ["test-0/1"]}),
        ("reader, queue", HopKind.CHANNEL_QUEUE, {"marked": 1, "held_up_by": ["q"]}),
        ("reader, message store", HopKind.QUEUE_STORE, {"marked": 1, "held_up_by": ["message store"]}),
    ],
)
def test_each_slow_stage_shows_at_its_edge(name: str, edge: HopKind, shows: Snapshot):
    """row 3.32: link credit protects a queue, the session window a session, the socket a reader, and each acts
    alone."""
    cause = BY_NAME[name]
    scenario = cause.begin()
    scenario.broker.go_round(1.0)
    answer = ask(scenario.broker, kind_of(name), cause.identity)
    numbers = answer["numbers"]
    assert answer["edge"] == edge
    assert isinstance(numbers, dict)
    assert {key: numbers.get(key) for key in shows} == shows
    others = {at: verdict for at, verdict in verdicts(answer).items() if at not in (edge, "queue -> consumer")}
    assert "blocking" not in others.values()


# --- idleness, and what a queue waits for --------------------------------------------------------------------------


def test_idleness_is_told_and_is_no_wait():
    broker = InProcessBroker()
    consuming(broker).grant(10)
    broker.go_round(1.0)
    answer = ask(broker, "links", OUT)
    assert (answer["waits"], answer["reason"], answer["edge"]) == (False, "no-message", "queue -> link")
    assert answer["sentence"] == (
        "Nothing holds up link test-0/0/1 (consumes from queue q): it has link credit for 10 messages, and none is"
        " ready."
    )
    assert "blocking" not in verdicts(answer).values()


def test_a_link_that_nothing_holds_up():
    broker = InProcessBroker()
    publishing(broker, broker.queue())
    answer = ask(broker, "links", IN)
    assert (answer["waits"], answer["reason"], answer["advice"]) == (False, None, None)
    assert answer["sentence"] == (
        "Nothing holds up link test-0/0/0 (publishes to queue q): link credit for 170 messages."
    )
    assert set(verdicts(answer).values()) == {"ok"}


def test_several_reasons_at_once():
    broker = InProcessBroker()
    peer = publishing(broker, broker.queue())
    broker.stall()
    while left := peer.link(0).credit.link_credit:
        peer.publish(numbered(left))
    broker.raise_alarm("disk")
    broker.go_round(1.0)
    answer = ask(broker, "links", IN)
    assert (answer["reason"], answer["edge"], answer["also"]) == ("disk", "publisher -> session", ["unconfirmed-limit"])


class Told:
    """A broker with one row of stalls that a test writes."""

    def __init__(self, broker: InProcessBroker, reason: str) -> None:
        self._shown = Looker(broker)
        self._stall: Snapshot = {"identity": IN, "reason": reason, "culprit": "somebody", "since": 7.0, "seconds": 9.0}

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`."""
        return iter([self._stall]) if kind == "stalls" else self._shown.rows(kind, identity)


@pytest.mark.parametrize(
    ("reason", "edge"),
    [("queue-full", "link -> queue"), ("drain-mode", "publisher -> session"), ("socket", "session -> consumer")],
)
def test_the_ledger_is_believed_where_the_figures_do_not_show_it(reason: str, edge: str):
    broker = InProcessBroker()
    publishing(broker, broker.queue())
    answer = run_at_once(why(Told(broker, reason), "links", IN))
    assert answer is not None
    assert (answer["waits"], answer["reason"], answer["culprit"]) == (True, reason, "somebody")
    assert (answer["since"], answer["seconds"], answer["edge"]) == (7.0, 9.0, edge)
    assert [at for at, verdict in verdicts(answer).items() if verdict == "blocking"] == [edge]
    means = ADVICE[FlowReason(reason)].means
    assert answer["sentence"] == (
        f"Link {IN} (publishes to queue q) has waited for 9.0 s: {means[0].lower()}{means[1:]}"
    )


def waiting_queue(what: str) -> InProcessBroker:
    broker = InProcessBroker()
    broker.queue()
    if what != "no message":
        broker.fill(numbered(5))
    if what == "consumers without link credit":
        peer = broker.connect()
        peer.begin()
        peer.attach_receiver("/queues/q")
    return broker


@pytest.mark.parametrize("what", ["no message", "no consumer", "consumers without link credit"])
def test_what_a_queue_waits_for(what: str):
    answer = ask(waiting_queue(what), "addresses", "q")
    assert answer["waits_for"] == what
    assert answer["waits"] is (what != "no message")
    assert (what in str(answer["sentence"])) is (what != "no message")
    assert answer["advice"] == (
        ADVICE[FlowReason.LINK_CREDIT].do
        if what == "consumers without link credit"
        else QUEUE_ADVICE[WaitsFor(what)][1]
    )


def test_a_queue_whose_consumers_of_0_9_1_hold_all_they_may():
    scenario = BY_NAME["reader, memory"].begin()
    broker, peer = scenario.broker, scenario.peer
    scenario.end()
    broker.fill(numbered(5))
    peer.call(2, BasicQos(prefetch_count=3), BasicQosOk)
    peer.consume(channel=2)
    answer = ask(broker, "addresses", "q")
    assert (answer["waits"], answer["reason"], answer["waits_for"]) == (True, None, "unacknowledged limit")
    assert answer["edge"] == "queue -> consumer"


def test_a_queue_tells_of_both_its_sides():
    broker = InProcessBroker()
    full = publishing(broker, broker.queue(x_max_length=2, x_overflow="block"))
    full.attach_receiver("/queues/q")
    while left := full.link(0).credit.link_credit:
        full.publish(numbered(left))
    broker.go_round(1.0)
    answer = ask(broker, "addresses", "q")
    assert (answer["reason"], answer["edge"]) == ("queue-full", "link -> queue")
    sides = {}
    for side in ("publishers", "consumers"):
        told = answer[side]
        assert isinstance(told, dict)
        sides[side] = (told["count"], told["waiting"], [(one["identity"], one["reason"]) for one in told["who"]])
    assert sides == {"publishers": (1, 1, [(IN, "queue-full")]), "consumers": (1, 1, [(OUT, "link-credit")])}


def test_a_queue_tells_of_publishers_to_exchanges_that_lead_to_it():
    broker = InProcessBroker()
    broker.queue()
    engine = broker.engine
    engine.declare_exchange(ExchangeDeclaration(name="x", arguments={}))
    for source, destination, is_queue in (
        ("x", "amq.fanout", False),
        ("amq.fanout", "q", True),
        ("amq.topic", "x", False),
    ):
        engine.bind(
            Binding(
                source=source, destination=destination, destination_is_queue=is_queue, binding_key="", arguments={}
            ),
            broker,
        )
    for exchange in ("amq.topic", "amq.direct"):
        publishing(broker, f"/exchanges/{exchange}")
    broker.raise_alarm()
    broker.go_round(1.0)
    answer = ask(broker, "addresses", "q")
    publishers = answer["publishers"]
    assert isinstance(publishers, dict)
    assert (answer["reason"], publishers["count"], publishers["waiting"]) == ("memory", 1, 1)
    assert publishers["who"][0]["identity"] == IN


@pytest.mark.parametrize("kind", ["connections", "links", "addresses", "exchanges"])
def test_links_and_connections_that_do_not_exist(kind: str):
    assert run_at_once(why(Looker(InProcessBroker()), kind, "c17")) is None
