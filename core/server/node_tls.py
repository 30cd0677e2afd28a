"""TLS between the nodes of a cluster: each end shows a certificate that the authority of the cluster has signed.

A node listens for other nodes on addresses of their own (``cluster.listen``), so that what clients may do and what
nodes may do is decided by different authorities. Version 1.3 only: both ends are brokers of ours.
"""

import ssl
from collections.abc import Awaitable, Callable, Sequence

import trio
from structlog.typing import FilteringBoundLogger

from core.alarms.registry import AlarmRegistry
from core.config import Settings
from core.config.cluster import ClusterSettings
from core.config.tls import TlsSettings
from core.errors import Invalid
from core.server.certificates import Certificates
from core.server.tls import TlsFailed, Tunnel

RECEIVED_BYTES = 16_384
"""The most bytes of a handshake that are taken at once."""


class NodeTls:
    """The certificate of this node, for both directions. Made for a cluster with ``cluster.certificate``."""

    def __init__(self, settings: ClusterSettings, *, wall: Callable[[], float], log: FilteringBoundLogger) -> None:
        """Read the files. Raises Invalid. ``wall`` returns the wall-clock time in seconds since 1970."""
        self.listen: Sequence[str] = settings.listen
        self._files = settings.certificate, settings.key, settings.ca
        self._settings = TlsSettings(
            certificate=settings.certificate,
            key=settings.key,
            client_ca=settings.ca,
            client_certificate="required",
            minimum="1.3",
        )
        self.certificates = Certificates(self._settings, wall=wall, log=log, of_nodes=True)

    def new_tunnel(self) -> Tunnel:
        """The TLS of a connection to another node, with the files as they are now. Raises Invalid."""
        certificate, key, ca = self._files
        assert certificate is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the name of the node is checked, and not that of its machine
        try:
            context.load_cert_chain(certificate, key, password=_refuse_pass_phrase)
            context.load_verify_locations(ca)
        except OSError as error:
            raise Invalid(f"cluster.certificate, key or ca cannot be used: {error.strerror or error}") from None
        return Tunnel(context, handshake_bytes_max=self._settings.handshake_bytes_max, of_node=True, client=True)

    async def secure(self, stream: trio.SocketStream, node: str) -> Tunnel:
        """Make the handshake over a connection to a node. Raises TlsFailed, Invalid, OSError."""
        tunnel = self.new_tunnel()
        complete = tunnel.shake()
        while True:
            if output := tunnel.take_output():
                await stream.send_all(output)
            if complete:
                break
            data = await stream.receive_some(RECEIVED_BYTES)
            if not data:
                raise TlsFailed("it has closed during the TLS handshake")
            tunnel.receive_handshake(data)
            complete = tunnel.shake()
        names = self.certificates.names(tunnel)
        if node not in names:
            shown = " or ".join(names) or "no name"
            raise TlsFailed(f"its certificate is that of {shown}, and this address is to be that of node {node}")
        return tunnel


def _refuse_pass_phrase() -> str:
    raise Invalid("cluster.key has a pass phrase; write it without one, readable for the broker only")


def open_certificates(
    settings: Settings, *, wall: Callable[[], float], log: FilteringBoundLogger
) -> tuple[Certificates, NodeTls | None]:
    """Return the certificates of this broker, and what it shows to other nodes, after a warning about those that should
    be mended. Raises Invalid."""
    certificates = Certificates(settings.tls, wall=wall, log=log)
    certificates.warn()
    if settings.cluster.certificate is None:
        return certificates, None
    node_tls = NodeTls(settings.cluster, wall=wall, log=log)
    node_tls.certificates.warn()
    return certificates, node_tls


def watched(
    certificates: Certificates, node_tls: NodeTls | None, alarms: AlarmRegistry
) -> list[Callable[[Callable[[], None]], Awaitable[None]]]:
    """The tasks that look after certificates, with one notice for all."""
    all_of_them = [certificates] if node_tls is None else [certificates, node_tls.certificates]

    def tell(_: Sequence[str]) -> None:
        problems = [problem for one in all_of_them for problem in one.problems]
        alarms.notice("certificate", bool(problems), "; ".join(problems))

    for one in all_of_them:
        one.tell = tell
    return [one.run for one in all_of_them]
