"""The certificates of the broker: read from their files, checked, used for new connections, and read again when they
change.

A change makes a new ``ssl.SSLContext`` (2 ms). It is taken only if every file can be used and a handshake between the
new context and a client in memory succeeds; otherwise the old context stays. Connections keep the context with which
they began. ``load_cert_chain`` on a context in use would not do: it does not replace a certificate whose key is of
another type.

Annotations that name ``ssl`` are in quotes: ``headgate serve`` imports it when it is first used, which a broker without
certificates never does.
"""

import hashlib
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import trio
from structlog.typing import FilteringBoundLogger

from core.access.client_certificate import ClientCertificate, distinguished_name, names_of
from core.config.tls import TlsSettings
from core.errors import Invalid
from core.interface import Snapshot
from core.server.tls import Tunnel

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption only [RFC 9325 4.2]. TLS 1.3 has no others."""

ALPN = ("amqp",)
"""Offered to clients that ask by ALPN [RFC 7301]; a client that asks for others or for none is served too."""

NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python does not name. The check of a new certificate must not fail for its
dates, because a broker with an expired certificate still serves clients that do not look."""

NO_COMPRESSED_CERTIFICATES = 1 << 33
"""OpenSSL's SSL_OP_NO_RX_CERTIFICATE_COMPRESSION, which Python does not name. Since 3.2 OpenSSL offers compression of
certificates [RFC 8879]; a small handshake would unpack to a large chain, past tls.handshake_bytes_max."""

FILE_BYTES_MAX = 2**20
"""The largest file of certificates. A path given by mistake may name a much larger file."""

DAY_SECONDS = 86_400

_VERSIONS = {"1.2": "TLSv1_2", "1.3": "TLSv1_3"}
"""The names in ``ssl.TLSVersion``."""
_VERIFY = {"none": "CERT_NONE", "optional": "CERT_OPTIONAL", "required": "CERT_REQUIRED"}
"""The names in ``ssl.VerifyMode``."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """One certificate of the broker."""

    name: str
    """The host name of its entry in tls.sni; "" for the certificate for all other clients."""
    path: Path
    subject: str
    issuer: str
    host_names: tuple[str, ...]
    not_before: float
    """The wall-clock time in seconds since 1970, like ``not_after``."""
    not_after: float

    def days_left(self, wall: float) -> float:
        """The days until it expires; negative afterwards."""
        return (self.not_after - wall) / DAY_SECONDS


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Contexts that were made together, and the files behind them."""

    context: "ssl.SSLContext"
    facts: tuple[CertificateFacts, ...]
    mark: bytes
    loaded_at: float
    handshake_bytes_max: int


class Certificates:
    """The certificates in use. Without ``tls.certificate`` there are none, and ``configured`` is False."""

    def __init__(
        self, settings: TlsSettings, *, wall: Callable[[], float], log: FilteringBoundLogger, of_nodes: bool = False
    ) -> None:
        """Read the files. Raises Invalid. ``wall`` returns the wall-clock time in seconds since 1970. ``of_nodes``:
        they are of the section cluster, and the clients are other nodes."""
        self._of_nodes = of_nodes
        self.tell: Callable[[Sequence[str]], None] = _nothing
        """Called at each look with everything that an operator should mend."""
        self._settings = settings
        self._wall = wall
        self._log = log
        self._loaded = _load(settings, wall(), of_nodes) if settings.certificate is not None else None
        self.failure: str | None = None
        """Why the files as they are now cannot be used; None where they are in use."""
        self._refused = b""
        """The mark of the files that could not be used: they are tried again once they have changed."""
        self._suspected = b""
        """The mark of files that one look could not use."""

    @property
    def configured(self) -> bool:
        """Whether there is a certificate."""
        return self._loaded is not None

    @property
    def facts(self) -> Sequence[CertificateFacts]:
        """The certificates in use."""
        return () if self._loaded is None else self._loaded.facts

    def new_tunnel(self) -> Tunnel:
        """The TLS of one new connection."""
        loaded = self._loaded
        assert loaded is not None
        return Tunnel(loaded.context, handshake_bytes_max=loaded.handshake_bytes_max, of_node=self._of_nodes)

    def client_certificate(self, tunnel: Tunnel) -> ClientCertificate | None:
        """The certificate that the client has shown in its handshake, verified; None if it has shown none."""
        decoded = tunnel.peer_certificate
        return ClientCertificate.of(decoded, self._settings.login_from) if decoded else None

    @staticmethod
    def names(tunnel: Tunnel) -> tuple[str, ...]:
        """The names in the certificate that another node has shown, verified."""
        return names_of(tunnel.peer_certificate)

    @property
    def context(self) -> "ssl.SSLContext":
        """The context for new connections. It is another one after each change."""
        assert self._loaded is not None
        return self._loaded.context

    # --- changes ---------------------------------------------------------------------------------------

    def reload(self, settings: TlsSettings | None = None) -> None:
        """Read the files again, or those of other settings, and use them for new connections.

        Raises Invalid when they cannot be used; then everything stays as it was.
        """
        wanted = settings or self._settings
        if wanted.certificate is None:
            if self._loaded is not None:
                raise Invalid("tls.certificate cannot be removed while the broker runs; it stays in use")
            self._settings = wanted
            return
        try:
            loaded = _load(wanted, self._wall(), self._of_nodes)
        except Invalid as error:
            self._refuse(wanted, error)
            raise
        self._take(wanted, loaded)

    def look(self) -> None:
        """Read the files again if they have changed since they were read or refused.

        Files that cannot be used are reported at the second look: a certificate and its key are mostly replaced one
        after the other.
        """
        if self._loaded is None:
            return
        mark = _mark(self._settings, self._of_nodes)
        if mark in (self._loaded.mark, self._refused):
            return
        try:
            loaded = _load(self._settings, self._wall(), self._of_nodes)
        except Invalid as error:
            if mark == self._suspected:
                self._refuse(self._settings, error)
            self._suspected = mark
        else:
            self._take(self._settings, loaded)

    async def run(self, turn: Callable[[], None]) -> None:
        """Look for changed files, until cancelled."""
        while True:
            self.look()
            self.tell(self.problems)
            await trio.sleep(self._settings.check_interval)

    def _take(self, settings: TlsSettings, loaded: _Loaded) -> None:
        self._settings, self._loaded = settings, loaded
        self.failure, self._refused, self._suspected = None, b"", b""
        self._log.info("certificate-reloaded", certificates=self._in_use())
        self.warn()

    def _refuse(self, settings: TlsSettings, error: Invalid) -> None:
        self.failure, self._refused = str(error), _mark(settings, self._of_nodes)
        self._log.error("certificate-not-reloaded", reason=str(error), in_use=self._in_use())

    def warn(self) -> None:
        """Log each certificate that has expired, will soon, or is not valid yet."""
        wall = self._wall()
        for one in self.facts:
            problem = self.problem(one, wall)
            if problem is not None:
                self._log.warning("certificate-expires", certificate=str(one.path), reason=problem)

    def problem(self, one: CertificateFacts, wall: float) -> str | None:
        """What is wrong with the dates of a certificate, in words; None where nothing is."""
        days = one.days_left(wall)
        if days < 0:
            return f"it has expired {-days:.1f} days ago: clients refuse it; put a new one in its place"
        if one.not_before > wall:
            return f"it is valid only in {(one.not_before - wall) / DAY_SECONDS:.1f} days; is the clock right?"
        if one.not_after - wall < self._settings.expiry_warning:
            return f"it expires in {days:.1f} days; put a new one in its place"
        return None

    @property
    def problems(self) -> Sequence[str]:
        """Everything that an operator should mend: dates, and files that could not be used."""
        wall = self._wall()
        found = [(one, self.problem(one, wall)) for one in self.facts]
        texts = [f"{one.path}: {problem}" for one, problem in found if problem is not None]
        return texts if self.failure is None else [*texts, f"not reloaded: {self.failure}"]

    def _in_use(self) -> str:
        return ", ".join(f"{one.path} ({one.subject})" for one in self.facts)

    def status(self) -> Snapshot:
        """The certificates, and everything that an operator should mend."""
        return {"certificates": self.rows(), "problems": list(self.problems)}

    def rows(self) -> list[Snapshot]:
        """The certificates in use, for operators."""
        wall = self._wall()
        return [
            {
                "identity": one.name or "default",
                "path": str(one.path),
                "subject": one.subject,
                "issuer": one.issuer,
                "host_names": list(one.host_names),
                "not_before": one.not_before,
                "not_after": one.not_after,
                "days_left": round(one.days_left(wall), 2),
                "problem": self.problem(one, wall),
                "loaded_at": None if self._loaded is None else self._loaded.loaded_at,
            }
            for one in self.facts
        ]


def _nothing(problems: Sequence[str]) -> None:
    pass


# --- contexts ------------------------------------------------------------------------------------------------------


def _load(settings: TlsSettings, wall: float, of_nodes: bool) -> _Loaded:
    """Make the contexts. Raises Invalid."""
    assert settings.certificate is not None
    assert settings.key is not None
    mark = _digest(settings, of_nodes)
    context, own = _context(settings, "", settings.certificate, settings.key, of_nodes)
    others: dict[str, ssl.SSLContext] = {}
    facts = [own]
    for entry in settings.sni:
        others[entry.name.lower()], found = _context(settings, entry.name, entry.certificate, entry.key)
        facts.append(found)
    if others or settings.sni_required:
        context.sni_callback = _choice(others, required=settings.sni_required)
    return _Loaded(context, tuple(facts), mark, wall, settings.handshake_bytes_max)


def _choice(
    contexts: Mapping[str, "ssl.SSLContext"], *, required: bool
) -> Callable[["ssl.SSLObject", str | None, "ssl.SSLContext"], int | None]:
    """Return what OpenSSL calls with the name for which a client asks [RFC 6066 3]. ``required``: a client that asks
    for none gets an alert."""

    def choose(tls: "ssl.SSLObject", name: str | None, context: "ssl.SSLContext") -> int | None:
        if required and not name:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        asked = (name or "").lower()
        found = contexts.get(asked) or contexts.get(f"*.{asked.partition('.')[2]}")
        if found is not None:
            tls.context = found
        return None

    return choose


def _context(
    settings: TlsSettings, name: str, certificate: Path, key: Path, of_nodes: bool = False
) -> tuple["ssl.SSLContext", CertificateFacts]:
    label = f"tls.sni of {name}" if name else _section(of_nodes)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion[_VERSIONS[settings.minimum]]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.Options(NO_COMPRESSED_CERTIFICATES)
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(ALPN)
    try:
        context.load_cert_chain(certificate, key, password=_refuse_pass_phrase)
    except ssl.SSLError as error:
        raise Invalid(f"{label}: {_wrong_pair(error, certificate, key)}") from None
    decoded = _rehearse(context, certificate, label)
    context.verify_mode = ssl.VerifyMode[_VERIFY[settings.client_certificate]]
    if settings.client_ca is not None and context.verify_mode is not ssl.CERT_NONE:
        try:
            context.load_verify_locations(settings.client_ca)
        except ssl.SSLError:
            what = "cluster.ca" if of_nodes else "tls.client_ca"
            raise Invalid(f"{what} {settings.client_ca}: is no PEM file of certificates") from None
        _look_up_revoked(context, settings.crl)
    return context, _facts(name, certificate, decoded)


def _look_up_revoked(context: "ssl.SSLContext", crl: Path | None) -> None:
    """Have the context refuse certificates of clients that are in the list. Raises Invalid."""
    if crl is None:
        return
    before = context.cert_store_stats()["crl"]
    with suppress(ssl.SSLError):
        context.load_verify_locations(crl)
    if context.cert_store_stats()["crl"] == before:
        raise Invalid(f"tls.crl {crl}: is no PEM file of lists of revoked certificates")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _refuse_pass_phrase() -> str:
    raise Invalid("the key has a pass phrase; write it without one, readable for the broker only")


def _wrong_pair(error: "ssl.SSLError", certificate: Path, key: Path) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"the key {key} is not the key of the certificate {certificate}"
    if error.reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
        return f"the certificate {certificate} is too weak: {error.reason.lower().replace('_', ' ')}"
    return f"{certificate} and {key} are no PEM files of a certificate and its key ({error.reason or error})"


def _rehearse(context: "ssl.SSLContext", certificate: Path, label: str) -> Mapping[str, object]:
    """Make a handshake with a client in memory that trusts exactly this certificate, whatever its dates and names, and
    return the certificate as the client decodes it. Raises Invalid."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.load_verify_locations(certificate)
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(NO_CHECK_TIME)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for side in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        return client.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        raise Invalid(f"{label}: {certificate} is no certificate of a server: {error.verify_message}") from None
    except (ssl.SSLError, ValueError) as error:
        raise Invalid(f"{label}: {certificate} cannot be used: {error}") from None


def _facts(name: str, path: Path, decoded: Mapping[str, object]) -> CertificateFacts:
    alternatives = decoded.get("subjectAltName", ())
    assert isinstance(alternatives, tuple)
    return CertificateFacts(
        name=name,
        path=path,
        subject=distinguished_name(decoded.get("subject")),
        issuer=distinguished_name(decoded.get("issuer")),
        host_names=tuple(value for kind, value in alternatives if kind in ("DNS", "IP Address")),
        not_before=ssl.cert_time_to_seconds(str(decoded["notBefore"])),
        not_after=ssl.cert_time_to_seconds(str(decoded["notAfter"])),
    )


def _section(of_nodes: bool) -> str:
    return "cluster" if of_nodes else "tls"


def _files(settings: TlsSettings, of_nodes: bool) -> Iterable[tuple[str, Path]]:
    if settings.certificate is not None and settings.key is not None:
        yield f"{_section(of_nodes)}.certificate", settings.certificate
        yield f"{_section(of_nodes)}.key", settings.key
    if settings.client_ca is not None:
        yield "cluster.ca" if of_nodes else "tls.client_ca", settings.client_ca
    if settings.crl is not None:
        yield "tls.crl", settings.crl
    for entry in settings.sni:
        yield f"certificate of tls.sni {entry.name}", entry.certificate
        yield f"key of tls.sni {entry.name}", entry.key


def _mark(settings: TlsSettings, of_nodes: bool) -> bytes:
    """What tells one state of the files from another, also where some cannot be read."""
    try:
        return _digest(settings, of_nodes)
    except Invalid as error:
        return str(error).encode()


def _digest(settings: TlsSettings, of_nodes: bool) -> bytes:
    """A digest of the content of all files. Raises Invalid for one that cannot be read."""
    digest = hashlib.sha256()
    for what, path in _files(settings, of_nodes):
        try:
            with path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise Invalid(f"cannot read {what} {path}: {error.strerror}") from None
        if len(content) > FILE_BYTES_MAX:
            raise Invalid(f"{what} {path} is larger than {FILE_BYTES_MAX} bytes")
        digest.update(len(content).to_bytes(8) + content)
    return digest.digest()
