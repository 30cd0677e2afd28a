"""``headgate cluster init``: the configuration of each node loads, its certificate serves both ends, and nothing is
overwritten."""

import re
import ssl
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from core.config import load

NODES = ["--node", "a=10.0.0.1", "--node", "b=b.example.org", "--node", "c=fd00::3"]


def test_each_node_gets_a_configuration_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "nodes"
    assert run(["cluster", "init", str(folder), *NODES, "--name", "shop", "--data", str(tmp_path / "data")]) == 0
    told = capsys.readouterr().out
    password = re.search(r"user admin has the password (\S+),", told)
    assert password is not None
    for name, listen in (("a", "10.0.0.1:5672"), ("b", "b.example.org:5672"), ("c", "[fd00::3]:5672")):
        settings = load(folder / name / "headgate.toml")
        cluster = settings.cluster
        assert (cluster.name, cluster.node, cluster.members) == ("shop", name, ("a", "b", "c"))
        assert cluster.etcd == ("10.0.0.1:2379", "b.example.org:2379", "[fd00::3]:2379")
        assert cluster.etcd_peers == ("10.0.0.1:2380", "b.example.org:2380", "[fd00::3]:2380")
        assert (settings.server.listen, cluster.advertise) == ((listen,), listen)
        assert [user.name for user in settings.users] == ["admin"]
        assert cluster.etcd_ca is not None
        assert cluster.etcd_certificate is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=cluster.etcd_ca)
        context.load_cert_chain(cluster.etcd_certificate, cluster.etcd_key)
        assert f"headgate serve --config {folder / name / 'headgate.toml'}" in told
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*") if path.is_file()} == {0}
    assert password[1] not in (folder / "a" / "headgate.toml").read_text()


def test_on_one_machine_there_need_be_no_user_and_no_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["cluster", "init", str(tmp_path / "nodes"), "--node", "a=127.0.0.1", "--no-tls"]) == 0
    assert "password" not in capsys.readouterr().out
    settings = load(tmp_path / "nodes" / "a" / "headgate.toml")
    assert (settings.users, settings.cluster.etcd_ca) == ((), None)
    assert [path.name for path in (tmp_path / "nodes").iterdir()] == ["a"]


def test_files_are_named_where_they_will_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["cluster", "init", str(tmp_path / "nodes"), *NODES, "--installed-at", "/etc/headgate"]) == 0
    settings = load(tmp_path / "nodes" / "b" / "headgate.toml")
    assert settings.cluster.etcd_key == Path("/etc/headgate/node.key")
    assert "headgate serve --config /etc/headgate/headgate.toml" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give 3, 5 or 7"),
        (["--node", "a=h1", "--node", "b=h2"], "give 3, 5 or 7"),
        (["--node", "a"], "NAME=HOST"),
        (["--node", "../a=h1"], "NAME=HOST"),
        (["--node", "a=h 1"], "NAME=HOST"),
        (["--node", "..=h1"], "in use"),
        (["--node", "a=h1", "--node", "a=h2", "--node", "c=h3"], "in use"),
        ([*NODES, "--name", "a/b"], "--name"),
        ([*NODES, "--port", "0"], "--port"),
    ],
)
def test_what_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
):
    assert run(["cluster", "init", str(tmp_path / "nodes"), *options]) == Exit.USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "nodes").exists()


def test_files_that_are_there_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "node.key").write_text("precious")
    assert run(["cluster", "init", str(tmp_path), *NODES]) == Exit.USAGE
    assert "node.key exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
