"""Rights on AMQP 1.0: each act for a user with the rights that it needs, and for users who lack one of them."""

from collections.abc import Collection

import pytest

from amqp10.wire.messaging import Accepted, Rejected, Source, Target
from amqp10.wire.performatives import Close, Detach, Disposition, Open
from amqp10.wire.sections import Properties, encode_properties
from core.access.rights import FULL, Permission, Rights, TopicPermission, all_rights, no_rights
from tests.kit.acts import DYNAMIC, Need, place, trials
from tests.kit.link_acts import UNAUTHORIZED, Act, connected, publishes, receives_from, requests, sends_to
from tests.kit.management import binding_to_queue
from tests.kit.wire import WirePeer, data_message

NEW = {"arguments": {}}
ACTS: list[tuple[Act, Collection[Need]]] = [
    (sends_to("/queues/q"), [("write", "amq.default")]),
    (sends_to("/exchanges/x/k"), [("write", "x")]),
    (sends_to(None, target=Target(dynamic=True)), [("configure", DYNAMIC), ("write", "amq.default")]),
    (receives_from("/queues/q"), [("read", "q")]),
    (receives_from(None, source=Source(dynamic=True)), [("configure", DYNAMIC), ("read", DYNAMIC)]),
    (publishes("/queues/q"), [("write", "amq.default")]),
    (publishes("/exchanges/x/k"), [("write", "x")]),
    (publishes("/exchanges/x/k", settled=True), [("write", "x")]),
    (requests("PUT", "/queues/new", NEW), [("configure", "new")]),
    (
        requests("PUT", "/queues/new", {"arguments": {"x-dead-letter-exchange": "x"}}),
        [("configure", "new"), ("read", "new"), ("write", "x")],
    ),
    (requests("DELETE", "/queues/q"), [("configure", "q")]),
    (requests("DELETE", "/queues/q/messages"), [("read", "q")]),
    (requests("PUT", "/exchanges/new", NEW), [("configure", "new")]),
    (
        requests("PUT", "/exchanges/new", {"arguments": {"alternate-exchange": "x"}}),
        [("configure", "new"), ("read", "new"), ("write", "x")],
    ),
    (requests("DELETE", "/exchanges/x"), [("configure", "x")]),
    (requests("POST", "/bindings", binding_to_queue("x", "q", "new")), [("write", "q"), ("read", "x")]),
    (requests("GET", "/bindings?src=x&dstq=q&key=k"), [("write", "q"), ("read", "x")]),
    (requests("DELETE", "/bindings/src=x;dstq=q;key=k;args="), [("write", "q"), ("read", "x")]),
]


@pytest.mark.parametrize(("act", "needs"), ACTS)
def test_an_act_is_allowed_with_all_of_its_rights_only(act: Act, needs: Collection[Need]):
    for trial in trials(needs):
        refused = act(connected(place(), trial.rights))
        if trial.allowed:
            assert refused is None
        else:
            assert refused is not None, f"allowed without {trial.told}"
            assert trial.told in refused
            assert refused.endswith("in vhost '/' refused for user 'guest'")


@pytest.mark.parametrize("what", ["configure", "write", "read"])
def test_a_queue_is_shown_with_any_right(what: str):
    peer = connected(place(), Rights("guest", Permission(**{what: "^q$"})))
    assert requests("GET", "/queues/q")(peer) is None
    refused = requests("GET", "/queues/q")(connected(place(), Rights("guest", Permission(read="^other$"))))
    assert refused == "read access to queue 'q' in vhost '/' refused for user 'guest'"


def test_a_queue_that_may_not_be_read_does_not_tell_whether_it_is_there():
    rights = Rights("guest", Permission(read="^other$"))
    told = {
        receives_from(f"/queues/{name}")(connected(place(), rights)).replace(f"'{name}'", "?") for name in ("q", "none")
    }
    assert len(told) == 1


def test_without_a_permission_the_connection_is_refused():
    broker = place()
    broker.rights = no_rights("guest")
    peer = WirePeer(broker)
    peer.handshake()
    peer.send(Open(container_id="test"))
    error = peer.pick(Close).error
    assert (error.condition, error.description) == (UNAUTHORIZED, "access to vhost '/' refused for user 'guest'")


def test_with_a_tag_the_connection_is_for_requests_only():
    broker = place()
    peer = connected(broker, Rights("guest", None, tags=frozenset(("monitoring",))))
    assert requests("GET", "/headgate/status")(peer) is None
    assert requests("PUT", "/headgate/drain")(connected(broker, peer.front_end._engine.rights)) is not None
    assert receives_from("/queues/q")(peer) is not None
    assert sends_to("/queues/q")(peer) is not None


TOPICS = {"topic": TopicPermission(write="^mine[.]", read="^mine[.]")}


@pytest.mark.parametrize(
    ("act", "allowed"),
    [
        (sends_to("/exchanges/topic/mine.a"), True),
        (sends_to("/exchanges/topic/other"), False),
        (publishes("/exchanges/topic/mine.a"), True),
        (publishes("/exchanges/topic/other"), False),
        (publishes("/exchanges/x/k"), True),
        (requests("POST", "/bindings", binding_to_queue("topic", "q", "mine.#")), True),
        (requests("POST", "/bindings", binding_to_queue("topic", "q", "#")), False),
        (requests("POST", "/bindings", binding_to_queue("x", "q", "#")), True),
    ],
)
def test_topic_permissions_restrict_the_keys_of_a_topic_exchange(act: Act, allowed: bool):
    refused = act(connected(place(), Rights("guest", FULL, topics=TOPICS)))
    assert (refused is None) is allowed
    if refused is not None:
        assert "access to topic '" in refused


def test_a_topic_permission_for_an_exchange_of_another_type_restricts_nothing():
    rights = Rights("guest", FULL, topics={"x": TopicPermission(write="^never$", read="^never$")})
    assert publishes("/exchanges/x/k")(connected(place(), rights)) is None


def test_the_user_id_is_that_of_the_user_or_of_anybody_for_an_impersonator():
    payload = encode_properties(Properties(user_id=b"other")) + data_message(b"x")
    for tags, accepted in (((), False), (("impersonator",), True)):
        peer = connected(place(), all_rights("guest", tags))
        peer.attach_sender("/queues/q")
        peer.frames.clear()
        peer.transfer(payload=payload)
        assert bool(peer.take(Disposition)) is accepted
        assert bool(peer.take(Detach)) is not accepted


# --- changes on open links -------------------------------------------------------------------------------------


def test_a_link_whose_right_is_taken_is_detached_and_the_others_stay():
    broker = place()
    rights = Rights("guest", Permission(write="^(x|amq[.]default)$", read="^q$"))
    peer = connected(broker, rights)
    peer.attach_sender("/queues/q", handle=0)
    peer.attach_sender("/exchanges/x/k", handle=1)
    peer.attach_receiver("/queues/q", handle=2)
    peer.attach_sender(None, handle=3)
    peer.frames.clear()
    rights.change(Permission(write="^x$"), {}, frozenset())
    broker.run()
    detaches = {detach.handle: detach.error for detach in peer.take(Detach)}
    assert detaches.keys() == {0, 2}
    assert {error.condition for error in detaches.values()} == {UNAUTHORIZED}
    assert detaches[0].description == "write access to exchange 'amq.default' in vhost '/' refused for user 'guest'"
    assert detaches[2].description == "read access to queue 'q' in vhost '/' refused for user 'guest'"
    peer.transfer(handle=1)
    assert isinstance(peer.pick(Disposition).state, Accepted)
    peer.transfer(handle=3, payload=encode_properties(Properties(to="/queues/q")) + data_message(b"x"))
    assert isinstance(peer.pick(Disposition).state, Rejected)


def test_unsettled_messages_of_a_detached_consumer_go_back():
    broker = place()
    rights = all_rights("guest")
    peer = connected(broker, rights)
    peer.attach_receiver("/queues/q")
    peer.grant(10)
    broker.fill([b"1", b"2"])
    assert broker.unacknowledged() == 2
    rights.change(Permission(write=".*"), {}, frozenset())
    broker.run()
    assert (broker.ready(), broker.unacknowledged()) == (2, 0)


def test_a_user_who_is_gone_loses_the_connection():
    broker = place()
    rights = all_rights("guest")
    peer = connected(broker, rights)
    peer.attach_receiver("/queues/q")
    rights.change(None, {}, frozenset())
    broker.run()
    assert peer.pick(Close).error.condition == UNAUTHORIZED
    assert broker.engine.queue_info("q", None).consumers == 0


def test_a_connection_that_ends_is_told_nothing_more():
    broker = place()
    rights = all_rights("guest")
    peer = connected(broker, rights)
    assert len(rights.mailboxes) == 1
    peer.disconnect()
    assert rights.mailboxes == {}


def test_many_links_are_checked_over_many_turns():
    """A turn checks no more links than its work allows, so other connections are served in between."""
    broker = place()
    rights = all_rights("guest")
    peer = connected(broker, rights)
    count = 200
    for handle in range(count):
        peer.attach_sender("/exchanges/x/k", handle=handle)
    peer.frames.clear()
    rights.change(Permission(read=".*"), {}, frozenset())
    broker.rounds_max = 2
    broker.run()
    first = len(peer.take(Detach))
    broker.rounds_max = None
    broker.run()
    assert 0 < first < count
    assert first + len(peer.take(Detach)) == count
