"""The property ``failover-server-list`` as it is on the wire, and lists that are nonsense."""

import pytest

from amqp10.protocol.failover_servers import (
    FAILOVER_SERVER_LIST,
    SERVERS_MAX,
    FailoverServer,
    failover_property,
    failover_servers,
)
from amqp10.wire.performatives import Open, decode_performative, encode_performative
from amqp10.wire.types import Array, Int, Symbol, UInt

B = FailoverServer("10.0.0.2", 5671, "amqps", "vhost:orders")
ENTRY = {Symbol("network-host"): "h", Symbol("port"): Int(5672)}


def test_servers_come_back_from_an_open():
    servers = [B, FailoverServer("fd00::3", 5672)]
    own = Open(container_id="a", properties=failover_property(servers))
    encoded = encode_performative(own)
    decoded, _ = decode_performative(encoded, 0, len(encoded))
    assert isinstance(decoded, Open)
    assert failover_servers(decoded.properties or {}) == servers


def test_the_keys_are_symbols_and_the_values_are_those_that_qpid_jms_reads():
    assert failover_property([B]) == {
        "failover-server-list": [
            {
                Symbol("hostname"): "vhost:orders",
                Symbol("network-host"): "10.0.0.2",
                Symbol("port"): Int(5671),
                Symbol("scheme"): "amqps",
            }
        ]
    }


def test_without_servers_there_is_no_property():
    assert failover_property([]) == {}
    assert failover_servers({"product": "other"}) is None


@pytest.mark.parametrize("port", ["5672", UInt(5672), 5672])
def test_the_port_may_have_the_type_that_other_brokers_use(port):
    listed = [{Symbol("network-host"): "h", Symbol("port"): port, Symbol("scheme"): None}]
    assert failover_servers({FAILOVER_SERVER_LIST: listed}) == [FailoverServer("h", 5672)]


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("h:5672", "it is no list"),
        (Array(0xA1, ("h",)), "it is no list"),
        ({Symbol("network-host"): "h"}, "it is no list"),
        (["h:5672"], "no map"),
        ([ENTRY] * (SERVERS_MAX + 1), "it has 17 entries"),
        ([ENTRY, {Symbol("port"): Int(1)}], "no network-host"),
        ([ENTRY | {Symbol("network-host"): ""}], "no network-host"),
        ([ENTRY | {Symbol("network-host"): "h" * 256}], "no network-host"),
        ([ENTRY | {Symbol("network-host"): "h\n"}], "no network-host"),
        ([ENTRY | {Symbol("network-host"): "ä" * 70}], "no network-host"),
        ([ENTRY | {Symbol("port"): Int(0)}], "the port of h"),
        ([ENTRY | {Symbol("port"): Int(-1)}], "the port of h"),
        ([ENTRY | {Symbol("port"): UInt(65536)}], "the port of h"),
        ([ENTRY | {Symbol("port"): True}], "the port of h"),
        ([ENTRY | {Symbol("port"): "9" * 5000}], "the port of h"),
        ([ENTRY | {Symbol("port"): [ENTRY]}], "the port of h"),
        ([ENTRY | {Symbol("scheme"): 7}], "the scheme or hostname of h"),
        ([ENTRY | {Symbol("hostname"): [7]}], "the scheme or hostname of h"),
    ],
)
def test_nonsense_is_told(listed, why):
    with pytest.raises(ValueError, match=why):
        failover_servers({FAILOVER_SERVER_LIST: listed})
