"""Unix sockets between the processes on one port. Both ends ask the system who is at the other end: only the same user
is believed [unix(7), SO_PEERCRED].

The path of a Unix socket has at most 107 bytes. A longer one is reached through a descriptor of its folder.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATH_BYTES_MAX = 107
"""The bytes of sun_path without the zero behind the path."""
LOOPBACK = "127.0.0.1"
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group, as in struct ucred."""


def is_same_user(connected: socket.socket) -> bool:
    """Return whether the process at the other end of a Unix socket is of this process's user. False where the system
    does not say it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return False
    _, user, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.geteuid())


def address_of(name: object) -> tuple[str, int]:
    """Return host and port of what a socket says of one of its ends. The processes at both ends of a Unix socket are on
    this machine."""
    if isinstance(name, tuple):
        return str(name[0]), int(name[1])
    return LOOPBACK, 0


@contextmanager
def _short(path: Path) -> Iterator[str]:
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen_at(path: Path, backlog: int) -> socket.socket:
    """Return a listening, non-blocking socket that only this user can reach. One that an earlier process has left is
    removed: the lock of the data folder says that there is no other. Raises OSError."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        with _short(path) as short:
            listening.bind(short)
        path.chmod(0o600)
        listening.listen(backlog)
    except BaseException:
        listening.close()
        raise
    return listening


def connect_to(path: Path) -> socket.socket:
    """Return a non-blocking socket that is connected to a process of this user. It does not wait: the system connects
    at once, or refuses. Raises OSError."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        with _short(path) as short:
            connected.connect(short)
        if not is_same_user(connected):
            raise PermissionError(f"{path} is that of another user's process")
    except BaseException:
        connected.close()
        raise
    return connected
