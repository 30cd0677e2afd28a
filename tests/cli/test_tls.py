"""``headgate tls init``: the files, who may read them, and that nothing is overwritten."""

import ssl
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from core.config import load


def test_a_trial_s_files_make_a_configuration_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "tls"
    assert (
        run(["tls", "init", str(folder), "--host", "broker.example.org", "--client", "alice", "--client", "bob"]) == 0
    )
    assert {path.name for path in folder.iterdir()} == {
        f"{name}.{kind}" for name in ("ca", "server", "alice", "bob") for kind in ("pem", "key")
    }
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.key")} == {0o600}
    told = capsys.readouterr().out
    config = tmp_path / "broker.toml"
    config.write_text(told[told.index("[server]") : told.index("Then connect")])
    tls = load(config).tls
    assert (tls.certificate, tls.client_certificate) == (folder / "server.pem", "optional")
    context = ssl.create_default_context(cafile=tls.client_ca)
    context.load_cert_chain(folder / "alice.pem", folder / "alice.key")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--client", "../x"], "must be a file name"),
        (["--client", "ca"], "are in use"),
        (["--host", "b\u00fccher.example"], "--host"),
        (["--days", "0"], "--days"),
    ],
)
def test_what_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
):
    assert run(["tls", "init", str(tmp_path / "tls"), *options]) == Exit.USAGE
    assert said in capsys.readouterr().err
    assert not (tmp_path / "tls").exists()


def test_files_that_are_there_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "ca.key").write_text("precious")
    assert run(["tls", "init", str(tmp_path)]) == Exit.USAGE
    assert "ca.key exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["ca.key"]
