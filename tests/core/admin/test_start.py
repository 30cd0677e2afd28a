"""Starting an admin server from its settings: the token, settings that cannot be used, and what is not loaded by a
broker without an admin server, and by an admin server without a client."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from core.admin.serving import AdminServer
from core.admin.start import open_admin_server, read_token
from core.config.admin import AdminSettings
from core.errors import Invalid
from tests.kit.admin import Facts
from tests.kit.scraped import Scraped
from tests.kit.wire import InProcessBroker

ROOT = Path(__file__).parents[3]
HTTP = ("hypercorn", "h11", "starlette", "prometheus_client", "core.admin.service", "core.observe.metrics")


async def opened(settings: AdminSettings, facts: Facts) -> AdminServer:
    return await open_admin_server(
        settings,
        sources=Scraped(InProcessBroker()).sources,
        control=facts.control,
        traffic=facts.traffic,
        log=facts.logger(),
    )


async def test_a_server_listens_once_it_is_open():
    server = await opened(AdminSettings(listen=("127.0.0.1:0", "127.0.0.2:0")), Facts())
    assert [host for host, _ in server.listening_on] == ["127.0.0.1", "127.0.0.2"]
    server.close()


async def test_an_address_in_use_is_named():
    first = await opened(AdminSettings(listen=("127.0.0.1:0",)), Facts())
    _, port = first.listening_on[0]
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
        await opened(AdminSettings(listen=(f"127.0.0.1:{port}",)), Facts())
    first.close()


def test_a_token_stands_alone_in_its_file(tmp_path: Path):
    (tmp_path / "token").write_text("  0123456789abcdef\n")
    assert read_token(tmp_path / "token") == b"0123456789abcdef"


@pytest.mark.parametrize(
    "text", ["", "\n", "short", "0123456789abcde", "two tokens in one file", "x" * 2000, "0123456789abcdé0"]
)
def test_a_token_that_is_no_use_is_refused_and_not_repeated(tmp_path: Path, text: str):
    (tmp_path / "token").write_text(text, encoding="utf-8")
    with pytest.raises(Invalid, match="must have one token of 16 to 1024 ASCII characters") as refused:
        read_token(tmp_path / "token")
    assert len(text) < 2 or text not in str(refused.value)


def test_a_token_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(Invalid, match=r"cannot read admin\.token_file .*nowhere: No such file"):
        read_token(tmp_path / "nowhere")


@pytest.mark.parametrize("address", ["0.0.0.0:15692", "[::]:15692", "broker.example:15692"])
def test_other_machines_need_a_token(address: str):
    with pytest.raises(ValidationError, match="can be reached from other machines"):
        AdminSettings(listen=(address,))
    assert AdminSettings(listen=(address,), token_file=Path("token")).listen == (address,)


def loaded(command: str) -> set[str]:
    """Which modules of the admin server are loaded after this statement, in a process of its own."""
    script = f"import sys\n{command}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_broker_without_an_admin_server_does_not_load_it():
    assert loaded("import amqp10.serve, core.__main__") & {*HTTP, "core.admin"} == set()


def test_an_admin_server_without_a_client_has_not_loaded_what_answers():
    assert loaded("import core.admin.start") & set(HTTP) == set()


def test_the_admin_server_knows_no_protocol():
    rooms = {".".join(module.split(".")[:2]) for module in loaded("import core.admin.service")}
    assert "core.admin" in rooms
    assert not {"amqp10", "core.amqp091"} & rooms
