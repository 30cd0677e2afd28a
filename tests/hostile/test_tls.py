"""What strangers can do with TLS before they are known: certificates that are not accepted, and floods of handshakes.

A bystander's connection goes on beside each of them. ``tests/server/test_tls.py`` has bytes that are no TLS, TLS on the
port without it, trickled and broken handshakes; ``tests/interop/over_tls.py`` has old versions and renegotiation.
"""

import hmac
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.config.tls import TlsSettings
from core.server.measures import ResidentSet
from core.server.tls import OWN_BYTES_MAX
from tests.kit.certificates import Trial
from tests.kit.echo import HEADER
from tests.kit.serving import Client, Serving, serving, settled

FLOOD = 200
"""Handshakes that are begun and never finished."""
KIB_OF_A_HANDSHAKE = 128
"""More than a begun handshake takes: 60 KiB with OpenSSL 3.0, and what the test's own end of it takes."""
LINE = b"still there\n"


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    made = Trial.make(tmp_path_factory.mktemp("tls"))
    made.write_client("alice")
    return made


@asynccontextmanager
async def attacked(trial: Trial, settings: TlsSettings, **more: object) -> AsyncIterator[Serving]:
    """A server with a bystander, whose lines come back before and after."""
    async with serving(tls=settings, **more) as s:
        bystander = await s.connect_tls(trial.context("alice"))
        await bystander.send(HEADER + LINE)
        await bystander.expect(HEADER + LINE)
        yield s
        await bystander.send(LINE)
        await bystander.expect(LINE)
        assert s.server.counters.faults == 0


async def refusal(s: Serving, context: ssl.SSLContext) -> str:
    """Why a client with this context is refused."""
    with suppress(trio.BrokenResourceError):
        client = await s.connect_tls(context)
        await client.send(HEADER)
        assert await client.rest() == b""
    await settled()
    return str(s.logged("handshake-failed")[-1]["reason"])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("expired", "certificate has expired"),
        ("not valid yet", "certificate is not yet valid"),
        ("another authority", "unable to get local issuer certificate"),
        ("of a server", "unsuitable certificate purpose"),
        ("self-signed", "self-signed certificate"),
    ],
)
async def test_a_client_s_certificate_that_cannot_be_accepted(trial: Trial, tmp_path: Path, kind: str, reason: str):
    made, context = trial, trial.context()
    now = datetime.now(UTC)
    match kind:
        case "expired":
            made.write_client("mallory", days=1, now=now - timedelta(days=3))
        case "not valid yet":
            made.write_client("mallory", now=now + timedelta(days=3))
        case "another authority":
            made = Trial.make(tmp_path)
            made.write_client("mallory")
        case "of a server":
            made.write_server(["localhost"], name="mallory")
        case _:
            made = Trial.make(tmp_path)
            made.folder.joinpath("mallory.pem").write_bytes(made.authority.certificate_pem)
            made.folder.joinpath("mallory.key").write_bytes(made.authority.key_pem)
    context.load_cert_chain(made.path("mallory.pem"), made.path("mallory.key"))
    async with attacked(trial, trial.asking()) as s:
        told = await refusal(s, context)
        assert told.startswith("the certificate of the client is not accepted: ")
        assert reason in told


def named(count: int) -> list[x509.GeneralName]:
    return [x509.DNSName(f"{number}.example.org") for number in range(count)]


async def test_a_large_certificate_is_read_and_a_huge_one_is_not(trial: Trial):
    """40 KiB are in a certificate with 2,000 names; the limit is 64 KiB for all bytes of a handshake."""
    trial.write_client("large", alternatives=named(2_000))
    trial.write_client("huge", alternatives=named(4_000))
    async with attacked(trial, trial.asking()) as s:
        large = await s.connect_tls(trial.context("large"))
        await large.send(HEADER + LINE)
        await large.expect(HEADER + LINE)
        assert await refusal(s, trial.context("huge")) == "the handshake has more bytes than tls.handshake_bytes_max"


async def test_a_long_chain_is_not_followed(trial: Trial):
    first = trial.write_client("chain")
    certificates = [first, *(trial.write_client(f"link{number}") for number in range(150))]
    (trial.folder / "chain.pem").write_bytes(b"".join(one.certificate_pem for one in certificates))
    context = trial.context("chain")
    async with attacked(trial, trial.asking()) as s:
        assert await refusal(s, context) == "the handshake has more bytes than tls.handshake_bytes_max"


class Renegotiating:
    """A client of TLS 1.2 that can say hello again as often as it likes, which no library does: it encrypts the records
    itself, with the keys that the library has told [RFC 5246 6.3, RFC 5288 3]."""

    def __init__(self, trial: Trial, client: Client, folder: Path) -> None:
        context = trial.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        context.keylog_filename = str(folder / "keys")
        self._folder = folder
        self._client = client
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._hello, self._seal, self._nonce, self._sent = (
            b"",
            AESGCM(bytes(16)),
            b"",
            1,
        )  # 0 was the library's finished

    async def shake(self) -> None:
        """Make the first handshake, with the library."""
        came = b""
        while True:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                break
            said = self._outgoing.read()
            self._hello = self._hello or said[5:]
            await self._client.send(said)
            data = bytes(await self._client.stream.receive_some())
            came += data
            self._incoming.write(data)
        words = (self._folder / "keys").read_text().split()
        client_random, master = (bytes.fromhex(word) for word in words[words.index("CLIENT_RANDOM") + 1 :][:2])
        server_random = came[11:43]  # behind the headers of the record and of the message, and the version
        keys = expanded(master, b"key expansion" + server_random + client_random, 40)
        self._seal, self._nonce = AESGCM(keys[:16]), keys[32:36]

    async def send_again(self, times: int) -> None:
        """Say hello so many times more."""
        await self._client.send(b"".join(self._record() for _ in range(times)))

    async def rest(self) -> bytes:
        """All that the server says until its end."""
        return await self._client.rest()

    def _record(self) -> bytes:
        number = self._sent.to_bytes(8)
        self._sent += 1
        kind = b"\x16\x03\x03"
        bound = number + kind + len(self._hello).to_bytes(2)
        content = number + self._seal.encrypt(self._nonce + number, self._hello, bound)
        return kind + len(content).to_bytes(2) + content


def expanded(secret: bytes, seed: bytes, length: int) -> bytes:
    """The pseudorandom function of TLS 1.2 [RFC 5246 5]."""
    made, link = b"", seed
    while len(made) < length:
        link = hmac.digest(secret, link, "sha256")
        made += hmac.digest(secret, link + seed, "sha256")
    return made[:length]


async def test_a_storm_of_renegotiations_ends_the_connection(trial: Trial, tmp_path: Path):
    """Each is refused with an alert of 31 bytes; after 16 KiB of them the client is none."""
    async with attacked(trial, trial.settings()) as s:
        stormy = Renegotiating(trial, await s.connect_plain_to_tls(), tmp_path)
        await stormy.shake()
        with suppress(trio.BrokenResourceError):
            for _ in range(20):
                await stormy.send_again(50)
        assert len(await stormy.rest()) < 2 * OWN_BYTES_MAX
        await settled()
        told = [entry["reason"] for entry in s.logged("connection-not-encrypted")]
        assert told == ["the client asks for renegotiation again and again"]


def hello(trial: Trial) -> bytes:
    """The first message of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trial.context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


@pytest.mark.slow
async def test_a_flood_of_hellos_is_answered_forgotten_in_time_and_takes_bounded_memory(
    trial: Trial, mock_clock: trio.testing.MockClock
):
    async with attacked(trial, trial.asking("optional"), handshake_time_out="5s") as s:
        resident = ResidentSet()
        before, first = resident(), hello(trial)
        flood = [await s.connect_plain_to_tls() for _ in range(FLOOD)]
        for client in flood:
            await client.send(first)
        for client in flood:
            assert await client.stream.receive_some(), "each is answered"
        assert (resident() - before) / FLOOD < KIB_OF_A_HANDSHAKE * 1024
        resident.close()
        assert s.server.snapshot("server")[0]["unauthenticated"] == FLOOD
        mock_clock.jump(5.1)
        await ended(flood)
        assert s.server.counters.handshake_time_outs == FLOOD
        assert s.server.snapshot("server")[0]["unauthenticated"] == 0


async def ended(clients: list[Client]) -> None:
    """Wait until the server has closed all of these."""
    for client in clients:
        await client.rest()


async def test_hellos_of_one_address_leave_room_for_others(trial: Trial):
    limits = {"unauthenticated_per_host_max": 5, "unauthenticated_max": 10}
    async with attacked(trial, trial.settings(), **limits) as s:
        first = hello(trial)
        for _ in range(5):
            await (await s.connect_plain_to_tls()).send(first)
        await settled()
        assert await (await s.connect_plain_to_tls()).rest() == b"", "no handshake for the sixth"
        assert sum(s.server.counters.refused.values()) == 1
