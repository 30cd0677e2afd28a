"""``headgate cluster copies`` and ``recover`` on folders of stopped nodes: what they print, refuse and leave."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.free_ports import free_ports
from amqp10.cli.main import run
from core.cluster.member_list import ListedMember, MemberList, MemberState
from core.engine.quorum.group_numbers import GroupNumbers, with_size
from core.engine.routing.topology import numbered_identities
from core.server.cluster_recovery import RECOVERY_FILE, read_recovery
from core.store.definitions import open_definitions
from core.store.folder import open_folder
from tests.kit.engine import queue
from tests.server.test_cluster_recovery import files, filled

IDENTITY = "0123456789abcdef" * 2
GROUP = GroupNumbers(3).of(IDENTITY)
OLD = "cd" * 16


def declared(folder: Path, identity: str = IDENTITY) -> None:
    with closing(open_definitions(folder, new_identity=numbered_identities())) as database:
        database.add_queue(queue("orders", **{"x-queue-type": "quorum"}), identity)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a node that has a queue in one of its groups."""
    folder = tmp_path / "data"
    filled(folder, batches=4, group=GROUP)
    declared(folder)
    (folder / "cluster").write_text(OLD + "\n")
    (folder / "cluster-members").write_bytes(MemberList.first(["a", "b", "c"], [], []).encoded())
    return folder


def configuration(tmp_path: Path, data: Path, node: str = "a") -> Path:
    """That of a node whose etcd does not answer."""
    (port,) = free_ports(1)
    file = tmp_path / "headgate.toml"
    section = f'[cluster]\nnode = "{node}"\nmembers = ["a", "b", "c"]\netcd = ["127.0.0.1:{port}"]\ngroups = 3\n'
    file.write_text(f'[data]\nfolder = "{data}"\n{section}')
    return file


def refused(capsys: pytest.CaptureFixture[str], words: Sequence[str], code: Exit = Exit.USAGE) -> str:
    """What a command says that is refused."""
    capsys.readouterr()
    assert run(["cluster", *words]) == code
    return capsys.readouterr().err


def test_copies_are_shown_as_a_table_and_as_json(data: Path, capsys: pytest.CaptureFixture[str]):
    before = files(data)
    assert run(["cluster", "copies", "--data", str(data)]) == 0
    out = capsys.readouterr().out
    assert f"{data} is of cluster {OLD}; the nodes are a, b, c" in out
    assert "orders" in out
    assert run(["cluster", "copies", "--data", str(data), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["identity"], said["nodes"]) == (OLD, ["a", "b", "c"])
    (row,) = [one for one in said["groups"] if one["end"]]
    assert (row["group"], row["end"], row["epoch"], row["trouble"]) == (GROUP, 4, 5, None)
    (shown,) = row["queues"]
    assert shown == {"queue": "orders", "vhost": "/", "type": "quorum", "messages": 0, "next_offset": None}
    assert files(data) == before


def test_a_trial_changes_nothing_and_the_command_writes_one_file(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
):
    before, config = files(data), str(configuration(tmp_path, data))
    assert run(["cluster", "recover", "--config", config, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("Nothing was changed.\n")
    assert "headgate cluster copies --data FOLDER" in out
    assert files(data) == before
    assert run(["cluster", "recover", "--config", config, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = read_recovery(data)
    assert found is not None
    assert (found.identity, found.ends[GROUP], found.lost) == (said["new_identity"], 4, frozenset())
    assert said["identity"] == OLD != found.identity
    assert {name for name in files(data) if name not in before} == {RECOVERY_FILE}
    assert run(["cluster", "recover", "--config", config]) == 0
    assert f"is to begin cluster {found.identity} already: start its broker" in capsys.readouterr().out
    assert read_recovery(data) == found
    (data / RECOVERY_FILE).write_text("{}")
    assert "is not what headgate cluster recover writes" in refused(capsys, ["recover", "--config", config])


def test_without_a_configuration_it_says_what_was_not_checked(data: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["cluster", "recover", "--data", str(data)]) == 0
    said = capsys.readouterr()
    assert "To take it back before the start, remove" in said.out
    assert "it was not checked whether etcd still has the cluster" in said.err


def test_folders_that_cannot_be_recovered_are_refused(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]):
    assert "give the data folder of the stopped broker with --data" in refused(capsys, ["recover"])
    assert "does not exist" in refused(capsys, ["recover", "--data", str(tmp_path / "none")])
    alone = tmp_path / "alone"
    open_folder(alone).close()
    for command in ("copies", "recover"):
        assert "is not the data folder of a node of a cluster" in refused(capsys, [command, "--data", str(alone)])
    with closing(open_folder(data)):
        assert "is in use by process" in refused(capsys, ["recover", "--data", str(data)])
    plain = tmp_path / "plain.toml"
    plain.write_text(f'[data]\nfolder = "{data}"\n')
    assert "has no [cluster] with members" in refused(capsys, ["recover", "--config", str(plain)])
    (data / "cluster").unlink()
    assert "was never in a cluster" in refused(capsys, ["recover", "--data", str(data)])
    (data / "cluster-members").write_bytes(b"damaged")
    assert "has no list of members" in refused(capsys, ["recover", "--data", str(data)])
    assert read_recovery(data) is None


def test_the_node_has_to_be_one_of_the_list(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]):
    config = str(configuration(tmp_path, data))
    wrong = ["recover", "--config", config, "--node", "b"]
    assert "--node b: the configuration is that of node a" in refused(capsys, wrong)
    wrong = ["recover", "--data", str(data), "--node", "z"]
    assert "node z is none of the nodes that this folder knows, which are a, b, c" in refused(capsys, wrong)
    joining = MemberList.first(["b", "c"], [], []).joined_by(ListedMember("a", MemberState.JOINING))
    (data / "cluster-members").write_bytes(joining.encoded())
    said = refused(capsys, ["recover", "--config", config], Exit.REFUSED)
    assert "node a was joining, and may not have all definitions; choose another, or use --force" in said


def test_groups_that_this_node_does_not_keep_need_force(data: Path, capsys: pytest.CaptureFixture[str]):
    sized = with_size("1123456789abcdef" * 2, 3)
    number = GroupNumbers(3).of(sized)
    with closing(open_definitions(data, new_identity=numbered_identities())) as database:
        database.add_queue(queue("small", **{"x-queue-type": "quorum"}), sized)
    listed = MemberList.first(["a", "b", "c", "d"], [], [])._replace(groups={number: ("b", "c", "d")})
    (data / "cluster-members").write_bytes(listed.encoded())
    assert "say which of the nodes a, b, c, d this is" in refused(capsys, ["recover", "--data", str(data)])
    words = ["recover", "--data", str(data), "--node", "a"]
    said = refused(capsys, words, Exit.REFUSED)
    assert "the queues of these groups would begin empty; choose another node, or use --force" in said
    assert f"group {number} with 'small': nodes b, c, d keep it, and a does not" in said
    assert run(["cluster", *words, "--force", "--json"]) == 0
    rows = {row["group"]: row["taken_over"] for row in json.loads(capsys.readouterr().out)["groups"]}
    assert rows[GROUP]
    assert not rows[number]
    found = read_recovery(data)
    assert found is not None
    assert number not in found.ends
    assert not found.lost


def test_a_damaged_copy_with_queues_needs_force(data: Path, capsys: pytest.CaptureFixture[str]):
    (log,) = [one for one in (data / f"quorum/groups/{GROUP}").glob("*.log") if one.stat().st_size]
    content = bytearray(log.read_bytes())
    content[60] ^= 0xFF
    log.write_bytes(content)
    said = refused(capsys, ["recover", "--data", str(data)], Exit.REFUSED)
    assert f"group {GROUP} with 'orders': this copy is damaged: a synced record" in said
    assert run(["cluster", "recover", "--data", str(data), "--force"]) == 0
    found = read_recovery(data)
    assert found is not None
    assert found.lost == {GROUP}
