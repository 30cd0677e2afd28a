"""Dead letters survive a restart: what a quorum queue still had to post is posted again, and what arrived is marked."""

import pytest

from core.engine.options.in_force import QueueOptions
from core.engine.queue.dead_letter import RETRY_SECONDS, keeps
from core.interface import ConsumeOptions, DeathReason, Delivered, Disposal, StreamOptions, StreamPosition
from core.message import Attributes
from core.store.definitions import PolicyDeclaration
from tests.kit.dead_letters import PlainConverter, body, deaths
from tests.kit.engine import bodies, later, queue
from tests.kit.kept_broker import KeptBroker

DURABLE = Attributes(durable=True)


def dying(**arguments: object):
    """A quorum queue that dead-letters at least once into a queue that need not exist."""
    return queue(
        "q",
        x_queue_type="quorum",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
        **{"x_overflow": "reject-publish", "x_dead_letter_strategy": "at-least-once", **arguments},
    )


def with_rejected(count: int, ready: int, **arguments: object) -> KeptBroker:
    """Let messages of a quorum queue be rejected while their target does not exist; other messages are ready behind
    them."""
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(dying(**arguments), "x")
    one.peer.publish("q", bodies(count + ready), DURABLE)
    consumer = one.peer.consume("q", count)
    one.run()
    one.broker.settle(consumer, 0, count - 1, Disposal.REJECTED)
    one.broker.cancel(consumer)
    one.run()
    return one


@pytest.mark.parametrize("ending", [KeptBroker.kill, KeptBroker.restart])
def test_what_no_target_has_confirmed_is_posted_again_after_a_start(ending):
    one = with_rejected(40, ready=3)
    for _ in range(2):
        ending(one)
        one.run()
        assert (one.shown("q")["messages_ready"], one.shown("q")["dead_letters_waiting"]) == (3, 40)
    one.broker.declare_queue(queue("dead"), "x")
    one.run(later(RETRY_SECONDS))
    letters = one.taken("dead", later(9))
    assert sorted(int(body(entry)) for entry in letters) == list(range(40))
    assert {tuple(deaths(entry)) for entry in letters} == {("q:rejected",)}
    assert one.shown("q")["dead_lettered"] == {"rejected": 40}
    ending(one)
    one.run()
    assert one.shown("q")["dead_letters_waiting"] == 0
    assert one.taken("q") == bodies(3, 40)


def test_the_reason_is_kept():
    one = with_rejected(1, ready=0, x_message_ttl=1000)
    one.peer.publish("q", [b"late"], DURABLE)
    one.run()
    one.run(later(2))
    one.kill()
    one.broker.declare_queue(queue("dead"), "x")
    one.run(later(2))
    assert sorted(deaths(entry)[0] for entry in one.taken("dead", later(2))) == ["q:expired", "q:rejected"]


def test_what_has_lost_its_exchange_meanwhile_is_dropped():
    one = KeptBroker(PlainConverter())
    policy = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead", "dead-letter-strategy": "at-least-once"}
    one.broker.policies.set(PolicyDeclaration(name="p", pattern="^q$", priority=0, apply_to="all", definition=policy))
    one.broker.declare_queue(queue("q", x_queue_type="quorum", x_overflow="reject-publish"), "x")
    one.peer.publish("q", bodies(2), DURABLE)
    consumer = one.peer.consume("q", 2)
    one.run()
    one.broker.settle(consumer, 0, 1, Disposal.REJECTED)
    one.run()
    assert one.shown("q")["dead_letters_waiting"] == 2
    one.broker.policies.clear("p")
    one.kill()
    one.run()
    assert (one.shown("q")["dead_letters_waiting"], one.shown("q")["dropped"]) == (0, {DeathReason.REJECTED.value: 2})
    one.kill()
    one.run()
    assert (one.shown("q")["messages_ready"], one.shown("q")["dropped"]) == (0, {})


def test_at_most_once_they_are_ready_again_after_a_kill():
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(dying(x_dead_letter_strategy="at-most-once"), "x")
    one.broker.declare_queue(queue("dead"), "x")
    one.broker.set_stage_budget("dead", 0)
    one.peer.publish("q", bodies(2), DURABLE)
    consumer = one.peer.consume("q", 2)
    one.run()
    one.broker.settle(consumer, 0, 1, Disposal.REJECTED)
    one.run()
    assert one.shown("q")["dead_letters_waiting"] == 2
    one.kill()
    assert one.taken("q") == bodies(2)


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_dead_letters_were_delivered_before_also_after_a_stop_in_order(kind):
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(queue("dead", x_queue_type=kind), "x")
    one.broker.declare_queue(
        queue("q", x_message_ttl=10, x_dead_letter_exchange="", x_dead_letter_routing_key="dead"), "x"
    )
    one.peer.publish("q", bodies(2), DURABLE)
    one.run()
    one.run(later(1))
    one.peer.publish("dead", bodies(1, 2), DURABLE)
    one.run(later(1))
    one.restart()
    options = ConsumeOptions(stream=StreamOptions(position=StreamPosition.FIRST))
    consumer = one.broker.consume("dead", one.peer.mailbox, "x", options, None)
    one.broker.grant(consumer, 9, False)
    one.run(later(2))
    delivered = [action for action in one.peer.mailbox.take() if isinstance(action, Delivered)]
    assert [(body(entry), action.first_acquirer) for action in delivered for entry in action.entries] == [
        (b"0", False),
        (b"1", False),
        (b"2", True),
    ]


def test_what_the_length_limit_pushes_out_is_never_kept():
    one = KeptBroker(PlainConverter())
    one.broker.declare_queue(dying(x_max_length=2, x_overflow="drop-head"), "x")
    for number in range(5):
        one.peer.publish("q", bodies(1, number), DURABLE)
        one.run()
    shown = one.shown("q")
    assert (shown["messages_ready"], shown["dead_letters_waiting"], shown["dropped"]) == (2, 0, {"no route": 3})
    one.kill()
    assert one.shown("q")["dead_letters_waiting"] == 0
    assert one.taken("q") == bodies(2, 3)


def test_only_a_length_limit_makes_at_least_once_let_go():
    kept = {reason for reason in DeathReason if keeps(QueueOptions(at_least_once=True), reason)}
    assert kept == set(DeathReason) - {DeathReason.MAXLEN}
    assert not any(keeps(QueueOptions(at_least_once=False), reason) for reason in DeathReason)
