"""Brokers to compare with: a RabbitMQ is found by its port, and what is missing is said with its remedy."""

import os

import pytest

from amqp10.cli.free_ports import free_ports
from amqp10.load.handshake import Place
from bench.broker import BrokerError
from bench.peers import embedded_artemis
from bench.peers.__main__ import main
from tests.kit.loopback_broker import LoopbackBroker, serving


def test_a_rabbitmq_that_runs_is_found_by_its_port(capsys):
    with serving(LoopbackBroker(product="RabbitMQ")) as url:
        assert main(["rabbitmq", "--port", str(Place.of(url).port)]) == 0
    assert capsys.readouterr().out == f"--peer-url {url} --peer-pid {os.getpid()}\n"


def test_another_broker_is_not_taken_for_rabbitmq(capsys):
    with serving(LoopbackBroker()) as url:
        assert main(["rabbitmq", "--port", str(Place.of(url).port)]) == 2
    said = capsys.readouterr().err
    assert "is Loopback, not RabbitMQ; install RabbitMQ 4.0 or newer" in said


def test_without_a_rabbitmq_the_remedy_is_said(capsys):
    port = free_ports(1)[0]
    assert main(["rabbitmq", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"listens on port {port}" in said
    assert "apt-get install rabbitmq-server" in said


def test_a_folder_is_for_artemis_only(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["rabbitmq", "--data", str(tmp_path)])
    assert "--data is for artemis" in capsys.readouterr().err


def test_without_maven_artemis_is_not_built():
    with pytest.raises(BrokerError, match="no command no-such-maven: install Maven and Java 17"):
        embedded_artemis.build("no-such-maven")
