"""The files for a cluster in containers: each node's settings load, and what the files say of nodes and members of etcd
fits together."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from core.config import ConfigError, Settings, load
from core.config.address import parse_address
from core.config.cluster import ClusterSettings
from core.config.overrides import from_environment
from core.server import etcd_process
from tests.config_files.test_dockerfile import USERS, environment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "config" / "cluster"
NODE = re.compile(r"\$\(NODE\)")
CLIENTS, PEERS = 2379, 2380


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """The file of all nodes, with the user that has to be added."""
    path = tmp_path / "broker.toml"
    path.write_text((FOLDER / "broker.toml").read_text(encoding="utf-8") + USERS, encoding="utf-8")
    return path


def options(words: Sequence[str]) -> dict[str, str]:
    """The options of an etcd."""
    assert words[0] == "etcd"
    return {name: value for name, _, value in (word.partition("=") for word in words[1:])}


def check_options(given: Mapping[str, str]) -> None:
    """What every etcd of Headgate needs, as the broker itself gives it."""
    assert given["--max-request-bytes"] == str(etcd_process.REQUEST_BYTES_MAX)
    assert given["--quota-backend-bytes"] == str(etcd_process.QUOTA_BYTES)
    assert given["--snapshot-count"] == str(etcd_process.SNAPSHOT_ENTRIES)
    defaults = ClusterSettings()
    assert given["--heartbeat-interval"] == str(round(defaults.etcd_heartbeat_interval * 1000))
    assert given["--election-timeout"] == str(round(defaults.etcd_election_timeout * 1000))
    assert "--pre-vote" in given
    assert "--experimental-initial-corrupt-check" in given
    assert given["--listen-client-urls"] == f"http://0.0.0.0:{CLIENTS}"
    assert given["--listen-peer-urls"] == f"http://0.0.0.0:{PEERS}"


def check_nodes(
    nodes: Mapping[str, Settings], hosts: Sequence[str], initial_cluster: str, names: Sequence[str]
) -> None:
    """All nodes are in one cluster, whose etcd is on these hosts."""
    assert initial_cluster == ",".join(f"{name}=http://{host}:{PEERS}" for name, host in zip(names, hosts, strict=True))
    for name, settings in nodes.items():
        cluster = settings.cluster
        assert (cluster.node, cluster.members) == (name, tuple(nodes))
        assert [parse_address(address) for address in cluster.etcd] == [(host, CLIENTS) for host in hosts]
        assert cluster.etcd_peers == ()
    assert len({settings.cluster.advertise for settings in nodes.values()}) == len(nodes)


def test_the_nodes_of_the_compose_file(configuration: Path):
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["services"]
    nodes, members = {}, {}
    for name, service in services.items():
        if "ETCD_NAME" in service["environment"]:
            members[service["environment"]["ETCD_NAME"]] = name
            check_options(options(service["command"]))
            assert service["environment"]["ETCD_ADVERTISE_CLIENT_URLS"] == f"http://{name}:{CLIENTS}"
            assert service["environment"]["ETCD_INITIAL_ADVERTISE_PEER_URLS"] == f"http://{name}:{PEERS}"
            assert "ports" not in service, "etcd is for the nodes only"
            continue
        settings = load(configuration, from_environment(service["environment"]))
        nodes[settings.cluster.node] = settings
        [port] = service["ports"]
        assert port == f"{settings.cluster.advertise}:5672"
        assert f"{environment()['HEADGATE_DATA']}" in service["volumes"][0]
        assert service["volumes"][1] == f"./broker.toml:{environment()['HEADGATE_CONFIG']}:ro"
    initial = options(services["etcd-a"]["command"])["--initial-cluster"]
    check_nodes(nodes, list(members.values()), initial, list(members))
    assert yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["networks"]["inside"]["internal"]


def test_the_nodes_in_kubernetes(configuration: Path):
    found = {
        (one["kind"], one["metadata"]["name"]): one
        for one in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8"))
    }
    assert all(one["apiVersion"] and one["spec"] for one in found.values())
    pods = found["StatefulSet", "headgate"]["spec"]
    etcd, broker = pods["template"]["spec"]["containers"]
    given = options(etcd["command"])
    check_options(given)
    names = [f"headgate-{number}" for number in range(pods["replicas"])]
    hosts = [f"{name}.{pods['serviceName']}" for name in names]
    assert ("Service", pods["serviceName"]) in found
    nodes = {}
    for name, host in zip(names, hosts, strict=True):
        variables = {one["name"]: NODE.sub(name, one.get("value", "")) for one in broker["env"]}
        nodes[name] = load(configuration, from_environment(variables))
        assert nodes[name].cluster.advertise == f"{host}:5672"
        assert NODE.sub(name, given["--initial-advertise-peer-urls"]) == f"http://{host}:{PEERS}"
        assert NODE.sub(name, given["--advertise-client-urls"]) == f"http://{host}:{CLIENTS}"
    check_nodes(nodes, hosts, given["--initial-cluster"], names)


def test_what_in_kubernetes_belongs_together_has_the_same_names():
    text = (FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")
    every = list(yaml.safe_load_all(text))
    found = {one["kind"]: one["spec"] for one in every}
    pods = found["StatefulSet"]
    labels = pods["template"]["metadata"]["labels"]
    selectors = [one["spec"]["selector"] for one in every if one["kind"] == "Service"]
    selectors += [pods["selector"]["matchLabels"], found["NetworkPolicy"]["podSelector"]["matchLabels"]]
    selectors += [found["PodDisruptionBudget"]["selector"]["matchLabels"]]
    assert all(selector == labels for selector in selectors)
    spec = pods["template"]["spec"]
    volumes = {one["name"] for one in spec["volumes"]} | {
        one["metadata"]["name"] for one in pods["volumeClaimTemplates"]
    }
    for container in spec["containers"]:
        assert {one["name"] for one in container["volumeMounts"]} <= volumes
        ports = {one["name"] for one in container["ports"]}
        probes = [container[key] for key in container if key.endswith("Probe")]
        assert all(next(iter(probe.values()))["port"] in ports for probe in probes if probe)
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    broker = spec["containers"][1]
    mounts = {one["mountPath"] for one in broker["volumeMounts"]}
    image = environment()
    assert mounts == {image["HEADGATE_DATA"], str(Path(image["HEADGATE_CONFIG"]).parent)}
    assert spec["enableServiceLinks"] is False
    assert pods["podManagementPolicy"] == "Parallel"


def test_without_a_user_a_node_does_not_start(tmp_path: Path):
    with pytest.raises(ConfigError, match="there are no users"):
        load(FOLDER / "broker.toml", {"cluster.node": "a"})
