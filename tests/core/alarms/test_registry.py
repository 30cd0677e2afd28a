"""Alarms are levels: on as long as one source holds them, and reported once for each change of the set."""

import pytest

from core.alarms.registry import BY_HAND, AlarmRegistry
from core.errors import Invalid
from core.interface import AlarmChanged, Mailbox
from tests.kit.engine import NOW, Peer, later, make_broker


def told(mailbox: Mailbox) -> list[set[str]]:
    actions = mailbox.take()
    assert all(isinstance(action, AlarmChanged) for action in actions)
    return [set(action.alarms) for action in actions]


def shown(registry: AlarmRegistry) -> dict[object, dict[str, object]]:
    return {row["name"]: row for row in registry.snapshot()}


def test_subscribers_hear_of_every_change_of_the_set():
    registry, mailbox = AlarmRegistry(), Mailbox(lambda: None)
    assert registry.subscribe(mailbox) == frozenset()
    registry.set("memory", "sampler")
    registry.set("disk", "sampler")
    registry.clear("memory", "sampler")
    registry.clear("disk", "sampler")
    assert told(mailbox) == [{"memory"}, {"memory", "disk"}, {"disk"}, set()]


def test_saying_the_same_again_is_no_change():
    registry, mailbox = AlarmRegistry(), Mailbox(lambda: None)
    registry.subscribe(mailbox)
    for _ in range(2):
        registry.set("memory", "sampler")
    assert told(mailbox) == [{"memory"}]
    for _ in range(2):
        registry.clear("memory", "sampler")
    assert told(mailbox) == [set()]


def test_each_source_takes_back_only_what_it_raised():
    registry, mailbox = AlarmRegistry(), Mailbox(lambda: None)
    registry.set("memory", "sampler")
    registry.set("memory", BY_HAND)
    assert registry.subscribe(mailbox) == {"memory"}
    registry.clear("memory", BY_HAND)
    assert registry.on == {"memory"}
    registry.clear("memory", "sampler")
    assert told(mailbox) == [set()]


def test_a_listener_that_has_unsubscribed_is_not_called():
    registry, mailbox = AlarmRegistry(), Mailbox(lambda: None)
    registry.subscribe(mailbox)
    registry.unsubscribe(mailbox)
    registry.set("disk", "sampler")
    assert told(mailbox) == []


@pytest.mark.parametrize("change", [AlarmRegistry.set, AlarmRegistry.clear])
def test_a_name_that_is_not_an_alarm(change):
    with pytest.raises(Invalid, match="fire"):
        change(AlarmRegistry(), "fire", BY_HAND)


def test_since_when_is_the_first_stamp_after_the_change():
    registry = AlarmRegistry()
    registry.stamp(NOW)
    registry.set("disk", "sampler")
    assert shown(registry)["disk"]["since"] is None
    registry.stamp(later(1))
    registry.set("memory", BY_HAND)
    registry.stamp(later(2))
    assert {name: row["since"] for name, row in shown(registry).items()} == {
        "audit": None,
        "certificate": None,
        "descriptors": None,
        "disk": later(1).wall,
        "etcd": None,
        "event-loop-lag": None,
        "memory": later(2).wall,
    }


def test_an_alarm_that_is_off_is_shown_as_off():
    assert shown(AlarmRegistry())["memory"] == {
        "name": "memory",
        "level": "alarm",
        "on": False,
        "since": None,
        "sources": [],
        "cause": None,
    }


def test_a_row_has_every_cause_and_the_figures_measured_last():
    registry = AlarmRegistry()
    registry.measured("disk", {"free": 7})
    registry.set("disk", "sampler", "too little")
    registry.set("disk", "sampler", "much too little")
    registry.set("disk", BY_HAND)
    registry.measured("disk", {"free": 3})
    row = shown(registry)["disk"]
    assert (row["cause"], row["sources"], row["free"]) == ("too little; by hand", ["sampler", BY_HAND], 3)


def test_alarms_and_notices_are_told_apart():
    assert {name: row["level"] for name, row in shown(AlarmRegistry()).items()} == {
        "audit": "notice",
        "certificate": "notice",
        "descriptors": "notice",
        "disk": "alarm",
        "etcd": "notice",
        "event-loop-lag": "notice",
        "memory": "alarm",
    }


def test_the_witness_sees_each_begin_and_each_end_once():
    registry = AlarmRegistry()
    seen: list[tuple[object, ...]] = []
    registry.witness = lambda row: seen.append((row["name"], row["on"], row["cause"]))
    registry.set("disk", "sampler", "too little")
    registry.set("disk", BY_HAND)
    registry.clear("disk", "sampler")
    registry.clear("disk", "sampler")
    registry.clear("disk", BY_HAND)
    registry.notice("descriptors", True, "few")
    registry.notice("descriptors", True, "fewer")
    registry.notice("descriptors", False)
    assert seen == [
        ("disk", True, "too little"),
        ("disk", False, "by hand"),
        ("descriptors", True, "few"),
        ("descriptors", False, "few"),
    ]


def test_the_broker_sets_and_clears_by_hand():
    broker = make_broker()
    peer = Peer(broker)
    assert broker.subscribe(peer.mailbox) == frozenset()
    broker.set_alarm("memory")
    assert broker.subscribe(Mailbox(lambda: None)) == {"memory"}
    broker.clear_alarm("memory")
    assert told(peer.mailbox) == [{"memory"}, set()]
    broker.unsubscribe(peer.mailbox, peer.owner)
    broker.set_alarm("disk")
    assert not peer.mailbox.actions
    broker.turn(later(5))
    (row,) = broker.snapshot("alarms", "disk")
    assert (row["on"], row["since"], row["sources"]) == (True, later(5).wall, [BY_HAND])


@pytest.mark.parametrize("name", ["", "fire"])
def test_the_broker_knows_its_alarms(name):
    broker = make_broker()
    with pytest.raises(Invalid):
        broker.set_alarm(name)
    with pytest.raises(Invalid):
        broker.clear_alarm(name)
