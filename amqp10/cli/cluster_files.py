"""``headgate cluster init``: the files of each node of a new cluster."""

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from amqp10.cli.exits import CommandError, Exit
from core.config.address import is_loopback

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""What a node may be called: cluster.node."""
MEMBERS_MAX = 7
PASSWORD_BYTES = 18
"""144 random bits."""
ADMIN = "admin"
"""The user of the new configuration."""
CONFIGURATION = "headgate.toml"
CA, CERTIFICATE, KEY = "ca.pem", "node.pem", "node.key"
_OF_NODES, _OF_ETCD = ("ca", "certificate", "key"), ("etcd_ca", "etcd_certificate", "etcd_key")
"""The settings that name these files."""


class PlannedNode(NamedTuple):
    """A node, with the host and the ports of its broker and its etcd."""

    name: str
    host: str
    port: int
    etcd_port: int
    peer_port: int

    def at(self, port: int) -> str:
        """The address of a port of this node."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


def init(
    *,
    folder: Path,
    node: Sequence[str],
    cluster: str,
    port: int,
    etcd_port: int,
    data: Path,
    installed_at: Path | None,
    days: int,
    no_tls: bool,
) -> None:
    """Make a folder for each node, with its configuration and its certificate. Raises CommandError."""
    if not NAME.fullmatch(cluster):
        raise CommandError(Exit.USAGE, f"--name {cluster!r}: must be 1 to 64 letters, digits, '.', '_' and '-'")
    nodes = planned(node, port, etcd_port)
    password = "" if all(is_loopback(one.host) for one in nodes) else secrets.token_urlsafe(PASSWORD_BYTES)
    user = user_section(ADMIN, password) if password else ""
    files: dict[str, bytes] = {} if no_tls else _certificates(nodes, days)
    for one in nodes:
        own = (installed_at or folder / one.name).absolute()
        text = configuration(one, nodes, cluster=cluster, data=data, certificates=None if no_tls else own)
        files[f"{one.name}/{CONFIGURATION}"] = (text + user).encode()
    write_all(folder, files)
    print(_told(folder, nodes, installed_at, password))


def named_host(text: str) -> tuple[str, str]:
    """Name and host of a text NAME=HOST. Raises CommandError."""
    name, separator, host = text.partition("=")
    if not (separator and NAME.fullmatch(name) and re.fullmatch(r"[A-Za-z0-9.:_-]{1,253}", host)):
        raise CommandError(Exit.USAGE, f"--node {text!r}: must be NAME=HOST, for example a=10.0.0.1")
    if name in (".", ".."):
        raise CommandError(Exit.USAGE, f"--node {text!r}: the name is in use")
    return name, host


def planned(texts: Sequence[str], port: int, etcd_port: int) -> list[PlannedNode]:
    """The nodes of these texts NAME=HOST. Raises CommandError."""
    nodes: list[PlannedNode] = []
    for text in texts:
        name, host = named_host(text)
        if name in (one.name for one in nodes):
            raise CommandError(Exit.USAGE, f"--node {text!r}: the name is in use")
        nodes.append(PlannedNode(name, host, port, etcd_port, etcd_port + 1))
    if len(nodes) not in range(1, MEMBERS_MAX + 1, 2):
        raise CommandError(
            Exit.USAGE,
            "--node: give 3, 5 or 7 nodes (or 1): a majority has to be there, and four have none without two either",
        )
    return nodes


def configuration(
    node: PlannedNode, nodes: Sequence[PlannedNode], *, cluster: str, data: Path, certificates: Path | None
) -> str:
    """The configuration of a node. ``certificates``: the folder of its certificate and its key; None without TLS."""
    addresses = EtcdAddresses([one.at(one.etcd_port) for one in nodes], [one.at(one.peer_port) for one in nodes])
    names = [one.name for one in nodes]
    alone = all(is_loopback(one.host) for one in nodes)
    return section(node, names, addresses, cluster=cluster, data=data, certificates=certificates, is_local=alone)


class EtcdAddresses(NamedTuple):
    """Where etcd is."""

    clients: Sequence[str]
    peers: Sequence[str]
    """Where the members talk to each other; none if the brokers start no etcd."""


def section(
    node: PlannedNode,
    names: Sequence[str],
    etcd: EtcdAddresses,
    *,
    cluster: str,
    data: Path,
    certificates: Path | None,
    is_local: bool,
    more: str = "",
) -> str:
    """The same for a node among nodes with these names. ``is_local``: all are on this machine. ``more``: further lines
    of its section [cluster]."""

    def listed(words: Sequence[str]) -> str:
        return ", ".join(map(json.dumps, words))

    tls = "trust_loopback = true\n" if is_local else ""
    if certificates is not None:
        files = dict(zip((*_OF_NODES, *_OF_ETCD), (CA, CERTIFICATE, KEY) * 2, strict=True))
        tls = f"listen = [{listed([node.at(node.peer_port + 1)])}]\n"
        tls += "".join(f"{key} = {json.dumps(str(certificates / name))}\n" for key, name in files.items())
    peers = f"etcd_peers = [{listed(etcd.peers)}]\n" if etcd.peers else ""
    return f"""\
# Node {node.name} of the cluster {cluster}. Each setting is explained by: headgate config show
[server]
listen = [{listed([node.at(node.port)])}]

[data]
folder = {json.dumps(str(data))}

[cluster]
name = {json.dumps(cluster)}
node = {json.dumps(node.name)}
members = [{listed(names)}]
etcd = [{listed(etcd.clients)}]
{peers}advertise = {json.dumps(node.at(node.port))}
{tls}{more}"""


def user_section(name: str, password: str) -> str:
    """The section of a user with this password."""
    from core.access.passwords import hash_password  # here and not above: a trial on one machine needs none
    from core.access.users import SALT_BYTES
    from core.config.access import AccessSettings

    access = AccessSettings()
    keys = hash_password(
        password,
        salt=secrets.token_bytes(SALT_BYTES),
        iterations=access.password_iterations,
        hash_name=access.password_hash,
    )
    return f'\n[[users]]\nname = {json.dumps(name)}\nscram = "{keys.render()}"\n'


def _certificates(nodes: Sequence[PlannedNode], days: int) -> dict[str, bytes]:
    """An authority, and for each node a certificate that it has signed, by the names of the files."""
    from amqp10.cli import trial_certificates as made  # here and not above: only this command needs cryptography

    authority = made.new_authority(days=days)
    files = {"ca.key": authority.key_pem}
    for one in nodes:
        signed = made.new_node(authority, one.name, [one.host, "localhost", "127.0.0.1"], days=days)
        files |= {
            f"{one.name}/{CA}": authority.certificate_pem,
            f"{one.name}/{CERTIFICATE}": signed.certificate_pem,
            f"{one.name}/{KEY}": signed.key_pem,
        }
    return files


def check_free(folder: Path, names: Iterable[str]) -> None:
    """Raises CommandError if one of these files exists."""
    there = [name for name in names if (folder / name).exists()]
    if there:
        raise CommandError(Exit.USAGE, f"{folder / there[0]} exists; give another folder, or remove it first")


def write_all(folder: Path, files: dict[str, bytes]) -> None:
    """Make these files, which only their owner can read. Raises CommandError for one that exists or cannot be made."""
    check_free(folder, files)
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                file.write(content)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{error.filename}: {error.strerror}") from None


def _told(folder: Path, nodes: Sequence[PlannedNode], installed_at: Path | None, password: str) -> str:
    return "\n".join(_lines(folder, nodes, installed_at, password))


def _lines(folder: Path, nodes: Sequence[PlannedNode], installed_at: Path | None, password: str) -> Iterator[str]:
    yield f"Made the files of {', '.join(one.name for one in nodes)} in {folder}."
    if (folder / "ca.key").exists():
        yield f"Keep {folder / 'ca.key'} where no node is: it signs certificates of further nodes."
    if password:
        yield f"The user {ADMIN} has the password {password}, which is shown only now."
    yield "Install etcd on each machine (on Debian: apt install etcd-server), copy its folder there, and start"
    yield "its broker:"
    yield ""
    for one in nodes:
        at = installed_at or folder / one.name
        yield f"    {one.host}: headgate serve --config {at / CONFIGURATION}"
    yield ""
    yield "Then look at the cluster with:"
    yield ""
    login = f"{ADMIN}:PASSWORD" if password else "guest:guest"
    yield f"    headgate cluster status --url amqp://{login}@{nodes[0].at(nodes[0].port)}"
