"""``headgate tls``: certificates for a trial, and those that a broker uses."""

import os
from collections.abc import Sequence
from pathlib import Path

from amqp10.cli.exits import CommandError, Exit

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Names of this machine for itself, which every certificate of a server has."""
CLIENT_NAME_CHARACTERS_MAX = 64
"""The longest common name [RFC 5280 A.1]."""


def init(*, folder: Path, host: Sequence[str], client: Sequence[str], days: int) -> None:
    """Make an authority and the certificates that it signs. Raises CommandError."""
    names = list(client) or ["client"]
    for name in names:
        if not 0 < len(name) <= CLIENT_NAME_CHARACTERS_MAX or "/" in name or name.startswith(".") or "\0" in name:
            raise CommandError(Exit.USAGE, f"--client {name!r}: must be a file name of 1 to 64 characters")
        if name in ("ca", "server"):
            raise CommandError(Exit.USAGE, f"--client {name!r}: the file names ca and server are in use")
    files = _files([*host, *(one for one in LOCAL_HOSTS if one not in host)], names, days)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = [name for name in files if (folder / name).exists()]
        if there:
            raise CommandError(Exit.USAGE, f"{folder / there[0]} exists; give another folder, or remove it first")
        for name, content in files.items():
            _write(folder / name, content, secret=name.endswith(".key"))
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{error.filename}: {error.strerror}") from None
    print(_told(folder.resolve(), names))


def _files(hosts: Sequence[str], clients: Sequence[str], days: int) -> dict[str, bytes]:
    """The content of each file, by name."""
    from amqp10.cli import trial_certificates as made  # here and not above: only this command needs cryptography

    authority = made.new_authority(days=days)
    try:
        signed = {"server": made.new_server(authority, hosts, days=days)}
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"--host: {error}") from None
    signed |= {name: made.new_client(authority, name, days=days) for name in clients}
    files = {}
    for name, one in {"ca": authority, **signed}.items():
        files[f"{name}.pem"], files[f"{name}.key"] = one.certificate_pem, one.key_pem
    return files


def _write(path: Path, content: bytes, *, secret: bool) -> None:
    mode = 0o600 if secret else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _told(folder: Path, clients: Sequence[str]) -> str:
    return f"""\
Made an authority, and certificates of a server and of {", ".join(clients)}, in {folder}.
They are for a trial. Put this into the configuration:

[server]
tls_listen = ["127.0.0.1:5671"]

[tls]
certificate = "{folder / "server.pem"}"
key = "{folder / "server.key"}"
client_ca = "{folder / "ca.pem"}"
client_certificate = "optional"

Then connect with:

headgate status --url 'amqps://guest:guest@localhost:5671/?ca={folder / "ca.pem"}'"""
