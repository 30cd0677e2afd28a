"""Where queues live among several processes on one port."""

from collections import Counter

from amqp10.addresses import dynamic_queue_name
from core.amqp091.frontend.direct_reply import reply_queue_name
from core.cluster.digest_homes import homes_by_digest, marked, node_in_name


def test_queues_are_spread_evenly_and_alike_whatever_the_order_of_the_nodes():
    home_of, another = homes_by_digest(("1", "2", "3")), homes_by_digest(("3", "1", "2"))
    names = [f"queue-{number}" for number in range(3000)]
    homes = [home_of("/", name) for name in names]
    assert homes == [another("/", name) for name in names]
    assert all(900 < count < 1100 for count in Counter(homes).values())


def test_virtual_host_and_name_are_told_apart():
    home_of = homes_by_digest(tuple(map(str, range(64))))
    assert home_of("a", "bc") != home_of("ab", "c")


def test_an_exclusive_queue_lives_where_it_was_placed():
    placed = {("/", "mine"): "2"}
    home_of = homes_by_digest(("1", "2"), placed)
    assert home_of("/", "mine") == "2"
    del placed["/", "mine"]
    assert home_of("/", "mine") == homes_by_digest(("1", "2"))("/", "mine")


def test_names_of_dynamic_nodes_and_direct_replies_carry_their_node():
    unique = marked("0123456789abcdef01234567", "12")
    for name in (dynamic_queue_name("a container", "a link", unique), reply_queue_name(unique)):
        assert node_in_name(name) == "12"
        assert homes_by_digest(("1", "12"))("/", name) == "12"
    for name in ("orders", "amq.gen-0123n2", f"my-{unique}", "amq.dyn-a-b-xyz", reply_queue_name("0123")):
        assert node_in_name(name) is None
