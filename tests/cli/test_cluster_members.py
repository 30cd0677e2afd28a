"""``headgate cluster join``, ``leave``, ``forget`` and ``replace-etcd`` where they cannot be: each says why."""

from collections.abc import Callable
from pathlib import Path

import pytest

from amqp10.cli import trial_certificates as made
from amqp10.cli.cluster_files import PlannedNode
from amqp10.cli.cluster_members import certificate_of
from amqp10.cli.exits import CommandError, Exit
from tests.kit.command_line import Ran

NEW = PlannedNode("d", "10.0.0.4", 5672, 2379, 2380)


def test_a_node_cannot_join_a_broker_that_is_in_no_cluster(tmp_path: Path, headgate: Callable[..., Ran]):
    joined = headgate("cluster", "join", str(tmp_path / "d"), "--node", "d=10.0.0.4")
    assert (joined.code, "is in no cluster" in joined.err) == (Exit.REFUSED, True)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("node", ["d", "=10.0.0.4", "a/b=10.0.0.4", "d=10.0.0.4/24", "..=10.0.0.4"])
def test_a_node_has_a_name_and_a_host(tmp_path: Path, headgate: Callable[..., Ran], node: str):
    assert headgate("cluster", "join", str(tmp_path / "d"), "--node", node).code == Exit.USAGE


@pytest.mark.parametrize("words", [("leave", "d"), ("forget", "d"), ("replace-etcd", "d")])
def test_the_others_need_a_cluster_too(headgate: Callable[..., Ran], words: tuple[str, ...]):
    ran = headgate("cluster", *words)
    assert (ran.code, "is in no cluster" in ran.err) == (Exit.REFUSED, True)


def test_the_certificate_is_signed_by_the_authority_of_the_cluster(tmp_path: Path):
    authority, other = made.new_authority(days=1), made.new_authority(days=1)
    ca, key, wrong = tmp_path / "ca.pem", tmp_path / "ca.key", tmp_path / "other.key"
    ca.write_bytes(authority.certificate_pem)
    key.write_bytes(authority.key_pem)
    wrong.write_bytes(other.key_pem)
    assert set(certificate_of(NEW, ca, key, 1)) == {"ca.pem", "node.pem", "node.key"}
    for pair in ((ca, wrong), (ca, ca), (tmp_path / "none", key), (None, key), (ca, None)):
        with pytest.raises(CommandError) as refused:
            certificate_of(NEW, *pair, 1)
        assert refused.value.code is Exit.USAGE
