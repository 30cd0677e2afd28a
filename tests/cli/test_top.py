"""``headgate top`` before its screen opens: one line says what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from tests.kit.broker_process import ROOT

WITHOUT_TEXTUAL = """
import sys
sys.modules["textual"] = None  # Python then finds no such module
from amqp10.cli.main import run
sys.exit(run(["top"]))
"""


@pytest.mark.slow
def test_textual_need_not_be_installed():
    ran = subprocess.run([sys.executable, "-c", WITHOUT_TEXTUAL], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert ran.returncode == Exit.USAGE
    assert ran.stderr == (
        "headgate: top needs textual, which is not installed; install it with: pip install 'textual>=1.0'\n"
    )


@pytest.mark.slow
def test_no_other_command_loads_textual():
    script = "import sys, amqp10.cli.main; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=30).returncode == 0


def test_an_admin_server_that_is_not_there(capsys: pytest.CaptureFixture[str]):
    assert run(["top", "--url", "http://127.0.0.1:1"]) is Exit.UNREACHABLE
    assert "is its admin server on (admin.enabled)?" in capsys.readouterr().err


def test_a_token_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["top", "--token-file", str(tmp_path / "none")]) is Exit.USAGE
    assert "cannot read the token" in capsys.readouterr().err
