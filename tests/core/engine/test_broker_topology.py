"""Declaring, deleting and binding: who may do it, when a declaration is the same, and what is removed along with it."""

from dataclasses import replace

import pytest

from core.engine.broker import Broker
from core.engine.routing.topology import RECORD_WORK
from core.errors import (
    Forbidden,
    Inequivalent,
    Invalid,
    LimitReached,
    Locked,
    NotFound,
    PreconditionFailed,
)
from core.interface import Binding, Cancelled, ExchangeTarget, ExchangeType
from core.slices import run_at_once
from core.store.definitions import PolicyDeclaration
from tests.kit.engine import NOW, Peer, binding, bodies, confirms, entries_for, exchange, make_broker, queue
from tests.kit.settings import make_settings

ME, YOU = "me", "you"


def between(broker: Broker, source: str, destination: str, destination_is_queue: bool) -> list[Binding]:
    return [one for one in broker.bindings(source, destination, destination_is_queue) if one is not None]


# --- queues -------------------------------------------------------------------------------------------------


def test_a_queue_is_made_once():
    broker = make_broker()
    info, made = broker.declare_queue(queue("q", x_max_length=5), ME)
    assert made
    assert (info.type, info.ready, info.unacknowledged, info.consumers) == ("classic", 0, 0, 0)
    assert info.declaration == queue("q", x_max_length=5)
    again, made = broker.declare_queue(queue("q", x_max_length=5, x_queue_type="classic"), YOU)
    assert not made
    assert again == info


def test_the_counts_of_a_queue():
    broker = make_broker("q")
    peer = Peer(broker)
    peer.consume("q", 2)
    peer.publish("q", bodies(5))
    peer.turn()
    info = broker.queue_info("q", ME)
    assert (info.ready, info.unacknowledged, info.consumers) == (3, 2, 1)


@pytest.mark.parametrize(
    ("existing", "wanted", "text"),
    [
        (queue("q"), queue("q", durable=False), "queue 'q': durable is True, the declaration asks for False"),
        (queue("q"), queue("q", auto_delete=True), "auto_delete is False"),
        (queue("q"), queue("q", exclusive=True), "exclusive is False"),
        (queue("q", x_max_length=1), queue("q", x_max_length=2), "argument x-max-length is 1, .* asks for 2"),
        (queue("q"), queue("q", x_expires=9), "argument x-expires is not set, .* asks for 9"),
        (queue("q", own=True), queue("q", own=1), "argument own is True"),
    ],
)
def test_a_different_declaration_is_refused_with_the_difference(existing, wanted, text):
    broker = make_broker()
    broker.declare_queue(existing, ME)
    with pytest.raises(Inequivalent, match=text):
        broker.declare_queue(wanted, ME)


@pytest.mark.parametrize("name", ["", "a\rb", "a\nb", "x" * 256, "ü" * 128])
def test_names_that_can_never_be_right(name):
    broker = make_broker()
    with pytest.raises(Invalid):
        broker.declare_queue(queue(name), ME)
    if name:
        with pytest.raises(Invalid):
            broker.declare_exchange(exchange(name))
        with pytest.raises(Invalid):
            broker.delete_exchange(name)


def test_the_reserved_prefix():
    broker = make_broker()
    with pytest.raises(Forbidden):
        broker.declare_queue(queue("amq.mine"), ME)
    broker.declare_dynamic_queue("amq.dyn-1", ME)
    dynamic = queue("amq.dyn-1", durable=False, exclusive=True, auto_delete=True)
    assert broker.declare_queue(dynamic, ME)[1] is False


def test_an_exclusive_queue_is_its_owners_alone():
    broker = make_broker()
    broker.declare_queue(queue("mine", exclusive=True), ME)
    for attempt in (
        lambda: broker.declare_queue(queue("mine", exclusive=True), YOU),
        lambda: broker.queue_info("mine", YOU),
        lambda: broker.delete_queue("mine", YOU),
        lambda: broker.purge_queue("mine", YOU),
        lambda: broker.bind(binding("amq.direct", "mine"), YOU),
        lambda: broker.unbind(binding("amq.direct", "mine"), YOU),
    ):
        with pytest.raises(Locked):
            attempt()
    assert broker.queue_info("mine", ME).declaration.exclusive


def test_exclusive_queues_go_with_their_connection():
    broker = make_broker("shared")
    mine, yours = Peer(broker, ME), Peer(broker, YOU)
    broker.declare_queue(queue("mine", exclusive=True), ME)
    broker.declare_dynamic_queue("dynamic", ME)
    broker.declare_queue(queue("yours", exclusive=True), YOU)
    broker.unsubscribe(mine.mailbox, ME)
    assert [shown["name"] for shown in broker.snapshot("queues")] == ["shared", "yours"]
    assert yours.mailbox.take() == []


def test_a_dynamic_queue():
    broker = make_broker()
    info = broker.declare_dynamic_queue("d", ME)
    declaration = info.declaration
    assert (declaration.durable, declaration.exclusive, declaration.auto_delete) == (False, True, True)
    with pytest.raises(Inequivalent):
        broker.declare_dynamic_queue("d", ME)
    with pytest.raises(Locked):
        Peer(broker, YOU).consume("d")
    peer = Peer(broker, ME)
    peer.broker.cancel(peer.consume("d"))
    with pytest.raises(NotFound):
        broker.queue_info("d", ME)


def test_deleting_and_purging():
    broker = make_broker("q")
    peer = Peer(broker)
    peer.publish("q", bodies(3))
    peer.turn()
    assert run_at_once(broker.purge_queue("q", ME)) == 3
    peer.publish("q", bodies(2))
    peer.turn()
    assert broker.delete_queue("q", ME) == 2
    assert broker.delete_queue("q", ME) == 0
    for attempt in (broker.purge_queue, broker.queue_info):
        with pytest.raises(NotFound):
            attempt("q", ME)


def test_a_queue_that_is_made_again_starts_empty():
    broker = make_broker("q")
    peer = Peer(broker)
    consumer = peer.consume("q", 5)
    broker.bind(binding("amq.direct", "q", "k"), ME)
    broker.delete_queue("q", ME)
    assert [type(action) for action in peer.mailbox.take()] == [Cancelled]
    broker.declare_queue(queue("q"), ME)
    assert between(broker, "amq.direct", "q", True) == []
    broker.grant(consumer, 9, False)
    peer.publish("q", bodies(1))
    assert entries_for(peer.turn(), consumer) == []
    assert broker.queue_info("q", ME).ready == 1


def test_limits():
    broker = make_broker(settings=make_settings(engine={"queues_max": 2, "exchanges_max": 6, "bindings_max": 1}))
    broker.declare_queue(queue("a"), ME)
    broker.declare_dynamic_queue("b", ME)
    broker.declare_queue(queue("a"), ME)
    with pytest.raises(LimitReached, match="queues_max"):
        broker.declare_queue(queue("c"), ME)
    with pytest.raises(LimitReached, match="queues_max"):
        broker.declare_dynamic_queue("c", ME)
    broker.declare_exchange(exchange("e"))
    with pytest.raises(LimitReached, match="exchanges_max"):
        broker.declare_exchange(exchange("f"))
    broker.bind(binding("e", "a"), ME)
    broker.bind(binding("e", "a"), ME)
    with pytest.raises(LimitReached, match="bindings_max"):
        broker.bind(binding("e", "a", "other"), ME)
    broker.delete_queue("a", ME)
    broker.declare_queue(queue("c"), ME)
    broker.bind(binding("e", "c"), ME)


# --- exchanges ----------------------------------------------------------------------------------------------


def test_an_exchange_is_made_once():
    broker = make_broker()
    assert broker.declare_exchange(exchange("e", ExchangeType.TOPIC))
    assert not broker.declare_exchange(exchange("e", ExchangeType.TOPIC))
    assert not broker.declare_exchange(exchange("amq.fanout", ExchangeType.FANOUT))


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (exchange("e", ExchangeType.FANOUT), "exchange 'e': type is 'direct', .* 'fanout'"),
        (exchange("e", auto_delete=True), "auto_delete"),
        (exchange("e", internal=True), "internal"),
        (exchange("e", alternate_exchange="a"), "argument alternate-exchange is not set"),
    ],
)
def test_a_different_exchange_is_refused(wanted, text):
    broker = make_broker()
    broker.declare_exchange(exchange("e"))
    with pytest.raises(Inequivalent, match=text):
        broker.declare_exchange(wanted)


def test_the_default_exchange_and_the_prefix_are_the_brokers():
    broker = make_broker("q")
    for attempt in (
        lambda: broker.declare_exchange(exchange("")),
        lambda: broker.delete_exchange(""),
        lambda: broker.bind(binding("", "q"), ME),
        lambda: broker.unbind(binding("", "q"), ME),
        lambda: broker.bind(binding("amq.direct", "", to_exchange=True), ME),
        lambda: broker.declare_exchange(exchange("amq.own")),
        lambda: broker.delete_exchange("amq.direct"),
    ):
        with pytest.raises(Forbidden):
            attempt()


def test_deleting_an_exchange_takes_its_bindings_along_on_both_sides():
    broker = make_broker("q")
    broker.declare_exchange(exchange("e"))
    broker.bind(binding("e", "q"), ME)
    broker.bind(binding("amq.fanout", "e", to_exchange=True), ME)
    broker.delete_exchange("e")
    broker.delete_exchange("e")
    assert broker.snapshot("bindings") == []
    broker.declare_exchange(exchange("e"))
    assert between(broker, "e", "q", True) == []


def test_an_auto_delete_exchange_goes_with_its_last_binding():
    broker = make_broker("q", "p")
    broker.declare_exchange(exchange("e", auto_delete=True))
    broker.declare_exchange(exchange("above", auto_delete=True))
    broker.bind(binding("above", "e", to_exchange=True), ME)
    broker.bind(binding("e", "q"), ME)
    broker.bind(binding("e", "p"), ME)
    broker.unbind(binding("e", "q"), ME)
    assert broker.snapshot("exchanges", "e") != []
    broker.delete_queue("p", ME)
    assert broker.snapshot("exchanges", "e") == []
    assert broker.snapshot("exchanges", "above") == []
    assert broker.snapshot("bindings") == []


def test_an_auto_delete_exchange_that_is_bound_to_itself():
    broker = make_broker("q")
    broker.declare_exchange(exchange("e", auto_delete=True))
    broker.bind(binding("e", "e", to_exchange=True), ME)
    broker.delete_exchange("e")
    assert broker.snapshot("bindings") == []
    assert broker.snapshot("exchanges", "e") == []


# --- bindings -----------------------------------------------------------------------------------------------


def test_bindings_between_two_nodes():
    broker = make_broker("q", "p")
    made = [binding("amq.direct", "q", "a"), binding("amq.direct", "q", "b", x=1)]
    for one in made:
        broker.bind(one, ME)
        broker.bind(one, ME)
    broker.bind(binding("amq.direct", "p", "a"), ME)
    broker.bind(binding("amq.fanout", "q", "a"), ME)
    assert between(broker, "amq.direct", "q", True) == made
    assert between(broker, "amq.direct", "q", False) == []
    assert between(broker, "missing", "missing", True) == []
    broker.unbind(made[0], ME)
    broker.unbind(made[0], ME)
    assert between(broker, "amq.direct", "q", True) == made[1:]


def test_every_queue_is_bound_to_the_default_exchange():
    broker = make_broker("q")
    assert between(broker, "", "q", True) == [binding("", "q", "q")]
    assert between(broker, "", "missing", True) == []


@pytest.mark.parametrize(
    "wanted",
    [
        binding("missing", "q"),
        binding("amq.direct", "missing"),
        binding("amq.direct", "missing", to_exchange=True),
    ],
)
def test_both_ends_of_a_binding_must_exist(wanted):
    with pytest.raises(NotFound, match="missing"):
        make_broker("q").bind(wanted, ME)


def test_x_match_is_checked_on_headers_exchanges_only():
    broker = make_broker("q")
    with pytest.raises(Invalid, match="x-match"):
        broker.bind(binding("amq.headers", "q", x_match="some"), ME)
    broker.bind(binding("amq.direct", "q", x_match="some"), ME)


def test_bindings_that_differ_in_arguments_only_are_two():
    broker = make_broker("q")
    peer = Peer(broker)
    for value in (True, 1):
        broker.bind(binding("amq.direct", "q", "k", own=value), ME)
    broker.unbind(binding("amq.direct", "q", "k", own=1), ME)
    peer.publish(ExchangeTarget("amq.direct", "k"), bodies(1))
    assert len(confirms(peer.turn())) == 1
    assert between(broker, "amq.direct", "q", True) == [binding("amq.direct", "q", "k", own=True)]


# --- arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-type": "classic"},
        {"x-max-length": 10, "x-max-length-bytes": 0, "x-overflow": "drop-head"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-message-ttl": 0, "x-expires": 1},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"},
        {"x-single-active-consumer": False},
        {"x-queue-mode": "lazy", "x-queue-version": 2, "x-queue-leader-locator": "client-local"},
        {"team": "blue", "nested": {"list": [1, {"a": b"b"}]}},
    ],
)
def test_arguments_that_are_taken(arguments):
    broker = make_broker()
    declaration = queue("q", **arguments)
    for made in (True, False):
        assert broker.declare_queue(declaration, ME)[1] is made


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"x-queue-type": "fast"}, Invalid, "there is no x-queue-type 'fast'"),
        ({"x-max-length": -1}, PreconditionFailed, "x-max-length is -1, it must be an integer, 0 or more"),
        ({"x-max-length": True}, PreconditionFailed, "x-max-length"),
        ({"x-message-ttl": "1"}, PreconditionFailed, "x-message-ttl"),
        ({"x-expires": 0}, PreconditionFailed, "x-expires"),
        ({"x-overflow": "spill"}, PreconditionFailed, "drop-head"),
        ({"x-single-active-consumer": 1}, PreconditionFailed, "true or false"),
        ({"x-queue-version": True}, PreconditionFailed, "1 or 2"),
        ({"x-dead-letter-exchange": 1}, PreconditionFailed, "a string"),
        ({"x-dead-letter-routing-key": "k"}, PreconditionFailed, "needs an x-dead-letter-exchange"),
        ({"x-max-priority": 256}, PreconditionFailed, "x-max-priority is 256, it must be an integer from 1 to 255"),
        ({"x-quorum-initial-group-size": 3}, PreconditionFailed, "is not supported for type 'classic'"),
        ({"x-sync": "often"}, PreconditionFailed, "x-sync is 'often', it must be 'always' or 'default'"),
    ],
)
def test_arguments_that_are_refused(arguments, error, text):
    broker = make_broker()
    with pytest.raises(error, match=text):
        broker.declare_queue(queue("q", **arguments), ME)
    assert broker.snapshot("queues") == []


@pytest.mark.parametrize("arguments", [{"alternate-exchange": 1}, {"x-delayed-type": 1}, {"x-later": "direct"}])
def test_exchange_arguments_that_are_refused(arguments):
    with pytest.raises(PreconditionFailed):
        make_broker().declare_exchange(exchange("e", **arguments))


# --- policies over many queues ------------------------------------------------------------------------------


def test_a_policy_reaches_many_queues_turn_by_turn_and_the_newest_policy_holds():
    broker = make_broker(*(f"q{number}" for number in range(300)), "gone")
    limit = PolicyDeclaration(name="p", pattern="^q", priority=0, apply_to="all", definition={"max-length": 1})
    broker.policies.set(limit)
    spent = broker.work.spent
    lengths = [row["max_length"] for row in broker.snapshot("queues")]
    assert 0 < lengths.count(1) < 300
    broker.delete_queue("gone", ME)
    broker.declare_queue(queue("qnew"), ME)
    broker.policies.set(replace(limit, definition={"max-length": 2}))
    turns = 0
    while broker.turn(NOW):
        turns += 1
    assert turns >= 2
    assert broker.work.spent - spent < 300 * 50  # each queue gets new settings at most twice, at 20 units
    assert {row["max_length"] for row in broker.snapshot("queues")} == {2}


def test_a_policy_for_exchanges_is_in_force_when_it_has_been_set():
    broker = make_broker("q")
    broker.declare_exchange(exchange("e"))
    broker.declare_exchange(exchange("other", ExchangeType.FANOUT))
    broker.bind(binding("other", "q"), ME)
    broker.policies.set(
        PolicyDeclaration(
            name="p", pattern="^e$", priority=0, apply_to="exchanges", definition={"alternate-exchange": "other"}
        )
    )
    peer = Peer(broker)
    peer.publish(ExchangeTarget("e", "k"), bodies(1))
    peer.turn()
    assert broker.queue_info("q", ME).ready == 1


# --- the cost of removals -----------------------------------------------------------------------------------


def test_bindings_that_go_along_and_their_record_are_counted_as_work():
    broker = make_broker("q", "r")
    for name in ("e", "f"):
        broker.declare_exchange(exchange(name))
        for number in range(100):
            broker.bind(binding(name, "q", str(number)), ME)
    broker.bind(binding("e", "r", "0"), ME)
    for removal, least in (
        (lambda: broker.unbind(binding("e", "q", "0"), ME), 5),
        (lambda: broker.delete_exchange("e"), 500),
        (lambda: broker.delete_queue("q", ME), 500),
    ):
        before = broker.work.spent
        removal()
        assert least <= broker.work.spent - before - RECORD_WORK < least + 200
    assert [row["source"] for row in broker.snapshot("bindings") if row["source"]] == []


def test_exclusive_queues_with_many_bindings_go_a_few_in_each_step():
    broker = make_broker()
    mine = Peer(broker, owner=ME)
    for number in range(10):
        broker.declare_queue(queue(f"q{number}", exclusive=True), ME)
        for key in range(100):
            broker.bind(binding("amq.direct", f"q{number}", str(key)), ME)
    steps = 0
    while broker.unsubscribe(mine.mailbox, ME):
        steps += 1
        assert len(broker.snapshot("queues")) == 10 - 4 * steps
    assert steps == 2
    assert broker.snapshot("queues") == []


def test_asking_about_a_queue_of_many_consumers_is_work():
    broker = make_broker("q")
    peer = Peer(broker)
    for _ in range(200):
        peer.consume("q")
    before = broker.work.spent
    broker.queue_info("q", ME)
    assert broker.work.spent - before == 10
