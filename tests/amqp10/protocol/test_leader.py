"""The property that tells where the leader of a queue is, and the error of a link that has lost it."""

import pytest

from amqp10.protocol.failover_servers import FailoverServer
from amqp10.protocol.leader import LEADER_KEY, LEADER_LOST, leader_is_lost, leader_of, leader_property
from amqp10.wire.messaging import Error


def test_a_leader_is_read_as_it_was_told():
    leader = FailoverServer("10.0.0.2", 5672, "amqp")
    assert leader_of(leader_property(leader)) == leader


@pytest.mark.parametrize("properties", [None, {}, {"other": 1}, leader_property(None)])
def test_without_the_property_there_is_none(properties):
    assert leader_of(properties) is None


@pytest.mark.parametrize("told", [None, "b", [], {}, {"network-host": "b"}, {"network-host": "", "port": 1}])
def test_nonsense_is_told_as_such(told):
    with pytest.raises(ValueError, match=r"entry|port"):
        leader_of({LEADER_KEY: told})


@pytest.mark.parametrize(
    ("info", "is_lost"),
    [(dict(LEADER_LOST), True), (None, False), ({}, False), ({"headgate:leader-lost": 1}, False)],
)
def test_an_error_says_whether_the_leader_is_lost(info, is_lost):
    assert leader_is_lost(Error(condition="amqp:link:detach-forced", info=info)) is is_lost
    assert not leader_is_lost(None)
