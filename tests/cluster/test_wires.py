"""The wires between machines carry bytes, and hold them while machines are separated."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from amqp10.cli.free_ports import free_ports
from tests.cluster.wires import ANYWHERE, MACHINE, machine_of
from tests.kit.broker_process import ROOT

CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as client:
    for line in sys.stdin:
        client.sendall(line.encode())
        print(client.recv(100).decode(), end="", flush=True)
"""
HELD_S = 0.3


@pytest.fixture
def echo():
    """A server that sends back what comes; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(100):
                    connection.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


def process(*command: str, machine: int | None = None) -> "subprocess.Popen[str]":
    environment = os.environ | ({} if machine is None else {MACHINE: str(machine)})
    return subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def tell(one: "subprocess.Popen[str]", line: str) -> None:
    assert one.stdin is not None
    one.stdin.write(line + "\n")
    one.stdin.flush()


def answer(one: "subprocess.Popen[str]") -> str:
    assert one.stdout is not None
    return one.stdout.readline()


@pytest.mark.slow
def test_bytes_between_separated_machines_wait(echo):
    (port,) = free_ports(1)
    with process("-m", "tests.cluster.wires") as wires:
        tell(wires, json.dumps([[port, echo, 1]]))
        assert answer(wires) == "ready\n"
        with process("-c", CLIENT, str(port), machine=0) as client:
            tell(client, "one")
            assert answer(client) == "one\n"
            tell(wires, "cut 0")
            answers: list[str] = []
            reader = threading.Thread(target=lambda: answers.append(answer(client)))
            threading.Event().wait(HELD_S)  # until the wires have read the line
            tell(client, "two")
            reader.start()
            reader.join(HELD_S)
            assert answers == []
            tell(wires, "mend")
            reader.join(10)
            assert answers == ["two\n"]
            for line in ("drop 1>0", "drop 0>1"):
                _is_held(wires, client, line)


def _is_held(wires: "subprocess.Popen[str]", client: "subprocess.Popen[str]", line: str) -> None:
    """After this line, either the question or the answer does not pass, until it is mended."""
    answers: list[str] = []
    reader = threading.Thread(target=lambda: answers.append(answer(client)))
    tell(wires, line)
    threading.Event().wait(HELD_S)  # until the wires have read the line
    tell(client, "three")
    reader.start()
    reader.join(HELD_S)
    assert answers == []
    tell(wires, "mend")
    reader.join(10)
    assert answers == ["three\n"]


def test_a_process_without_a_machine_is_anywhere():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert machine_of(client.getsockname()[1]) == ANYWHERE
