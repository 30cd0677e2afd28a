"""``headgate audit`` reads the audit log: which files, which records, and how they are printed."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from amqp10.cli.audit import files_of, line_of, records, time_of
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.main import run
from tests.kit.broker_process import broker_process
from tests.kit.command_line import run_here

NOW = datetime(2026, 11, 24, 16, 0, tzinfo=UTC)


def line(action: str, **fields: object) -> str:
    record = {"time": "2026-11-24T15:00:00.000Z", "event": "logins", "action": action, "result": "done"}
    return json.dumps(record | {"user": "alice", "peer": "192.0.2.7:4000"} | fields) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three files, and others that are none of them."""
    path = tmp_path / "audit.log"
    (tmp_path / "audit.log.10").write_text(line("oldest"))
    (tmp_path / "audit.log.2").write_text(line("older"))
    path.write_text('{"torn": \n' + line("login") + line("queues.declare", user="bob", result="refused"))
    for other in ("audit.log.gz", "audit.log.1.bak", "xaudit.log.3"):
        (tmp_path / other).write_text(line("never"))
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert run(["audit", *words]) == Exit.DONE
    return capsys.readouterr().out.splitlines()


def test_all_files_are_read_the_oldest_first(file: Path, capsys: pytest.CaptureFixture[str]):
    lines = [json.loads(one)["action"] for one in printed(capsys, str(file), "--json")]
    assert lines == ["oldest", "older", "login", "queues.declare"]


def test_a_line_is_for_people(file: Path, capsys: pytest.CaptureFixture[str]):
    assert printed(capsys, str(file))[2] == "2026-11-24T15:00:00.000Z  done  login  alice  192.0.2.7:4000"


@pytest.mark.parametrize(
    ("words", "actions"),
    [
        (["--user", "bob"], ["queues.declare"]),
        (["--action", "login"], ["login"]),
        (["--action", "queues"], ["queues.declare"]),
        (["--action", "queue"], []),
        (["--result", "refused"], ["queues.declare"]),
        (["--event", "users"], []),
        (["--event", "logins", "--user", "alice"], ["oldest", "older", "login"]),
        (["--since", "2026-11-24T15:00:00+00:00", "--user", "bob"], ["queues.declare"]),
        (["--since", "2026-11-24T15:00:01+00:00"], []),
    ],
)
def test_filters(file: Path, capsys: pytest.CaptureFixture[str], words: list[str], actions: list[str]):
    assert [json.loads(one)["action"] for one in printed(capsys, str(file), "--json", *words)] == actions


@pytest.mark.parametrize(
    ("since", "time"),
    [
        ("90s", "2026-11-24T15:58:30.000Z"),
        ("15min", "2026-11-24T15:45:00.000Z"),
        ("2h", "2026-11-24T14:00:00.000Z"),
        ("1d", "2026-11-23T16:00:00.000Z"),
        ("2026-11-24T17:00+02:00", "2026-11-24T15:00:00.000Z"),
    ],
)
def test_since_is_a_time_or_how_long_ago(since: str, time: str):
    assert time_of(since, NOW) == time


@pytest.mark.parametrize("since", ["yesterday", "5 h", "999999999d", ""])
def test_another_since_is_refused_with_examples(since: str):
    with pytest.raises(CommandError, match=r"--since must be a time such as .* 15min"):
        time_of(since, NOW)


def test_a_file_that_is_not_there_is_a_mistake_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["audit", str(tmp_path / "none")]) == Exit.USAGE
    assert "none: No such file or directory; audit.file names the file" in capsys.readouterr().err


def test_names_with_characters_of_patterns_are_names(tmp_path: Path):
    (tmp_path / "a[1].log.1").write_text("")
    (tmp_path / "a1.log.2").write_text("")
    assert files_of(tmp_path / "a[1].log") == [tmp_path / "a[1].log.1", tmp_path / "a[1].log"]


def test_what_a_terminal_would_obey_is_escaped():
    shown = line_of(
        {"action": "login", "user": "x\n\x1b[2J\u202e\ud800", "reason": "\x07", "parameters": {"a": "\x1b"}}
    )
    assert shown.isprintable()
    assert "x\\n\\x1b[2J\\u202e\\ud800" in shown


def test_following_goes_on_in_the_next_file(file: Path):
    steps = 0

    def wait() -> None:
        nonlocal steps
        steps += 1
        match steps:
            case 1:
                with file.open("a") as opened:
                    opened.write(line("half")[:20])
            case 2:
                with file.open("a") as opened:
                    opened.write(line("half")[20:])
            case 3:
                with file.open("a") as opened:
                    opened.write(line("last"))
                file.rename(file.with_name("audit.log.1"))
            case 4:
                file.write_text(line("new"))
            case 6:
                raise KeyboardInterrupt

    found: list[object] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(record["action"] for record in records(file, follow=True, wait=wait))
    assert found == ["oldest", "older", "login", "queues.declare", "half", "last", "new"]


def test_a_broker_process_records_from_its_start_to_its_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config, log = tmp_path / "broker.toml", tmp_path / "audit.log"
    config.write_text(f'[audit]\nfile = "{log}"\n[admin]\nenabled = false\n')
    with broker_process("--config", str(config)) as broker:
        assert run_here("queues", "declare", "orders", url=broker.url()).code == 0
        assert run_here("status", url=broker.url("guest:wrong")).code == Exit.NOT_LET_IN
    records_of_it = [json.loads(one) for one in printed(capsys, str(log), "--json")]
    told = [(one["action"], one["result"], one.get("user")) for one in records_of_it]
    assert told[0] == ("started", "done", None)
    assert told[-1] == ("stopped", "done", None)
    assert {("login", "done", "guest"), ("queues.declare", "done", "guest"), ("login", "refused", "guest")} <= set(told)
