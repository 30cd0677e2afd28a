"""A queue with ``x-deduplicate`` takes each publishing id on once, and answers every repeat."""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given

from core.config.settings import Settings
from core.engine.options.arguments import check_queue
from core.engine.options.policies import PolicyDeclaration
from core.errors import Inequivalent, Invalid, PreconditionFailed
from core.interface import Disposal, Outcome, QueueTarget
from core.message import Attributes
from tests.kit.dead_letters import PlainConverter, body
from tests.kit.engine import Peer, confirms, entries_for, make_broker, queue

ACCEPTED, REJECTED = Outcome.ACCEPTED, Outcome.REJECTED


def make(settings=None, **arguments):
    broker = make_broker(settings=settings, converter=PlainConverter())
    broker.declare_queue(queue("q", x_deduplicate=True, **arguments), "x")
    return broker, Peer(broker)


def row(broker):
    return broker.snapshot("queues", "q")[0]


def outcomes(peer):
    """Turn until nothing more comes. Returns the outcome of each message, by confirm number."""
    found = {}
    for _ in range(20):
        for first, last, outcome in confirms(peer.turn()):
            for number in range(first, last + 1):
                assert number not in found, "answered twice"
                found[number] = outcome
    return dict(sorted(found.items()))


def taken(peer, name="q"):
    consumer = peer.consume(name, 10_000)
    entries = []
    for _ in range(20):
        entries += [body(entry) for entry in entries_for(peer.turn(), consumer)]
    return entries


def test_a_repeat_is_accepted_and_not_delivered_again():
    broker, peer = make()
    peer.publish("q", [b"p#0", b"p#1"])
    peer.publish("q", [b"p#0", b"p#1", b"p#2"])
    assert set(outcomes(peer).values()) == {ACCEPTED}
    assert taken(peer) == [b"p#0", b"p#1", b"p#2"]
    assert (row(broker)["published"], row(broker)["repeated"]) == (3, 2)


def test_a_repeat_within_a_run_is_one_too():
    broker, peer = make()
    peer.publish("q", [b"p#0", b"p#0", b"q#0", b"p#1", b"p#0"])
    assert set(outcomes(peer).values()) == {ACCEPTED}
    assert taken(peer) == [b"p#0", b"q#0", b"p#1"]
    assert row(broker)["repeated"] == 2


def test_it_is_a_repeat_after_the_first_was_consumed_or_purged():
    broker, peer = make()
    peer.publish("q", [b"p#0"])
    consumer = peer.consume("q", 10)
    peer.turn()
    broker.settle(consumer, 0, 0, Disposal.ACCEPTED)
    peer.publish("q", [b"p#0"])
    assert set(outcomes(peer).values()) == {ACCEPTED}
    assert row(broker)["messages_ready"] == row(broker)["messages_unacknowledged"] == 0


def test_messages_without_an_id_are_never_repeats():
    _, peer = make()
    peer.publish("q", [b"x", b"x"])
    peer.publish("q", [b"x"])
    outcomes(peer)
    assert taken(peer) == [b"x"] * 3


def test_an_id_that_was_rejected_at_the_limit_is_taken_on_later():
    broker, peer = make(x_max_length=2, x_overflow="reject-publish")
    peer.publish("q", [b"p#0", b"p#1", b"p#2", b"p#0", b"p#2"])
    assert list(outcomes(peer).values()) == [ACCEPTED, ACCEPTED, REJECTED, ACCEPTED, REJECTED]
    assert taken(peer) == [b"p#0", b"p#1"]
    peer.publish("q", [b"p#2"])
    assert set(outcomes(peer).values()) == {ACCEPTED}
    assert row(broker)["repeated"] == 1


def test_an_id_that_is_too_low_is_rejected_with_the_setting_that_says_why():
    settings = Settings.model_validate({"engine": {"publishing_id_ranges_max": 2}})
    _, peer = make(settings)
    peer.publish("q", [b"p#0", b"p#5", b"p#9", b"p#20"])
    outcomes(peer)
    peer.publish("q", [b"p#0"])
    (found,) = [action for action in peer.turn() if hasattr(action, "outcome")]
    assert found.outcome is REJECTED
    assert "publishing_id_ranges_max" in str(found.error)


def test_nonsense_in_a_message_rejects_that_message_only():
    _, peer = make()
    peer.publish("q", [b"p#0", b"p#-1", b"p#1"])
    assert list(outcomes(peer).values()) == [ACCEPTED, REJECTED, ACCEPTED]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("value", ["true", 1, None, 100])
def test_nonsense_as_the_argument_is_refused(kind, value):
    with pytest.raises(PreconditionFailed, match=r"x-deduplicate is .* it must be true or false"):
        check_queue(queue("q", x_queue_type=kind, x_deduplicate=value))


def test_a_stream_has_no_such_argument():
    with pytest.raises(PreconditionFailed, match="x-deduplicate is not supported for type 'stream'"):
        check_queue(queue("q", x_queue_type="stream", x_deduplicate=True))


def test_a_repeated_declaration_without_it_differs():
    broker, _ = make()
    with pytest.raises(Inequivalent, match="x-deduplicate"):
        broker.declare_queue(queue("q"), "x")


def test_a_policy_begins_and_ends_it():
    broker = make_broker("q", converter=PlainConverter())
    peer = Peer(broker)
    peer.publish("q", [b"p#0", b"p#0"])
    outcomes(peer)
    broker.policies.set(PolicyDeclaration(name="keep", pattern="q", definition={"deduplicate": True}))
    peer.turn()
    peer.publish("q", [b"p#0", b"p#0"])  # what came before is not remembered
    outcomes(peer)
    assert (row(broker)["published"], row(broker)["repeated"]) == (3, 1)
    broker.policies.clear("keep")
    peer.turn()
    peer.publish("q", [b"p#0"])
    outcomes(peer)
    assert (row(broker)["published"], row(broker)["repeated"]) == (4, 1)


def test_nonsense_in_a_policy_is_refused():
    broker = make_broker("q", converter=PlainConverter())
    with pytest.raises(Invalid, match="deduplicate is 'yes', it must be true or false"):
        broker.policies.set(PolicyDeclaration(name="keep", pattern="q", definition={"deduplicate": "yes"}))


def test_a_dead_letter_and_a_moved_message_keep_their_names_and_are_no_repeats():
    broker, peer = make(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.declare_queue(queue("dead", x_deduplicate=True), "x")
    peer.publish("q", [b"p#0"])
    consumer = peer.consume("q", 10)
    outcomes(peer)
    broker.settle(consumer, 0, 0, Disposal.REJECTED)
    outcomes(peer)
    broker.cancel(consumer)
    broker.move_messages("dead", QueueTarget("q"), None)
    outcomes(peer)
    assert row(broker)["messages_ready"] == 1, "it came back, although its id was taken on before"


def test_levels_remember_by_themselves():
    _, peer = make(x_max_priority=5)
    for priority in (1, 5, 1, 5):
        peer.publish("q", [b"p#%d" % priority], Attributes(priority=priority))
    outcomes(peer)
    assert sorted(taken(peer)) == [b"p#1", b"p#5"]


NAMES = st.sampled_from([b"%s#%d" % (publisher, number) for publisher in (b"a", b"b") for number in range(6)] + [b"-"])
STEPS = st.lists(st.lists(NAMES, min_size=1, max_size=8) | st.integers(1, 4), max_size=25)


@given(STEPS, st.integers(1, 5), st.booleans())
def test_each_id_that_was_accepted_is_delivered_exactly_once(steps, limit, rejects):
    arguments = {"x_max_length": limit, "x_overflow": "reject-publish"} if rejects else {}
    broker, peer = make(**arguments)
    sent, delivered, accepted = [], Counter(), set()
    answers = {}

    def see(actions, consumer=None):
        for first, last, outcome in confirms(actions):
            answers.update(dict.fromkeys(range(first, last + 1), outcome))
        if consumer is not None:
            delivered.update(body(entry) for entry in entries_for(actions, consumer))

    for step in steps:
        if isinstance(step, list):
            peer.publish("q", step)
            sent += step
            see(peer.turn())
        else:
            consumer = peer.consume("q", step)
            see(peer.turn(), consumer)
            broker.settle(consumer, 0, step, Disposal.ACCEPTED)
            broker.cancel(consumer)
            see(peer.turn())
    for _ in range(5):
        consumer = peer.consume("q", 1000)
        see(peer.turn(), consumer)
        broker.settle(consumer, 0, 1000, Disposal.ACCEPTED)
        broker.cancel(consumer)
        see(peer.turn())
    assert sorted(answers) == list(range(len(sent)))
    accepted = Counter(entry for number, entry in enumerate(sent) if answers[number] is ACCEPTED)
    assert delivered[b"-"] == accepted[b"-"]
    assert {name: count for name, count in delivered.items() if name != b"-"} == {
        name: 1 for name in accepted if name != b"-"
    }
