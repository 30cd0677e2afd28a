"""Limits of users: what counts, who is refused with which text, and how limits are kept, exported and imported."""

import json

import pytest

from amqp10.wire.performatives import Begin, Close, Detach, End
from core.access.checked_engine import CheckedEngine
from core.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, MAX_LINKS, USER_LIMIT_MAX, UserLimits, check_limits
from core.access.records import UserRecord
from core.access.rights import FULL, Rights, all_rights
from core.access.user_definitions import shown_users, users_of
from core.amqp091.methods import ChannelClose, ChannelCloseOk, ChannelOpen, ConnectionClose
from core.engine.virtual_hosts import HostLimits
from core.errors import Invalid, NotFound, PreconditionFailed
from core.interface import Mailbox
from core.operations.users import limit_rows
from core.operations.virtual_hosts import host_row
from core.slices import run_at_once
from tests.core.access.test_broker_users import KeptUsers, users_with
from tests.kit.admin import Facts, client_of
from tests.kit.audited import Audited
from tests.kit.cases import case
from tests.kit.engine import make_broker
from tests.kit.wire import InProcessBroker
from tests.kit.wire091 import connect

NOT_ALLOWED = 530
EXCEEDED = "amqp:resource-limit-exceeded"


def limited(**limits: int) -> Rights:
    rights = all_rights("shop")
    rights.limits.set({name.replace("_", "-"): value for name, value in limits.items()})
    return rights


# --- counting --------------------------------------------------------------------------------------------------------


def test_connections_and_channels_of_all_connections_count_together():
    rights = limited(max_connections=2, max_channels=3)
    engines = [CheckedEngine(make_broker(), rights) for _ in range(2)]
    mailboxes = [Mailbox(lambda: None) for _ in engines]
    for engine, mailbox in zip(engines, mailboxes, strict=True):
        assert engine.connection_refusal() is None
        engine.subscribe(mailbox)
    assert CheckedEngine(make_broker(), rights).connection_refusal() == (
        "Connection refused for user 'shop': user connection limit (2) is reached (max-connections)"
    )
    assert engines[0].connection_refusal() is None, "it counts already"
    assert [engines[0].begin_channel(), engines[0].begin_channel(), engines[1].begin_channel()] == [None] * 3
    assert engines[1].begin_channel() == (
        "number of channels opened for user 'shop' has reached the maximum allowed user limit of (3) (max-channels)"
    )
    engines[1].end_channel()
    engines[0].end_channel()
    assert engines[1].begin_channel() is None
    for engine, mailbox in zip(engines, mailboxes, strict=True):
        engine.unsubscribe(mailbox, engine)
        engine.unsubscribe(mailbox, engine)
        engine.end_channel()
    assert (rights.limits.connections, rights.limits.channels) == (0, 0)


def test_without_limits_no_connection_is_refused():
    limits = UserLimits("shop")
    limits.connections = limits.channels = 10**6
    assert limits.connection_refusal() is None
    assert limits.channel_refusal() is None


def test_a_limit_that_is_reached_is_in_the_audit_log():
    audited = Audited()
    engine = CheckedEngine(make_broker(), limited(max_connections=0, max_channels=0), audited.peer())
    assert engine.connection_refusal() is not None
    engine.subscribe(Mailbox(lambda: None))
    assert engine.begin_channel() is not None
    assert audited.told() == [("open-connection", "refused", "shop"), ("open-channel", "refused", "shop")]


# --- AMQP 1.0 --------------------------------------------------------------------------------------------------------


@case("amqp_auth_SUITE", "user_connection_limit")
def test_a_connection_above_the_limit_is_closed_and_the_next_one_after_an_end_is_let_in():
    """user_connection_limit (amqp_auth_SUITE)"""
    broker = InProcessBroker()
    broker.rights = limited(max_connections=1)
    first = broker.connect()
    assert first.take(Close) == []
    second = broker.connect()
    (close,) = second.take(Close)
    assert close.error is not None
    assert close.error.condition == EXCEEDED
    assert "user connection limit (1) is reached (max-connections)" in str(close.error.description)
    second.disconnect()
    assert broker.rights.limits.connections == 1
    first.disconnect()
    broker.run()
    assert broker.rights.limits.connections == 0
    assert broker.connect().take(Close) == []


@pytest.mark.parametrize("of_the_user", [True, False])
def test_a_link_above_the_limit_is_detached_and_its_session_goes_on(of_the_user: bool):
    broker = InProcessBroker()
    broker.rights = limited(max_links=2) if of_the_user else limited()
    if not of_the_user:
        broker.engine.links.most = 2
    address = broker.queue()
    one, two = broker.connect(), broker.connect()
    for peer in (one, two):
        peer.begin()
    one.attach_sender(address, handle=0)
    two.attach_receiver(address, handle=0)
    for handle, attach in ((1, two.attach_sender), (2, two.attach_receiver)):
        two.frames.clear()
        refused = attach(address, handle=handle)
        (detach,) = two.take(Detach)
        assert (refused.target if handle == 1 else refused.source) is None
        assert detach.error is not None
        assert detach.error.condition == EXCEEDED
        told = str(detach.error.description)
        assert "has 2 links, and its limit max-links is 2" in told
        remedy = "user-limits set shop max-links" if of_the_user else "vhosts limit / --max-links"
        assert f"raise the limit: headgate {remedy} NUMBER" in told
        two.send(Detach(handle=handle, closed=True))
    one.detach(0)
    two.frames.clear()
    two.attach_sender(address, handle=4)
    assert two.take(Detach) == []
    assert (broker.rights.limits.links, broker.engine.links.count) == (2, 2)
    two.disconnect()
    broker.run()
    one.disconnect()
    broker.run()
    assert (broker.rights.limits.links, broker.engine.links.count) == (0, 0)


def test_a_session_that_ends_gives_its_links_back():
    broker = InProcessBroker()
    broker.rights = limited(max_links=1)
    peer = broker.connect()
    peer.begin()
    peer.attach_sender(broker.queue(), handle=0)
    assert broker.rights.limits.links == 1
    peer.send(End())
    broker.run()
    assert broker.rights.limits.links == 0


def test_a_user_s_links_are_listed_and_a_virtual_host_s_limit_is_kept():
    facts = Facts()
    facts.control.users.set(UserRecord(name="shop", limits={MAX_LINKS: 5}))
    rights = facts.control.users.rights_of("shop")
    rights.limits.links = 3
    (row,) = limit_rows(facts.control, facts.control.users.record("shop"))
    assert row == {"user": "shop", "limit": "max-links", "value": 5, "used": 3}
    hosts = facts.control.hosts
    hosts.set_limits("/", HostLimits(max_links=7))
    assert (facts.broker.links.most, host_row(facts.control, "/")["max_links"]) == (7, 7)
    hosts.set_limits("/", HostLimits())
    assert facts.broker.links.most is None


def test_a_session_above_the_limit_is_ended_and_the_connection_goes_on():
    broker = InProcessBroker()
    broker.rights = limited(max_channels=2)
    one, two = broker.connect(), broker.connect()
    one.begin()
    two.begin()
    two.frames.clear()
    two.send(Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10), channel=1)
    assert len(two.take(Begin)) == 1
    (end,) = two.take(End)
    assert end.error is not None
    assert end.error.condition == EXCEEDED
    assert "user limit of (2) (max-channels)" in str(end.error.description)
    two.send(End(), channel=1)
    assert two.take(Close) == []
    assert broker.rights.limits.channels == 2
    one.send(End(), channel=0)
    assert broker.rights.limits.channels == 1
    two.send(Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10), channel=1)
    assert two.take(End) == []
    two.disconnect()
    broker.run()
    assert broker.rights.limits.channels == 0


# --- AMQP 0.9.1 ------------------------------------------------------------------------------------------------------


def test_a_channel_above_the_limit_closes_its_connection_with_530():
    broker = InProcessBroker()
    broker.rights = limited(max_channels=2)
    peer, other = connect(broker), connect(broker)
    other.send(2, ChannelOpen())
    (close,) = other.methods(ConnectionClose)
    assert close.reply_code == NOT_ALLOWED
    assert "number of channels opened for user 'shop' has reached the maximum allowed user limit of (2)" in (
        close.reply_text
    )
    other.disconnect()
    broker.run()
    assert broker.rights.limits.channels == 1
    peer.send(1, ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0))
    assert len(peer.methods(ChannelCloseOk)) == 1
    assert broker.rights.limits.channels == 0


# --- keeping ---------------------------------------------------------------------------------------------------------


def test_limits_are_kept_and_hold_at_once():
    store = KeptUsers()
    users = users_with(store)
    users.set(UserRecord(name="shop", permissions={"/": FULL}))
    assert "limits" not in json.loads(store.texts["shop"]), "records without limits are those of earlier versions"
    rights = users.rights_of("shop")
    users.set_limit("shop", MAX_CONNECTIONS, 5)
    users.set_limit("shop", MAX_CHANNELS, 7)
    assert rights.limits.most == {MAX_CONNECTIONS: 5, MAX_CHANNELS: 7}
    assert users_with(store).rights_of("shop").limits.most == rights.limits.most
    users.set_limit("shop", MAX_CONNECTIONS, None)
    users.set_limit("shop", MAX_CONNECTIONS, None)
    assert users_with(store).record("shop").limits == {MAX_CHANNELS: 7}


@pytest.mark.parametrize(
    ("limit", "value"), [("max-sessions", 1), (MAX_CHANNELS, -2), (MAX_CHANNELS, USER_LIMIT_MAX + 1)]
)
def test_limits_that_cannot_be_used_are_refused(limit: str, value: int):
    users = users_with()
    users.set(UserRecord(name="shop"))
    with pytest.raises(Invalid, match="max-"):
        users.set_limit("shop", limit, value)


def test_only_users_of_the_broker_have_limits():
    with pytest.raises(NotFound):
        users_with().set_limit("absent", MAX_CHANNELS, 1)
    with pytest.raises(PreconditionFailed):
        users_with().set_limit("guest", MAX_CHANNELS, 1)


def test_limits_are_exported_and_imported():
    record = UserRecord(name="shop", limits={MAX_CONNECTIONS: 5})
    exported = shown_users([record])
    assert exported["users"][0]["limits"] == {MAX_CONNECTIONS: 5}
    assert run_at_once(users_of(exported, users_with())) == [record]
    exported["users"][0]["limits"] = {MAX_CONNECTIONS: -1, MAX_CHANNELS: 3}
    assert run_at_once(users_of(exported, users_with()))[0].limits == {MAX_CHANNELS: 3}
    for wrong in ([], {MAX_CHANNELS: "many"}, {"max-sessions": 3}):
        exported["users"][0]["limits"] = wrong
        with pytest.raises(Invalid, match="limit"):
            run_at_once(users_of(exported, users_with()))


async def test_rabbitmqs_paths():
    facts = Facts()
    facts.control.users.set(UserRecord(name="shop"))
    async with client_of(facts.application(), **{"x-headgate-request": "1"}) as client:

        async def shown(path: str = "/api/user-limits") -> object:
            return (await client.get(path)).json()

        assert await shown() == []
        answer = await client.put("/api/user-limits/shop/max-connections", json={"value": 5})
        assert answer.status_code == 204
        assert await shown() == [{"user": "shop", "value": {"max-connections": 5}}]
        assert await shown("/api/user-limits/shop") == await shown()
        assert (await client.get("/api/users/shop")).json()["limits"] == {"max-connections": 5}
        wrong = await client.put("/api/user-limits/shop/max-sessions", json={"value": 5})
        assert wrong.status_code == 400
        assert "there are max-connections, max-channels" in wrong.text
        assert (await client.put("/api/user-limits/absent/max-channels", json={"value": 5})).status_code == 404
        await client.delete("/api/user-limits/shop/max-connections")
        assert await shown() == []


@pytest.mark.parametrize("weight", [0, 101, -3, True, "3"])
def test_a_weight_is_a_number_from_1_to_100(weight: object):
    with pytest.raises(Invalid, match="publisher-weight must be a number from 1 to 100"):
        check_limits({"publisher-weight": weight})  # type: ignore[dict-item]
    check_limits({"publisher-weight": 1, "publish-rate": 5})
    check_limits({"publisher-weight": 100})


def test_a_weight_is_told_to_who_publishes_under_it():
    rights = limited(publisher_weight=7)
    told: list[int] = []
    assert rights.limits.publishing.weight == 7
    rights.limits.publishing.watch(lambda: told.append(rights.limits.publishing.weight))
    rights.limits.set({"publisher-weight": 7})
    rights.limits.set({"publisher-weight": 2})
    rights.limits.set({})
    assert told == [2, 1]
