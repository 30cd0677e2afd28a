"""The certificate that a client has shown in its TLS handshake, and the name of the user that it proves.

The certificate was verified by then: an authority of ``tls.client_ca`` has signed it. Its form is that of
``ssl.SSLObject.getpeercert``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from core.config.tls import LoginFrom

_SHORT: Mapping[str, str] = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
"""The names of attributes that have a short form [RFC 4514 3]; others keep their own."""

_ALTERNATIVES: Mapping[str, str] = {
    "subject_alternative_name:dns": "DNS",
    "subject_alternative_name:uri": "URI",
    "subject_alternative_name:email": "email",
}
_ESCAPED = frozenset('"+,;<>\\')
"""Characters that are escaped wherever they stand in a value [RFC 4514 2.4]."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What the broker keeps of a client's certificate."""

    subject: str
    """The distinguished name."""
    login_name: str | None
    """The name of the user that may log in with EXTERNAL; None if the certificate lacks that field."""

    @classmethod
    def of(cls, decoded: Mapping[str, object], login_from: LoginFrom) -> Self:
        """Read a verified certificate."""
        return cls(distinguished_name(decoded.get("subject")), _login_name(decoded, login_from))


def _login_name(decoded: Mapping[str, object], login_from: LoginFrom) -> str | None:
    """The name in the configured field. Of several common names or alternative names, the first counts."""
    if login_from == "distinguished_name":
        return distinguished_name(decoded.get("subject")) or None
    if login_from == "common_name":
        pairs = _attributes(decoded.get("subject"))
        return next((value for name, value in pairs if name == "commonName"), None)
    alternatives = decoded.get("subjectAltName")
    found = alternatives if isinstance(alternatives, tuple) else ()
    return next((value for kind, value in found if kind == _ALTERNATIVES[login_from]), None)


def names_of(decoded: Mapping[str, object]) -> tuple[str, ...]:
    """The common names of a verified certificate, then its DNS names: what a node may call itself."""
    common = [value for name, value in _attributes(decoded.get("subject")) if name == "commonName"]
    alternatives = decoded.get("subjectAltName")
    found = alternatives if isinstance(alternatives, tuple) else ()
    return tuple(dict.fromkeys([*common, *(value for kind, value in found if kind == "DNS")]))


def distinguished_name(subject: object) -> str:
    """A subject or issuer as text, the most specific attribute first [RFC 4514 2.1]: ``CN=client,O=Example``."""
    parts = subject if isinstance(subject, tuple) else ()
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part) for part in reversed(parts)
    )


def _attributes(subject: object) -> list[tuple[str, str]]:
    parts = subject if isinstance(subject, tuple) else ()
    return [pair for part in parts for pair in part]


def _escaped(value: str) -> str:
    text = "".join(f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text
