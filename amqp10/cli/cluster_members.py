"""``headgate cluster join``, ``leave``, ``forget`` and ``replace-etcd``: members that change while nodes run."""

import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from amqp10.cli.cluster_files import (
    CA,
    CERTIFICATE,
    CONFIGURATION,
    KEY,
    EtcdAddresses,
    PlannedNode,
    check_free,
    named_host,
    section,
    user_section,
    write_all,
)
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import Row
from amqp10.cli.remote import ask, ask_once, row_of, with_broker
from core.config.address import is_loopback, parse_address

if TYPE_CHECKING:
    from amqp10.blocking.requests import BlockingManagement

POLL_SECONDS = 0.25
GROUPS = 16
"""The number of groups that a configuration has by itself."""


def join(
    *,
    folder: Path,
    node: str,
    ca: Path | None,
    ca_key: Path | None,
    port: int,
    etcd_port: int,
    data: Path,
    installed_at: Path | None,
    days: int,
    url: str,
) -> None:
    """Take a node into a running cluster, and make its files. Raises CommandError."""
    name, host = named_host(node)
    new = PlannedNode(name, host, port, etcd_port, etcd_port + 1)

    def joined(broker: "BlockingManagement") -> None:
        status = row_of(ask(broker, "cluster.status"))
        if status["name"] is None:
            raise CommandError(
                Exit.REFUSED, "the broker of --url is in no cluster; make one with: headgate cluster init"
            )
        with_tls = bool(_map(status["engine"])["tls"])
        files = certificate_of(new, ca, ca_key, days) if with_tls else {}
        check_free(folder, (*files, CONFIGURATION))
        own = (installed_at or folder).absolute()
        text = _configuration(new, status, data, own if with_tls else None)
        files[CONFIGURATION] = (text + _user(host, url)).encode()
        of_etcd = [new.at(new.etcd_port), new.at(new.peer_port)] if _starts_etcd(status) else [None, None]
        ask(broker, "cluster.join", node=name, etcd=of_etcd[0], etcd_peer=of_etcd[1])
        write_all(folder, files)
        print(f"Node {name} is taken into the cluster {status['name']}, and its files are in {folder}.")
        print("Start its broker on its machine, as a user who can read them, with:")
        print(f"\n    headgate serve --config {own / CONFIGURATION}\n")
        print("It copies the groups then. headgate cluster status shows it as joining, and as member after that.")

    with_broker(url, joined)


def _configuration(new: PlannedNode, status: Row, data: Path, certificates: Path | None) -> str:
    nodes, groups = _rows(status["nodes"]), _rows(status["groups"])
    others = [one for one in nodes if one["node"] != new.name]
    names = [*(str(one["node"]) for one in others), new.name]
    if _starts_etcd(status):
        clients = [*(str(one["etcd"]) for one in others), new.at(new.etcd_port)]
        peers = [*(str(one["etcd_peer"]) for one in others), new.at(new.peer_port)]
        is_local = all(is_loopback(parse_address(one)[0]) for one in clients)
    else:
        endpoints = _map(status["engine"])["endpoints"]
        clients, peers = list(map(str, endpoints)) if isinstance(endpoints, list) else [], []
        is_local = is_loopback(new.host)
    return section(
        new,
        names,
        EtcdAddresses(clients, peers),
        cluster=str(status["name"]),
        data=data,
        certificates=certificates,
        is_local=is_local,
        more="" if len(groups) == GROUPS else f"groups = {len(groups)}\n",
    )


def _starts_etcd(status: Row) -> bool:
    return any(one["etcd_peer"] for one in _rows(status["nodes"]))


def certificate_of(new: PlannedNode, ca: Path | None, ca_key: Path | None, days: int) -> dict[str, bytes]:
    """The certificate of a node and its key, signed by the authority of the cluster, by the names of the files."""
    from amqp10.cli import trial_certificates as made  # here and not above: only this command needs cryptography

    if ca is None or ca_key is None:
        raise CommandError(
            Exit.USAGE,
            "--ca and --ca-key: give ca.pem of a node and ca.key, which headgate cluster init has made: nodes prove "
            "their names with certificates in this cluster",
        )
    try:
        authority = made.read_authority(ca.read_bytes(), ca_key.read_bytes())
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{error.filename}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise CommandError(Exit.USAGE, f"--ca {ca} and --ca-key {ca_key}: {error}") from None
    signed = made.new_node(authority, new.name, [new.host, "localhost", "127.0.0.1"], days=days)
    return {CA: authority.certificate_pem, CERTIFICATE: signed.certificate_pem, KEY: signed.key_pem}


def _user(host: str, url: str) -> str:
    """The user of --url for the configuration: other machines can reach the node, so it must have one."""
    from amqp10.client_core.url import Url as BrokerUrl

    if is_loopback(host):
        return ""
    known = BrokerUrl.parse(url)
    if not (known.user and known.password):
        raise CommandError(Exit.USAGE, "--url: give user and password, which the new node will have too")
    return user_section(known.user, known.password)


def leave(*, node: str, wait: float, force: bool, url: str) -> None:
    """Have a node leave, and wait until it has. Raises CommandError."""

    def left(broker: "BlockingManagement") -> None:
        ask(broker, "cluster.leave", node=node, force=force or None)
        deadline = monotonic() + wait
        while (row := _node(broker, node)) is not None:
            if monotonic() > deadline:
                raise CommandError(
                    Exit.TIMED_OUT,
                    f"node {node} has not left within {wait:g} s, and goes on to hand over; it leads {_leads(row)}",
                )
            print(f"node {node} leads {_leads(row)}", file=sys.stderr)
            sleep(POLL_SECONDS)

    with_broker(url, left)
    print(f"node {node} has left the cluster; stop its broker, and remove its data folder")


def forget(*, node: str, force: bool, url: str) -> None:
    """Take a node off the list that will not come back. Raises CommandError."""
    ask_once(url, "cluster.leave", node=node, gone=True, force=force or None)
    print(f"node {node} is none of the cluster's nodes any more; never start its broker with its old data folder")


def replace_etcd(*, node: str, force: bool, url: str) -> None:
    """Have the etcd of a node taken in anew. Raises CommandError."""
    ask_once(url, "cluster.replace-etcd", node=node, force=force or None)
    print(f"etcd of node {node} begins anew within half a minute, if the broker of that node runs")


def _node(broker: "BlockingManagement", name: str) -> Row | None:
    nodes = _rows(row_of(ask(broker, "cluster.status"))["nodes"])
    return next((one for one in nodes if one["node"] == name), None)


def _leads(row: Row) -> str:
    leads = row["leads"]
    count = len(leads) if isinstance(leads, list) else 0
    return "1 group" if count == 1 else f"{count} groups"


def _rows(value: object) -> Sequence[Row]:
    return value if isinstance(value, list) else []


def _map(value: object) -> Row:
    return value if isinstance(value, dict) else {}
