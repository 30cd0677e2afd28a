"""``headgate check`` and ``headgate completion``: commands for scripts, supervisors and shells."""

import json
import subprocess
import sys
from contextlib import closing

import pytest

from amqp10.cli.completion import SHELLS
from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.cli.table import commands
from core.store.disk import FolderDisk
from core.store.folder import open_folder
from core.store.lane import Lane
from core.store.record import HEADER_BYTES, RecordKind, record_bytes
from tests.kit.broker_process import ROOT

INDEX = "queues/1/0/0.idx"


@pytest.mark.parametrize("question", ["live", "ready", "alarms", "store"])
def test_help_has_an_example(question, capsys):
    assert run(["check", question, "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert f"headgate check {question}" in words.partition("For example:")[2]


@pytest.mark.parametrize(
    ("question", "answer"),
    [("live", "the broker is live"), ("ready", "the broker is ready"), ("alarms", "no alarm is on")],
)
def test_a_broker_that_is_as_it_should_be(question, answer, headgate):
    assert (headgate("check", question).out, headgate("check", question).code) == (f"{answer}\n", Exit.DONE)
    told = json.loads(headgate("check", question, "--json").out)
    assert told == {"check": question, "ok": True, "text": answer}


def test_an_alarm_makes_a_broker_neither_dead_nor_unready(headgate):
    headgate("alarms", "set", "disk")
    try:
        on = headgate("check", "alarms", "--json")
        assert on.code is Exit.DIFFERS
        assert json.loads(on.out)["ok"] is False
        assert "publishers wait: disk; headgate alarms list says since when" in on.err
        assert headgate("check", "live").code is headgate("check", "ready").code is Exit.DONE
    finally:
        headgate("alarms", "clear", "disk")
    assert headgate("check", "alarms").code is Exit.DONE


def test_a_broker_that_is_being_drained_is_live_and_not_ready(headgate):
    headgate("drain")
    try:
        told = headgate("check", "ready")
        assert (told.code, told.out) == (Exit.DIFFERS, "")
        assert told.err == "headgate: the broker is being drained; headgate undrain ends that\n"
        assert headgate("check", "live").code is Exit.DONE
    finally:
        headgate("undrain")
    assert headgate("check", "ready").code is Exit.DONE


@pytest.mark.parametrize("question", ["live", "ready", "alarms"])
def test_a_broker_that_is_not_there(question, headgate):
    ran = headgate("check", question, "--json", "--url", "amqp://127.0.0.1:1")
    assert ran.code is Exit.UNREACHABLE
    assert json.loads(ran.out)["ok"] is False


def test_a_sound_folder(tmp_path, capsys):
    with closing(open_folder(tmp_path)):
        pass
    assert run(["check", "store", "--data", str(tmp_path)]) is Exit.DONE
    assert capsys.readouterr().out == "0 sound, 0 torn, 0 corrupt records\n"


def test_a_damaged_folder(tmp_path, capsys):
    with closing(open_folder(tmp_path)) as folder, closing(FolderDisk(tmp_path, 8)) as disk:
        lane = Lane("classic", generation=folder.generation, sync_interval_s=0.0)
        for number in range(2):
            lane.append(INDEX, number * record_bytes(4), RecordKind.SETTLE, [b"\xff" * 4])
            batch = lane.take_write()
            batch.run(disk)
            lane.wrote(batch)
            lane.want_sync()
            sync = lane.take_sync(float(number))
            sync.run(disk)
            lane.did_sync(sync)
    path = tmp_path / INDEX
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES] ^= 1
    path.write_bytes(data)

    assert run(["check", "store", "--data", str(tmp_path), "--json"]) is Exit.DAMAGED
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ok"] is False
    assert "1 corrupt records; headgate store check --data" in captured.err


def test_a_folder_that_is_none(tmp_path, capsys):
    assert run(["check", "store", "--data", str(tmp_path / "no"), "--json"]) is Exit.USAGE
    assert json.loads(capsys.readouterr().out)["ok"] is False


# --- completion ------------------------------------------------------------------------------------------------------


def completed(capsys: pytest.CaptureFixture[str], *words: str, shell: str = "bash") -> list[str]:
    """The lines that a shell gets for these words behind ``headgate``."""
    assert run(["completion", shell, "--", "headgate", *words]) is Exit.DONE
    return capsys.readouterr().out.splitlines()


def test_every_command_is_completed(capsys):
    for words in commands():
        *nouns, last = words.split()
        assert last in completed(capsys, *nouns, last[:2])
    assert completed(capsys, "definitions", "") == ["export", "diff", "apply", "--help"]
    assert completed(capsys, "link", "pa") == ["pause"]


def test_options_and_choices_are_completed(capsys):
    assert completed(capsys, "why", "orders", "--") == [
        *("--kind", "--vhost", "--limit", "--watch", "--json", "--url", "--help")
    ]
    assert completed(capsys, "why", "orders", "--kind", "") == ["connection", "link", "address"]
    assert completed(capsys, "why", "--url", "") == []
    assert completed(capsys, "completion", "z") == ["zsh"]
    assert completed(capsys, "publish", "--transient", "--j") == ["--json"]
    assert completed(capsys, "no-command", "x") == []


@pytest.mark.parametrize(("shell", "line"), [("zsh", "list:List all queues."), ("fish", "list\tList all queues.")])
def test_what_a_word_means_is_shown_beside_it(shell, line, capsys):
    assert completed(capsys, "queues", "li", shell=shell) == [line]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_asks_the_command(shell, capsys):
    assert run(["completion", shell]) is Exit.DONE
    assert f"headgate completion {shell} -- " in capsys.readouterr().out


def test_bash_completes_with_the_script(tmp_path, capsys):
    run(["completion", "bash"])
    (tmp_path / "completion").write_text(capsys.readouterr().out)
    (tmp_path / "headgate").write_text(f'#!/bin/sh\nexec {sys.executable} -m amqp10 "$@"\n')
    (tmp_path / "headgate").chmod(0o700)
    script = (
        ". ./completion; COMP_WORDS=(headgate queues li); COMP_CWORD=2; PATH=$PWD:$PATH; cd $1; _headgate;"
        'printf "%s\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(["bash", "-c", script, "bash", ROOT], cwd=tmp_path, text=True, capture_output=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("list\n", "")


def test_an_unknown_shell(capsys):
    assert run(["completion", "tcsh"]) is Exit.USAGE
    assert "tcsh" in capsys.readouterr().err


def test_a_command_loads_only_what_it_needs():
    """To import the broker takes several times as long as to ask one."""
    program = (
        "import sys; from amqp10.cli.main import run; code = run(['queues', 'list', '--help']);"
        "sys.exit(code or ' '.join({'core.engine.broker', 'core.server.run', 'core.config'} & sys.modules.keys()) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
