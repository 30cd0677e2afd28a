"""Tokens of OAuth 2, with whole processes: pika and proton log in, rights hold, tokens end and are renewed.

The key set comes from a server in a thread of this process.
"""

import http.server
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.command_line import HEADGATE, run_process
from tests.kit.tokens import ec_key, key_set, make_token

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

ALL = "broker.configure:*/* broker.write:*/*/* broker.read:*/*/* broker.tag:administrator"


def token(seconds: float = 600.0, scope: str = ALL, **claims: object) -> str:
    """A token that ends in so many seconds."""
    return make_token(exp=time.time() + seconds, scope=scope, **claims)


@contextmanager
def provider(data: bytes) -> Iterator[str]:
    """The address of a key set."""

    class Keys(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(data)

        do_GET = answer

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Keys) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/keys"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    """A broker that takes tokens."""
    folder: Path = tmp_path_factory.mktemp("oauth2")
    with provider(key_set()) as url:
        file = folder / "broker.toml"
        file.write_text(
            '[oauth2]\nresource_server_id = "broker"\nissuer = "https://login.example.org"\n'
            f'jwks_url = "{url}"\nallow_http = true\n[admin]\nenabled = false\n'
        )
        with broker_process("--config", str(file)) as address:
            yield address


def pika_connection(broker: BrokerAddress, password: str, host: str = "/"):
    pika = pytest.importorskip("pika")
    credentials = pika.PlainCredentials("any", password)
    return pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, host, credentials))


def test_pika_logs_in_may_do_what_its_scopes_say_and_renews_its_token(broker: BrokerAddress):
    pika = pytest.importorskip("pika")
    connection = pika_connection(broker, token(scope="broker.configure:*/shop* broker.write:*/* broker.read:*/shop*"))
    channel = connection.channel()
    channel.queue_declare("shop-1")
    channel.basic_publish("", "shop-1", b"1")
    assert channel.basic_get("shop-1", auto_ack=True)[2] == b"1"
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="configure access to queue 'other'"):
        channel.queue_declare("other")
    connection.update_secret(token(), "renewal")
    connection.channel().queue_declare("other")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"New secret was refused: .* has expired"):
        connection.update_secret(token(-60), "renewal")


BAD_TOKENS: dict[str, dict[str, object]] = {
    "another audience": {"aud": "other"},
    "another issuer": {"iss": "https://evil.example.org"},
    "expired": {"seconds": -1},
    "another key": {"key": ec_key("stranger")},
}


@pytest.fixture(scope="module")
def refusals(broker: BrokerAddress) -> dict[str, Exception | None]:
    """What pika raises for each of the bad tokens. All try at once, because each refusal is late on purpose."""
    pika = pytest.importorskip("pika")

    def attempt(bad: dict[str, object]) -> Exception | None:
        try:
            pika_connection(broker, token(**bad)).close()
        except pika.exceptions.AMQPError as error:
            return error
        return None

    with ThreadPoolExecutor(len(BAD_TOKENS)) as pool:
        return dict(zip(BAD_TOKENS, pool.map(attempt, BAD_TOKENS.values()), strict=True))


@pytest.mark.parametrize("bad", BAD_TOKENS)
def test_pikas_token_is_refused(refusals: dict[str, Exception | None], bad: str):
    pika = pytest.importorskip("pika")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        raise refusals[bad] or AssertionError("the token lets in")


def test_pikas_connection_ends_with_its_token(broker: BrokerAddress):
    pika = pytest.importorskip("pika")
    connection = pika_connection(broker, token(2))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="credential expired"):
        connection.sleep(30)


def test_a_token_of_one_virtual_host_until_that_is_deleted(broker: BrokerAddress):
    pika = pytest.importorskip("pika")
    scope = "broker.configure:shop/* broker.write:shop/* broker.read:shop/*"
    admin = f"any:{token()}"
    assert run_process(*HEADGATE, "vhosts", "add", "shop", url=broker.url(admin)).code == 0
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="access to vhost '/' refused for user 'alice'"):
        pika_connection(broker, token(scope=scope))
    connection = pika_connection(broker, token(scope=scope), "shop")
    connection.channel().queue_declare("q")
    connection.update_secret(token(scope=scope), "renewal")
    connection.channel().queue_declare("r")
    assert run_process(*HEADGATE, "vhosts", "delete", "shop", url=broker.url(admin)).code == 0
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="vhost 'shop' was deleted"):
        connection.sleep(30)


def test_proton_logs_in_with_a_token_of_many_bytes(connect, broker: BrokerAddress):
    many = " ".join(f"broker.read:*/queue-{number}" for number in range(300))
    peer = connect(broker.url("any:" + token(scope=f"{ALL} {many}")), allowed_mechs="PLAIN").opened()
    assert peer is not None
