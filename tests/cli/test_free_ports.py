"""Ports for brokers that a command starts for itself."""

import socket

from amqp10.cli.free_ports import FREE_PORTS, HOST, free_ports


def test_the_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(9)
    assert len({*ports}) == 9
    assert {*ports} <= {*FREE_PORTS}
    for port in ports:
        socket.create_server((HOST, port)).close()


def test_a_port_that_is_taken_is_left_out() -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        assert free_ports(1, among=range(port, port + 1)) == []
