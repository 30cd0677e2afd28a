"""The unit for systemd: systemd takes it, it is as restricted as it claims, and the broker sends the notices that
systemd waits for."""

import shutil
import signal
import socket
import subprocess
import sys
from os import environ
from pathlib import Path

import pytest

from amqp10.cli.exits import LASTING
from core.config import Settings
from tests.kit.broker_process import STOP_SECONDS

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "config" / "headgate.service"
PROGRAM = "/opt/headgate/bin/headgate"

CLOSED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectProc": "invisible",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
}


def directives() -> dict[str, list[str]]:
    """The values of the unit's directives by name. Some directives appear more than once."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def words(name: str) -> list[str]:
    return directives()[name][0].split()


@pytest.mark.parametrize(("name", "value"), CLOSED.items())
def test_the_unit_closes_what_a_broker_does_not_need(name: str, value: str):
    assert directives()[name] == [value]


def test_the_broker_has_no_special_rights_and_writes_in_one_place():
    unit = directives()
    assert unit["User"] == unit["Group"] == ["headgate"]
    assert "ReadWritePaths" not in unit
    command = words("ExecStart")
    assert command[command.index("--data") + 1] == f"/var/lib/{unit['StateDirectory'][0]}"
    assert Path(command[command.index("--config") + 1]).parent.name == unit["ConfigurationDirectory"][0]


def test_a_start_is_repeated_only_where_that_can_help():
    assert directives()["Restart"] == ["on-failure"]
    assert set(map(int, words("RestartPreventExitStatus"))) == LASTING


def test_a_reload_is_the_signal_that_the_broker_obeys():
    assert directives()["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_the_stop_has_time_to_say_good_bye_and_to_write():
    assert int(directives()["TimeoutStopSec"][0]) > 5 * Settings().server.stop_grace


def test_there_are_descriptors_for_many_connections():
    assert int(directives()["LimitNOFILE"][0]) >= 65536


if shutil.which("systemd-analyze") is not None:  # where it is not, only the directives above can be checked

    def test_systemd_takes_the_unit(tmp_path: Path):
        copy = tmp_path / UNIT.name
        copy.write_text(UNIT.read_text().replace(PROGRAM, sys.executable))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert UNIT.name not in done.stderr, done.stderr


@pytest.mark.slow
def test_the_command_of_the_unit_tells_systemd_when_it_is_ready_alive_and_stopping(tmp_path: Path):
    """With Type=notify and WatchdogSec systemd would end a broker that sends no notices."""
    assert directives()["Type"] == ["notify"]
    assert int(directives()["WatchdogSec"][0]) > 0
    program, verb, *options = words("ExecStart")
    assert (program, verb) == (PROGRAM, "serve")
    places = {"--config": str(tmp_path / "broker.toml"), "--data": str(tmp_path / "data")}
    (tmp_path / "broker.toml").write_text('[server]\nlisten = ["127.0.0.1:0"]\n')
    assert options[::2] == list(places)
    command = [sys.executable, "-m", "amqp10", verb, *(word for place in places.items() for word in place)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(STOP_SECONDS)
        told = environ | {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "100000"}
        with subprocess.Popen(command, cwd=ROOT, env=told, stdout=subprocess.DEVNULL) as process:
            try:
                assert manager.recv(1024) == b"READY=1"
                assert [manager.recv(1024) for _ in range(3)] == [b"WATCHDOG=1"] * 3
                process.send_signal(signal.SIGTERM)
                while (notice := manager.recv(1024)) == b"WATCHDOG=1":
                    pass
                assert notice == b"STOPPING=1"
                assert process.wait(STOP_SECONDS) == 0
            finally:
                process.kill()
