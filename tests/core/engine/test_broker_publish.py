"""Publishing: what is confirmed, when, and what happens when the target does not exist."""

import pytest

from core.engine.routing.router import SEARCH_WORK
from core.errors import Forbidden, Locked, NotFound, ResourceDeleted
from core.interface import (
    Confirmed,
    Delivered,
    ExchangeTarget,
    ExchangeType,
    GrantReply,
    Outcome,
    PublisherClosed,
    QueueTarget,
)
from core.message import Attributes, Run
from tests.kit.engine import (
    NOW,
    Peer,
    binding,
    bodies,
    confirms,
    entries_for,
    exchange,
    make_broker,
    queue,
)
from tests.kit.settings import make_settings

ACCEPTED, RELEASED = Outcome.ACCEPTED, Outcome.RELEASED


def test_nothing_moves_before_the_turn():
    broker = make_broker("q")
    peer = Peer(broker)
    peer.consume("q", 10)
    peer.publish("q", bodies(3))
    assert peer.mailbox.take() == []
    assert broker.queue_info("q", "x").ready == 0


def test_confirm_delivery_and_reply_come_in_this_order_and_in_one_turn():
    peer = Peer(make_broker("q"))
    consumer = peer.consume("q", 10)
    peer.publish("q", bodies(3))
    actions = peer.turn()
    assert [type(action) for action in actions] == [Confirmed, Delivered, GrantReply]
    assert confirms(actions) == [(0, 2, ACCEPTED)]
    assert entries_for(actions, consumer) == bodies(3)
    assert peer.notified == 1


def test_transient_and_durable_runs_are_delivered_and_confirmed_together():
    peer = Peer(make_broker("q"))
    consumer = peer.consume("q", 10)
    durable = Attributes(durable=True)
    peer.publish("q", bodies(2))
    peer.publish("q", bodies(2, start=2), durable)
    actions = peer.turn()
    assert confirms(actions) == [(0, 3, ACCEPTED)]
    delivered = [action for action in actions if isinstance(action, Delivered)]
    assert [(d.first, d.entries, d.attributes) for d in delivered] == [
        (0, bodies(4), [Attributes()] * 2 + [durable] * 2)
    ]
    assert delivered[0].consumer is consumer


def test_equal_attributes_are_alike_even_when_they_are_not_the_same_object():
    peer = Peer(make_broker("q"))
    peer.consume("q", 10)
    peer.publish("q", bodies(1), Attributes(priority=7))
    peer.publish("q", bodies(1, start=1), Attributes(priority=7))
    delivered = [action for action in peer.turn() if isinstance(action, Delivered)]
    assert [d.entries for d in delivered] == [bodies(2)]


def test_confirms_that_do_not_adjoin_stay_apart():
    broker = make_broker("q", "stalled")
    broker.set_stage_budget("stalled", 0)
    peer = Peer(broker)
    peer.publish("q", bodies(1), anonymous=True)
    peer.publish("stalled", bodies(1), anonymous=True)
    peer.publish("q", bodies(1), anonymous=True)
    assert confirms(peer.turn()) == [(0, 0, ACCEPTED), (2, 2, ACCEPTED)]
    broker.set_stage_budget("stalled", None)
    assert confirms(peer.turn()) == [(1, 1, ACCEPTED)]


def test_a_confirm_that_was_taken_does_not_grow():
    peer = Peer(make_broker("q"))
    peer.publish("q", bodies(1))
    first = peer.turn()
    peer.publish("q", bodies(1))
    assert confirms(peer.turn()) == [(1, 1, ACCEPTED)]
    assert confirms(first) == [(0, 0, ACCEPTED)]


def test_a_budget_confirms_part_of_a_run_and_asks_for_another_turn():
    broker = make_broker("q")
    broker.set_stage_budget("q", 4)
    peer = Peer(broker)
    peer.publish("q", bodies(10))
    seen = []
    assert broker.turn(NOW)
    seen += confirms(peer.mailbox.take())
    assert broker.turn(NOW)
    seen += confirms(peer.mailbox.take())
    assert not broker.turn(NOW)
    seen += confirms(peer.mailbox.take())
    assert seen == [(0, 3, ACCEPTED), (4, 7, ACCEPTED), (8, 9, ACCEPTED)]
    assert broker.queue_info("q", "x").ready == 10


def test_a_stalled_queue_confirms_nothing_and_does_not_keep_the_pump_running():
    broker = make_broker("slow", "fast")
    broker.set_stage_budget("slow", 0)
    peer = Peer(broker)
    peer.publish("slow", bodies(5))
    peer.publish("fast", bodies(5))
    assert not broker.turn(NOW)
    assert confirms(peer.mailbox.take()) == [(5, 9, ACCEPTED)]
    broker.set_stage_budget("slow", None)
    assert confirms(peer.turn()) == [(0, 4, ACCEPTED)]


def test_the_budget_of_a_queue_that_does_not_exist():
    with pytest.raises(NotFound):
        make_broker().set_stage_budget("q", 1)


def test_a_message_that_no_queue_wants_is_released_at_once():
    peer = Peer(make_broker())
    peer.publish(ExchangeTarget("amq.direct", "nobody"), bodies(3))
    peer.publish(ExchangeTarget("", "nobody"), bodies(2))
    assert confirms(peer.mailbox.take()) == [(0, 2, RELEASED), (3, 4, RELEASED)]


def test_a_run_to_several_queues_is_confirmed_once_by_the_slowest():
    broker = make_broker("a", "b", "c")
    peer = Peer(broker)
    for name in "abc":
        broker.bind(binding("amq.fanout", name), "x")
    broker.set_stage_budget("b", 2)
    peer.publish(ExchangeTarget("amq.fanout", ""), bodies(5))
    seen = [confirms(peer.turn()) for _ in range(3)]
    assert seen == [[(0, 1, ACCEPTED)], [(2, 3, ACCEPTED)], [(4, 4, ACCEPTED)]]
    assert [broker.queue_info(name, "x").ready for name in "abc"] == [5, 5, 5]


def test_entries_are_shared_between_queues_and_not_changed_by_either():
    broker = make_broker("a", "b")
    peer = Peer(broker)
    for name in "ab":
        broker.bind(binding("amq.fanout", name), "x")
    for start in (0, 2):
        peer.publish(ExchangeTarget("amq.fanout", ""), bodies(2, start))
        peer.turn()
    consumers = [peer.consume(name, 10) for name in "ab"]
    actions = peer.turn()
    assert [entries_for(actions, consumer) for consumer in consumers] == [bodies(4), bodies(4)]


def test_more_routing_keys_reach_more_queues_once_each():
    broker = make_broker("a", "b", "c")
    peer = Peer(broker)
    broker.bind(binding("amq.direct", "a", "one"), "x")
    broker.bind(binding("amq.direct", "a", "two"), "x")
    broker.bind(binding("amq.direct", "b", "two"), "x")
    peer.publish(ExchangeTarget("amq.direct", "one"), bodies(1), keys=("two", "three"))
    peer.publish("a", bodies(1), keys=("c", "missing"))
    assert confirms(peer.turn()) == [(0, 0, ACCEPTED), (1, 1, ACCEPTED)]
    assert [broker.queue_info(name, "x").ready for name in "abc"] == [2, 1, 1]


# --- targets that do not exist --------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [QueueTarget("missing"), ExchangeTarget("missing", "")])
def test_a_publisher_needs_its_target(target):
    with pytest.raises(NotFound):
        Peer(make_broker()).publisher(target)


def test_nothing_of_an_anonymous_run_is_taken_when_the_target_is_missing():
    peer = Peer(make_broker())
    for target in (QueueTarget("missing"), ExchangeTarget("missing", "")):
        with pytest.raises(NotFound, match="missing"):
            peer.publish(target, bodies(1), anonymous=True)
    assert peer.turn() == []


def test_an_internal_exchange_takes_nothing_from_clients():
    broker = make_broker()
    broker.declare_exchange(exchange("inside", internal=True))
    peer = Peer(broker)
    with pytest.raises(Forbidden):
        peer.publisher(ExchangeTarget("inside", ""))
    with pytest.raises(Forbidden):
        peer.publish(ExchangeTarget("inside", ""), bodies(1), anonymous=True)


def test_an_exclusive_queue_is_no_fixed_target_for_others():
    broker = make_broker()
    broker.declare_queue(queue("mine", exclusive=True), owner="me")
    with pytest.raises(Locked):
        Peer(broker, owner="you").publisher(QueueTarget("mine"))
    assert Peer(broker, owner="me").publisher(QueueTarget("mine")).fixed_target == QueueTarget("mine")


def test_every_client_may_answer_to_a_dynamic_queue():
    broker = make_broker()
    broker.declare_dynamic_queue("amq.dyn-1", owner="me")
    peer = Peer(broker, owner="you")
    peer.publish("amq.dyn-1", bodies(1))
    assert confirms(peer.turn()) == [(0, 0, ACCEPTED)]


def test_deleting_the_target_queue_releases_what_waits_and_then_closes_the_publisher():
    broker = make_broker("q")
    broker.set_stage_budget("q", 2)
    peer = Peer(broker)
    peer.publish("q", bodies(5))
    peer.turn()
    assert broker.delete_queue("q", "x") == 2
    closing = peer.mailbox.take()
    assert confirms(closing[:1]) == [(2, 4, RELEASED)]
    assert isinstance(closing[1], PublisherClosed)
    assert isinstance(closing[1].error, ResourceDeleted)
    assert len(closing) == 2


def test_what_is_pipelined_behind_the_deletion_is_released_and_the_publisher_is_closed_only_once():
    broker = make_broker("q")
    peer = Peer(broker)
    peer.publisher(QueueTarget("q"))
    broker.delete_queue("q", "x")
    peer.mailbox.take()
    peer.publish("q", bodies(2))
    peer.publish("q", bodies(1))
    assert confirms(actions := peer.mailbox.take()) == [(0, 1, RELEASED), (2, 2, RELEASED)]
    assert len(actions) == 2


def test_a_deleted_exchange_shows_with_the_next_message():
    broker = make_broker()
    broker.declare_exchange(exchange("e"))
    peer = Peer(broker)
    target = ExchangeTarget("e", "k")
    peer.publisher(target)
    broker.delete_exchange("e")
    assert peer.mailbox.take() == []
    peer.publish(target, bodies(1))
    peer.publish(target, bodies(1))
    actions = peer.mailbox.take()
    assert confirms(actions) == [(0, 0, RELEASED), (1, 1, RELEASED)]
    closed = [action for action in actions if isinstance(action, PublisherClosed)]
    assert len(closed) == 1
    assert isinstance(closed[0].error, NotFound)
    assert actions.index(closed[0]) == 1


def test_other_target_queues_deleted_leaves_the_message_accepted():
    broker = make_broker("fast", "slow1", "slow2")
    peer = Peer(broker)
    for name in ("fast", "slow1", "slow2"):
        broker.bind(binding("amq.fanout", name), "x")
    for name in ("slow1", "slow2"):
        broker.set_stage_budget(name, 0)
    peer.publish(ExchangeTarget("amq.fanout", ""), bodies(3))
    assert confirms(peer.turn()) == []
    broker.delete_queue("slow1", "x")
    assert confirms(peer.mailbox.take()) == []
    broker.delete_queue("slow2", "x")
    assert confirms(peer.mailbox.take()) == [(0, 2, ACCEPTED)]


def test_all_target_queues_deleted_leaves_the_message_released():
    broker = make_broker("a", "b")
    peer = Peer(broker)
    for name in "ab":
        broker.bind(binding("amq.fanout", name), "x")
        broker.set_stage_budget(name, 0)
    broker.set_stage_budget("a", 1)
    peer.publish(ExchangeTarget("amq.fanout", ""), bodies(3))
    peer.turn()
    broker.delete_queue("a", "x")
    assert confirms(peer.mailbox.take()) == []
    broker.delete_queue("b", "x")
    assert confirms(peer.mailbox.take()) == [(0, 0, ACCEPTED), (1, 2, RELEASED)]


def test_nothing_follows_for_a_publisher_that_has_retired():
    broker = make_broker("q")
    peer = Peer(broker)
    peer.publish("q", bodies(2))
    broker.retire(peer.publisher(QueueTarget("q")))
    assert peer.turn() == []
    assert broker.queue_info("q", "x").ready == 2
    broker.delete_queue("q", "x")
    assert peer.mailbox.take() == []


def test_a_retired_publisher_of_a_deleted_queue_is_forgotten():
    broker = make_broker("q")
    peer = Peer(broker)
    publisher = peer.publisher(QueueTarget("q"))
    broker.delete_queue("q", "x")
    broker.retire(publisher)
    assert broker.snapshot("publishers") == []


class HeaderPerEntry:
    """A converter for entries like ``b"a1"``: the first letter is the header ``kind``."""

    def __init__(self) -> None:
        self.asked = 0

    def routing_headers(self, entry, origin):
        self.asked += 1
        return {"kind": chr(entry[0])}

    def render(self, entry, attributes, wanted):
        return entry


def test_a_headers_exchange_cuts_a_run_where_the_route_changes():
    converter = HeaderPerEntry()
    broker = make_broker("a", "b", converter=converter)
    for name in "ab":
        broker.bind(binding("amq.headers", name, kind=name), "x")
    peer = Peer(broker)
    entries = [b"a1", b"a2", b"b3", b"c4", b"a5"]
    peer.publish(ExchangeTarget("amq.headers", ""), entries)
    a, b = peer.consume("a", 10), peer.consume("b", 10)
    actions = peer.turn()
    assert entries_for(actions, a) == [b"a1", b"a2", b"a5"]
    assert entries_for(actions, b) == [b"b3"]
    answered = {n: outcome for first, last, outcome in confirms(actions) for n in range(first, last + 1)}
    assert answered == {0: ACCEPTED, 1: ACCEPTED, 2: ACCEPTED, 3: RELEASED, 4: ACCEPTED}


def test_headers_are_asked_for_only_where_a_headers_exchange_is_on_the_way():
    converter = HeaderPerEntry()
    broker = make_broker("q", converter=converter)
    broker.bind(binding("amq.topic", "q", "#"), "x")
    peer = Peer(broker)
    peer.publish(ExchangeTarget("amq.topic", "any.key"), bodies(5))
    assert confirms(peer.turn()) == [(0, 4, ACCEPTED)]
    assert converter.asked == 0


def test_a_headers_exchange_without_a_converter_sees_no_headers():
    broker = make_broker("q")
    broker.bind(binding("amq.headers", "q", kind="a"), "x")
    peer = Peer(broker)
    peer.publish(ExchangeTarget("amq.headers", ""), bodies(1))
    assert confirms(peer.turn()) == [(0, 0, RELEASED)]


def test_a_change_of_the_topology_reaches_the_next_message():
    broker = make_broker("q")
    peer = Peer(broker)
    target = ExchangeTarget("amq.direct", "k")
    outcomes = []
    for step in (
        lambda: None,
        lambda: broker.bind(binding("amq.direct", "q", "k"), "x"),
        lambda: broker.unbind(binding("amq.direct", "q", "k"), "x"),
        lambda: broker.bind(binding("amq.direct", "q", "k"), "x"),
        lambda: broker.delete_queue("q", "x"),
        lambda: broker.declare_queue(queue("q"), "x"),
    ):
        step()
        peer.publish(target, bodies(1))
        outcomes += [outcome for _, _, outcome in confirms(peer.turn())]
    assert outcomes == [RELEASED, ACCEPTED, RELEASED, ACCEPTED, RELEASED, RELEASED]


def test_routes_are_kept_once_for_each_key_and_not_without_bound():
    broker = make_broker("q", settings=make_settings(engine={"cached_routes_max": 3}))
    peer = Peer(broker)
    broker.bind(binding("amq.topic", "q", "#"), "x")
    kept = []
    for key in "aabcd":
        peer.publish(ExchangeTarget("amq.topic", key), bodies(1), anonymous=True)
        kept.append(broker.snapshot("engine")[0]["cached_routes"])
    assert kept == [1, 1, 2, 3, 1]
    assert confirms(peer.turn()) == [(0, 4, ACCEPTED)]


def test_a_run_through_a_deep_graph():
    broker = make_broker("q")
    peer = Peer(broker)
    broker.declare_exchange(exchange("first"))
    broker.declare_exchange(exchange("second", ExchangeType.FANOUT, internal=True))
    broker.bind(binding("first", "second", "k", to_exchange=True), "x")
    broker.bind(binding("second", "q"), "x")
    peer.publish(ExchangeTarget("first", "k"), bodies(2))
    assert confirms(peer.turn()) == [(0, 1, ACCEPTED)]


def test_the_runs_own_numbers_come_back():
    broker = make_broker("q")
    peer = Peer(broker)
    publisher = peer.publisher(QueueTarget("q"))
    broker.publish(publisher, QueueTarget("q"), Run(2**40, bodies(3), Attributes()), NOW)
    assert confirms(peer.turn()) == [(2**40, 2**40 + 2, ACCEPTED)]


def test_routes_that_are_not_known_are_searched_for_together_but_not_without_end():
    broker = make_broker("q")
    peer = Peer(broker)
    bound = [f"k{number}" for number in range(100)]
    for key in bound:
        broker.bind(binding("amq.direct", "q", key), "x")
    before = broker.work.spent
    found = broker.known_routes("amq.direct", bound)
    assert SEARCH_WORK <= broker.work.spent - before <= SEARCH_WORK + 3
    assert 0 < found < len(bound)
    assert broker.known_routes("amq.direct", bound) == len(bound)
    before = broker.work.spent
    assert broker.known_routes("amq.direct", bound) == len(bound)
    assert broker.work.spent == before
    keys = ["none", *bound]
    assert broker.known_routes("amq.direct", keys) == len(keys)
    publisher = peer.publisher(None)
    broker.publish_by_keys(publisher, "amq.direct", keys, Run(0, bodies(len(keys)), Attributes()), NOW)
    assert confirms(peer.turn()) == [(0, 0, RELEASED), (1, 100, ACCEPTED)]
    assert broker.queue_info("q", "x").ready == 100


def test_routes_that_headers_decide_are_not_known():
    broker = make_broker("q", "other")
    assert broker.known_routes("none", ["k"]) == 0
    broker.declare_exchange(exchange("turns", ExchangeType.LOCAL_RANDOM))
    broker.bind(binding("amq.topic", "amq.headers", "h", to_exchange=True), "x")
    for name in ("q", "other"):
        broker.bind(binding("turns", name, "k"), "x")
        broker.bind(binding("amq.topic", name, "k"), "x")
    assert broker.known_routes("amq.topic", ["k", "h", "k"]) == 1
    assert broker.known_routes("amq.topic", ["k", "l"]) == 1
    assert broker.known_routes("turns", ["k"]) == 0
    peer = Peer(broker)
    for _ in range(2):
        broker.known_routes("turns", ["k"])
        peer.publish(ExchangeTarget("turns", "k"), bodies(1), anonymous=True)
    peer.turn()
    assert [broker.queue_info(name, "x").ready for name in ("q", "other")] == [1, 1]


def test_more_routing_keys_than_routes_are_cached():
    broker = make_broker("q", settings=make_settings(engine={"cached_routes_max": 3}))
    peer = Peer(broker)
    broker.bind(binding("amq.topic", "q", "#"), "x")
    keys = list("abcdefg")
    assert broker.known_routes("amq.topic", keys) == len(keys)
    publisher = peer.publisher(None)
    broker.publish_by_keys(publisher, "amq.topic", keys, Run(0, bodies(len(keys)), Attributes()), NOW)
    assert confirms(peer.turn()) == [(0, 6, ACCEPTED)]
    assert broker.snapshot("engine")[0]["cached_routes"] <= 3
