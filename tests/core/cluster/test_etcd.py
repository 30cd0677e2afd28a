"""Which versions of etcd are refused, and what becomes of requests when no member answers."""

import queue

import pytest

from amqp10.cli.free_ports import free_ports
from core.cluster.etcd import Etcd, EtcdAway, EtcdRefused, check_version
from core.cluster.etcd_messages import range_of


@pytest.mark.parametrize("version", ["3.4.23", "3.4.30", "3.5.3", "3.5.16", "3.6.0", "3.7.3", "4.0.0", "3.5.16+git"])
def test_a_sound_version_is_used(version):
    check_version(version, "here:1")


@pytest.mark.parametrize("version", ["3.5.0", "3.5.1", "3.5.2"])
def test_a_version_that_may_lose_data_is_refused(version):
    with pytest.raises(EtcdRefused, match=r"here:1 has version 3.5.\d; versions 3.5.0 to 3.5.2 may lose data"):
        check_version(version, "here:1")


@pytest.mark.parametrize("version", ["3.4.22", "3.3.99", "2.3.8", "", "unknown"])
def test_an_old_version_is_refused(version):
    with pytest.raises(EtcdRefused, match=r"a cluster needs 3\.4\.23"):
        check_version(version, "here:1")


def test_where_no_member_answers_that_is_said_and_the_next_one_is_asked():
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(2)]
    answers: queue.SimpleQueue = queue.SimpleQueue()
    etcd = Etcd(endpoints, answers.put)
    try:
        with pytest.raises(EtcdAway, match=endpoints[0]):
            etcd.check(timeout_s=1.0)
        with pytest.raises(EtcdAway, match=endpoints[1]):
            etcd.ask_now("KV/Range", range_of(b"key"), timeout_s=1.0)
        asked = etcd.endpoint
        found: list[str] = []
        etcd.ask("KV/Range", range_of(b"key"), lambda _: found.append("answer"), lambda: found.append("none"),
                 timeout_s=1.0)  # fmt: skip
        answers.get(timeout=10)()
        assert found == ["none"]
        assert etcd.endpoint != asked
        assert asked in etcd.trouble
        assert (etcd.requests, etcd.failures) == (1, 1)
    finally:
        etcd.close()
