"""The services of ``examples/13_services_pika.py``: one connection and three channels each, on a topic exchange."""

import importlib
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.kit.broker_process import BrokerAddress
from tests.kit.command_line import run_here

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

TYPES, HOSTS = ("web", "ctrl", "repo"), ("host1", "host2")


class Running:
    """The six services, and the answers that callers got."""

    def __init__(self, example: ModuleType, url: str) -> None:
        self._example = example
        self._url = url
        self.answers: list[str] = []
        self.by_key: dict[str, Any] = {}
        for of_type in TYPES:
            for host in HOSTS:
                self.start(of_type, host)

    def start(self, of_type: str, host: str) -> None:
        key = f"{of_type}.{host}"
        self.by_key[key] = self._example.Service(of_type, host, lambda text: f"{key} did {text}", url=self._url)

    def call(self, caller: str, key: str, text: str) -> None:
        self.by_key[caller].call(key, text, self.answers.append)

    def until(self, *, answers: int = 0, handled: tuple[str, int] = ("", 0)) -> None:
        """Run the services until there are this many answers, and this many services have handled the message."""
        self._example.run(
            list(self.by_key.values()),
            lambda: len(self.answers) >= answers and len(self.had(handled[0])) >= handled[1],
        )

    def settle_down(self) -> None:
        """Call every service and wait for the answers. Everything that was published before has arrived then."""
        before = len(self.answers)
        for key in list(self.by_key):
            self.call("web.host1", key, "are you there?")
        self.until(answers=before + len(self.by_key))

    def had(self, text: str) -> list[str]:
        """The services that handled a message, once for each time."""
        return [key for key, service in self.by_key.items() for handled in service.handled if handled == text]


@pytest.fixture(scope="module")
def running(broker: BrokerAddress) -> Iterator[Running]:
    running = Running(importlib.import_module("examples.13_services_pika"), broker.url())
    yield running
    for service in running.by_key.values():
        service.connection.close()


def listed(broker: BrokerAddress, kind: str) -> list[dict[str, Any]]:
    """The broker's rows of a kind."""
    if broker.pid == 0:
        pytest.skip("another broker than Headgate has no such command")
    ran = run_here(kind, "list", "--json", url=broker.url())
    assert ran.code == 0, ran.err
    rows: list[dict[str, Any]] = json.loads(ran.out)
    return rows


def test_row_0_03_the_caller_goes_on_and_the_answer_comes_back_to_it(running):
    running.answers.clear()
    running.call("web.host1", "repo.host2", "save")
    assert running.answers == []
    running.until(answers=1)
    assert running.answers == ["repo.host2 did save"]


def test_row_0_04_a_cast_is_executed_once_and_not_answered(running):
    running.answers.clear()
    running.by_key["web.host1"].cast("ctrl.host1", "count")
    running.settle_down()
    assert running.had("count") == ["ctrl.host1"]
    assert not any("count" in answer for answer in running.answers)


@pytest.mark.slow
def test_row_0_05_each_has_one_connection_with_three_channels(running, broker):
    connections = [row for row in listed(broker, "connections") if row["container_id"] in running.by_key]
    assert sorted(row["container_id"] for row in connections) == sorted(running.by_key)
    assert {row["channels"] for row in connections} == {3}


@pytest.mark.slow
def test_row_0_06_a_host_consumes_its_queue_alone_and_the_queue_of_its_type_with_others(running, broker):
    consumers = {row["name"]: row["consumers"] for row in listed(broker, "queues")}
    assert {of_type: consumers[of_type] for of_type in TYPES} == dict.fromkeys(TYPES, len(HOSTS))
    hosts = [f"{of_type}.{host}" for of_type in TYPES for host in HOSTS]
    assert {host: consumers[host] for host in hosts} == dict.fromkeys(hosts, 1)


def test_row_0_08_the_hosts_of_a_type_get_equal_shares(running):
    running.answers.clear()
    for number in range(9):
        running.call("web.host1", "repo", f"load {number}")
    running.until(answers=9)
    shares = [sum(answer.startswith(f"repo.{host}") for answer in running.answers) for host in HOSTS]
    assert sorted(shares) == [4, 5]


def test_row_0_09_a_multicast_is_one_copy_for_each_host_of_the_type(running):
    running.by_key["web.host1"].multicast("ctrl", "reload")
    running.settle_down()
    assert running.had("reload") == ["ctrl.host1", "ctrl.host2"]


def test_row_0_10_a_broadcast_is_one_copy_for_every_host(running):
    running.by_key["repo.host1"].broadcast("hello")
    running.settle_down()
    assert running.had("hello") == [f"{of_type}.{host}" for of_type in TYPES for host in HOSTS]


def test_row_0_18_a_call_that_came_back_is_made_again(running):
    unroutable = importlib.import_module("pika.exceptions").UnroutableError
    running.answers.clear()
    with pytest.raises(unroutable) as returned:
        running.call("web.host2", "repo.host3", "save again")
    assert returned.value.messages[0].method.reply_code == 312
    running.start("repo", "host3")
    running.call("web.host2", "repo.host3", "save again")
    running.until(answers=1)
    running.by_key.pop("repo.host3").connection.close()
    assert running.answers == ["repo.host3 did save again"]
