"""Virtual hosts in the engine: separate names over one machinery; limits; deletion in steps; what a start finds."""

import pytest

from core.engine.host_deletion import DELETED_AT_ONCE
from core.engine.virtual_hosts import HOSTS_MAX, NEXT_S, HostLimits, VirtualHosts
from core.errors import Forbidden, Invalid, LimitReached, NotFound, StillGoing
from core.interface import QueueTarget
from core.store.definitions import PolicyDeclaration
from core.virtual_hosts import shown_name
from tests.kit.engine import NOW, Peer, binding, bodies, entries_for, exchange, later, make_broker, queue


def two(**queues: str) -> VirtualHosts:
    hosts = VirtualHosts(make_broker())
    assert hosts.add("b")
    return hosts


def run(hosts: VirtualHosts, turns: int = 1000) -> int:
    """Take turns until nothing is left to do; returns how many."""
    for number in range(turns):
        if not hosts.turn(NOW) and hosts.deadline() > NOW.monotonic:
            return number + 1
    raise AssertionError("the broker does not come to rest")


def test_the_same_name_is_another_queue_in_each_virtual_host():
    hosts = two()
    peers = {name: Peer(hosts.named(name), owner=name) for name in hosts.names}
    for name, peer in peers.items():
        hosts.named(name).declare_queue(queue("q"), "setup")
        peer.publish("q", [name.encode()])
    taken = {}
    for name, peer in peers.items():
        consumer = peer.consume("q", 10)
        run(hosts)
        taken[name] = entries_for(peer.mailbox.take(), consumer)
    assert taken == {"/": [b"/"], "b": [b"b"]}


def test_names_exchanges_bindings_and_policies_of_one_are_not_there_in_the_other():
    hosts = two()
    b = hosts.named("b")
    b.declare_queue(queue("q"), "setup")
    b.declare_exchange(exchange("x"))
    b.bind(binding("x", "q", "k"), "setup")
    b.policies.set(PolicyDeclaration(name="p", pattern="q", definition={"max-length": 1}))
    for kind in ("queues", "bindings", "policies"):
        assert hosts.default.snapshot(kind) == []
    assert hosts.default.snapshot("exchanges", "x") == []
    with pytest.raises(NotFound):
        hosts.default.queue_info("q", "setup")
    with pytest.raises(NotFound):
        Peer(hosts.default).publisher(QueueTarget("q"))
    hosts.default.declare_queue(queue("q"), "setup")
    assert hosts.default.snapshot("queues", "q")[0]["policy"] is None
    assert b.snapshot("queues", "q")[0]["policy"] == "p"


def test_limits_of_the_broker_hold_for_the_sum_and_totals_are_the_sum():
    hosts = two()
    before = hosts.default.snapshot("totals")[0]
    for name in hosts.names:
        hosts.named(name).declare_queue(queue(f"q-{len(name)}"), "setup")
    after = hosts.default.snapshot("totals")[0]
    assert (before["queues"], after["queues"]) == (0, 2)
    assert hosts.named("b").snapshot("totals")[0]["exchanges"] == after["exchanges"] == 10


def test_a_dead_letter_stays_in_its_virtual_host():
    hosts = two()
    for name in hosts.names:
        hosts.named(name).declare_queue(queue("dead"), "setup")
    b = hosts.named("b")
    b.declare_queue(queue("q", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="dead"), "setup")
    Peer(b).publish("q", bodies(3))
    run(hosts)
    assert [hosts.named(name).ready_messages("dead") for name in hosts.names] == [0, 2]


def test_a_queue_that_expires_is_deleted_in_its_own_virtual_host():
    hosts = two()
    hosts.default.declare_queue(queue("q"), "setup")
    hosts.named("b").declare_queue(queue("q", x_expires=1000), "setup")
    run(hosts)
    for _ in range(3):
        hosts.turn(later(2.0))
    assert [len(hosts.named(name).snapshot("queues")) for name in hosts.names] == [1, 0]


def test_max_queues_and_max_connections_are_named_where_they_are_reached():
    hosts = two()
    hosts.set_limits("b", HostLimits(max_connections=1, max_queues=1))
    b = hosts.named("b")
    b.declare_queue(queue("one"), "setup")
    with pytest.raises(LimitReached, match=r"limit of 1 queues in this virtual host \(max-queues\) is reached"):
        b.declare_queue(queue("two"), "setup")
    hosts.default.declare_queue(queue("one"), "setup")
    hosts.default.declare_queue(queue("two"), "setup")
    hosts.check_connections("b")
    b.connections += 1
    with pytest.raises(LimitReached, match="max-connections is 1"):
        hosts.check_connections("b")
    hosts.check_connections("/")
    hosts.set_limits("b", HostLimits())
    hosts.check_connections("b")
    b.declare_queue(queue("two"), "setup")
    assert hosts.limits("b").shown() == {}


@pytest.mark.parametrize("name", ["", "x" * 256, "a\nb"])
def test_a_name_that_cannot_be_used_is_refused(name: str):
    hosts = two()
    with pytest.raises(Invalid, match="1 to 255 bytes"):
        hosts.add(name)
    assert not hosts.add("b")
    assert hosts.names == ["/", "b"]


def test_there_is_a_most_of_virtual_hosts():
    hosts = VirtualHosts(make_broker())
    for number in range(HOSTS_MAX):
        hosts.add(str(number))
    with pytest.raises(LimitReached, match=f"{HOSTS_MAX} virtual hosts"):
        hosts.add("one more")
    assert len(hosts.names) == HOSTS_MAX + 1


def test_a_thousand_queues_are_deleted_a_few_in_each_turn():
    hosts = two()
    b = hosts.named("b")
    for number in range(1000):
        b.declare_queue(queue(f"q{number}"), "setup")
        b.bind(binding("amq.topic", f"q{number}", "k"), "setup")
    b.declare_exchange(exchange("x"))
    b.bind(binding("amq.topic", "amq.fanout", "k", to_exchange=True), "setup")
    hosts.default.declare_queue(queue("q1"), "setup")
    closed: list[str] = []
    hosts.closing = closed.append
    hosts.delete("b")
    assert closed == ["b"]
    assert hosts.find("b") is None
    with pytest.raises(StillGoing):
        hosts.add("b")
    most = turns = 0
    while hosts.deleting("b"):
        now = later(turns * NEXT_S * 1.5)
        before, queues = hosts.default.work.spent, len(b.shown.queues)
        hosts.turn(now)
        for _ in range(3):  # the server takes several turns of the engine in one
            assert not hosts.deleting("b") or now.monotonic < hosts.deadline() <= now.monotonic + NEXT_S
            hosts.turn(now)
        turns += 1
        most = max(most, queues - len(b.shown.queues))
        assert hosts.default.work.spent - before < 10_000
    assert 0 < most <= DELETED_AT_ONCE
    assert turns >= 1000 / DELETED_AT_ONCE
    assert hosts.names == ["/"]
    assert [row["name"] for row in hosts.default.snapshot("queues")] == ["q1"]
    assert hosts.default.snapshot("totals")[0]["queues"] == 1
    assert hosts.add("b")
    assert hosts.named("b").snapshot("queues") == []


def test_a_deletion_waits_for_exclusive_queues_of_connections():
    hosts = two()
    b = hosts.named("b")
    peer = Peer(b, owner="peer")
    b.declare_queue(queue("own", exclusive=True), "peer")
    hosts.delete("b")
    run(hosts)
    assert hosts.deleting("b")
    b.unsubscribe(peer.mailbox, "peer")
    for second in range(10):
        hosts.turn(later(second))
    assert not hosts.deleting("b")


def test_the_default_one_cannot_be_deleted_nor_one_that_there_is_not():
    hosts = two()
    with pytest.raises(Forbidden, match="cannot be deleted"):
        hosts.delete("/")
    with pytest.raises(NotFound, match="there is no virtual host 'c'"):
        hosts.delete("c")
    assert hosts.names == ["/", "b"]


def test_figures_of_all_queues_name_the_virtual_host():
    hosts = two()
    for name in hosts.names:
        hosts.named(name).declare_queue(queue("q"), "setup")
    run(hosts)
    assert [(row["vhost"], row["name"]) for row in hosts.queue_figures()] == [("/", "q"), ("b", "q")]
    assert [(row["vhost"], row["name"]) for row in hosts.queue_figures(1)] == [("/", "q")]
    assert [name for name, _ in hosts.idle_consumers()] == ["q", shown_name("b", "q")] == ["q", "vhost:b:q"]
    assert [*hosts.queue_sums.refresh()] == []
    assert len(hosts.queue_sums) == 2
