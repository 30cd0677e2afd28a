"""``headgate serve --nodes``: what it refuses before it starts anything, and the settings of a node."""

import json
import socket

import pytest

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.nodes import node_options, run_nodes
from amqp10.cli.serving import ready_line
from core.config import load

WITHOUT_CLIENTS = {"server.listen": ["127.0.0.1:0"], "admin.enabled": False}


def refusal(count: int, folder, *changes: str, **overrides: object) -> CommandError:
    settings = (
        WITHOUT_CLIENTS | {"data.folder": str(folder)} | {key.replace("__", "."): one for key, one in overrides.items()}
    )
    with pytest.raises(CommandError) as caught:
        run_nodes(count, None, changes=changes, overrides=settings, ready_line=ready_line)
    return caught.value


@pytest.mark.parametrize("count", [0, 1, 65])
def test_a_number_of_nodes_that_makes_no_sense(tmp_path, count):
    error = refusal(count, tmp_path)
    assert (error.code, error.text) == (Exit.USAGE, f"--nodes {count}: 2 to 64 nodes are possible")


def test_a_node_of_a_cluster(tmp_path):
    error = refusal(2, tmp_path, "cluster.node=a")
    assert (error.code, error.text) == (Exit.USAGE, "--nodes and [cluster] exclude each other: leave out one of them")


def test_the_data_folder_of_a_broker_alone(tmp_path):
    (tmp_path / "format.json").write_text("{}", encoding="ascii")
    error = refusal(2, tmp_path)
    assert error.code is Exit.USAGE
    assert "is the data folder of a broker without --nodes" in error.text


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"nodes": "many"}'])
def test_a_data_folder_that_does_not_say_how_many_nodes_it_has(tmp_path, text):
    (tmp_path / "nodes.json").write_text(text, encoding="ascii")
    error = refusal(2, tmp_path)
    assert (error.code, error.text) == (
        Exit.DAMAGED,
        f"{tmp_path / 'nodes.json'} does not say how many nodes there are",
    )


def test_a_data_folder_of_another_number_of_nodes(tmp_path):
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": 3}), encoding="ascii")
    error = refusal(2, tmp_path)
    assert error.code is Exit.USAGE
    assert error.text.endswith("is the data folder of 3 nodes, and with 2 the queues would live on other nodes; start "
                               "with --nodes 3")  # fmt: skip


def test_a_data_folder_of_which_a_node_is_gone(tmp_path):
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": 2}), encoding="ascii")
    (tmp_path / "2").mkdir()
    error = refusal(2, tmp_path)
    assert (error.code, error.text) == (
        Exit.USAGE,
        f"the data folder of node 1, {tmp_path / '1'}, is gone; bring it back",
    )


def test_an_address_that_another_program_has(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = refusal(2, tmp_path, server__listen=[address])
    assert (error.code, error.text) == (Exit.NOT_NOW, f"cannot listen on {address}: Address already in use")


@pytest.mark.parametrize(("watermark", "divided"), [("0.5", "0.125"), ("absolute 1GB", "250000000"), ("0", "0")])
def test_the_settings_of_a_node(tmp_path, watermark, divided):
    overrides = {"alarms.memory_watermark": watermark, "admin.listen": ["127.0.0.1:15692", "127.0.0.1:0"]}
    options = node_options(load(None, overrides), (["127.0.0.1:5672"], []), tmp_path, 3, 4)
    pairs = [options[place + 1] for place, word in enumerate(options) if word == "--set"]
    assert options[:2] == ["--data", str(tmp_path / "3")]
    found = {key: value for key, _, value in (pair.partition("=") for pair in pairs)}
    assert found["cluster.node"] == '"3"'
    assert found["cluster.first_node"] == '"1"'
    assert found["server.listen"] == '["127.0.0.1:5672"]'
    assert found["admin.listen"] == '["127.0.0.1:15694", "127.0.0.1:0"]'
    assert float(found["alarms.memory_watermark"].strip('"').removeprefix("absolute ")) == float(divided)
    assert found["cluster.nodes"].count("name =") == 3
