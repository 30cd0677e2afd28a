"""``headgate serve`` and ``headgate config``: starting, and every way in which that can be wrong."""

import tomllib

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.cli.serve import ready_line
from core.access.passwords import hash_password
from core.config import Settings, UserSettings, load
from core.process import headgate_version


def test_a_port_in_use(broker_url, capsys, tmp_path):
    place = broker_url.rpartition("@")[2]
    assert run(["serve", "--listen", place, "--data", str(tmp_path)]) is Exit.USAGE
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"headgate: cannot listen on {place}: Address already in use"


@pytest.mark.parametrize(
    ("words", "complaints"),
    [
        (["--listen", "5672"], ["must be HOST:PORT"]),
        (["--listen", "0.0.0.0:0"], ["can be reached from other machines, and there are no users"]),
        (["--config", "/nonexistent/broker.toml"], ["/nonexistent/broker.toml: No such file or directory"]),
    ],
)
def test_a_configuration_that_cannot_be_used(words, complaints, capsys):
    assert run(["serve", *words]) is Exit.USAGE
    told = capsys.readouterr().err
    assert told.startswith("headgate: the configuration cannot be used:\n")
    assert all(complaint in told for complaint in complaints)


def test_every_problem_of_a_file_is_told_at_once_with_its_line(tmp_path, capsys):
    file = tmp_path / "broker.toml"
    file.write_text('[amqp10]\nmax_link_credits = 5\n\n[server]\nlisten = ["127.0.0.1:5672"]\nlinger = "1 parsec"\n')
    for command in (["config", "check"], ["serve", "--config"]):
        assert run([*command, str(file)]) is Exit.USAGE
        told = capsys.readouterr().err
        assert f"{file}:2: amqp10.max_link_credits is not a key; did you mean amqp10.max_link_credit?" in told
        assert f"{file}:6: server.linger" in told


def test_config_check_and_show(tmp_path, capsys):
    file = tmp_path / "broker.toml"
    file.write_text("[amqp10]\nmax_link_credit = 50\nlink_credit_top_up = 20\n")
    assert run(["config", "check", str(file)]) is Exit.DONE
    assert capsys.readouterr().out == f"{file} is good\n"
    assert run(["config", "check"]) is Exit.DONE
    capsys.readouterr()
    assert run(["config", "show", str(file)]) is Exit.DONE
    shown = capsys.readouterr().out
    assert tomllib.loads(shown)["amqp10"]["max_link_credit"] == 50
    assert load(file).amqp10.max_link_credit == 50


def test_the_ready_line_names_every_address_and_guest_only_where_guest_may_connect():
    addresses = [("127.0.0.1", 5672), ("::1", 5673)]
    version = headgate_version()
    assert ready_line(Settings(), addresses, pid=7) == (
        f"Headgate {version} is ready at amqp://guest:guest@127.0.0.1:5672 and amqp://guest:guest@[::1]:5673 (pid 7)"
    )
    alice = UserSettings(name="alice", scram=hash_password("secret", salt=b"0123456789abcdef"))
    assert ready_line(Settings(users=(alice,)), addresses[:1], pid=7) == (
        f"Headgate {version} is ready at amqp://127.0.0.1:5672 (pid 7)"
    )
