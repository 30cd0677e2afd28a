"""Checks tokens of an OAuth 2 provider (JWT [RFC 7519], with the advice of RFC 8725).

``Tokens`` is shared by all logins of a broker. Nothing here awaits or starts threads. :func:`verified` runs in worker
threads, with values that do not change.
"""

import base64
import binascii
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import NamedTuple

from core.access.records import NAME_BYTES_MAX
from core.access.scopes import Scopes, read_scopes
from core.access.token_keys import PublicKey, TokenKeys
from core.config.oauth2 import OAuth2Settings
from core.errors import Invalid

BEGINNING = "ey"
"""A token's header is a JSON table in base64, so it begins with this."""
ACCEPTED = "accepted"
REASONS = (
    "too-long", "malformed", "algorithm", "key", "signature", "issuer", "audience", "no-expiry", "expired",
    "not-yet-valid", "scopes", "user", "off",
)  # fmt: skip
"""Why tokens are refused, in the words of the log and metrics."""
LAST_USERNAME_CLAIMS = ("sub", "client_id")
RECORDED_SECONDS = 300.0
"""As long as a right password is remembered by default, with the same effect on the audit log."""
RECORDED_MAX = 4096
"""Tokens and hosts that are remembered for it: about 1 MiB. Beyond it the oldest is forgotten, and recorded again."""
SHOWN_MAX = 80
"""Characters of a claim that a reason repeats."""


class TokenRefused(Exception):
    """A token is refused. ``reason`` is one of :data:`REASONS`; the text never has the token or its signature."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class TokenHeader(NamedTuple):
    """What is needed of a token's header to find its key."""

    algorithm: str
    kid: str | None


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a token that was accepted says."""

    user: str
    expires_at: float
    """The wall-clock time in seconds since 1970."""
    scopes: Scopes


class Tokens:
    """The settings and keys in force, and what has become of tokens."""

    def __init__(self, settings: OAuth2Settings, *, wall: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self.settings = settings
        self.wall = wall
        self.keys = TokenKeys(settings, monotonic=monotonic)
        self.outcomes: dict[str, int] = dict.fromkeys((ACCEPTED, *REASONS), 0)
        """How many tokens were accepted, and refused by reason."""
        self._recorded: OrderedDict[bytes, float] = OrderedDict()
        """Digests of tokens and hosts whose login was recorded, the oldest first, with the wall time of that."""

    def is_new(self, token: str, host: str) -> bool:
        """Whether the login of a client that shows its token with each request has to be recorded: the first one from
        this host, and again after :data:`RECORDED_SECONDS`."""
        now, recorded = self.wall(), self._recorded
        while recorded and not 0.0 <= now - next(iter(recorded.values())) < RECORDED_SECONDS:
            recorded.popitem(last=False)
        key = sha256(f"{host} {token}".encode()).digest()
        if key in recorded:
            return False
        if len(recorded) >= RECORDED_MAX:
            recorded.popitem(last=False)
        recorded[key] = now
        return True

    def replace(self, settings: OAuth2Settings) -> None:
        """Use other settings from now on. Connections keep the rights of their tokens."""
        self.settings = self.keys.settings = settings

    def takes(self, name: str, password: str) -> bool:
        """Whether a password is a token, by its form."""
        wanted = self.settings.user_name
        return (
            self.settings.configured
            and password.startswith(BEGINNING)
            and password.count(".") == 2
            and wanted in ("", name)
        )

    def header(self, token: str) -> TokenHeader:
        """Read the header of a token, whose size is checked first. Raises TokenRefused."""
        most = self.settings.token_bytes_max
        if len(token) > most:
            raise TokenRefused("too-long", f"the token has {len(token)} bytes; oauth2.token_bytes_max is {most}")
        said = _table(token.partition(".")[0], "header")
        algorithm, kid = said.get("alg"), said.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self.settings.algorithms:
            allowed = ", ".join(self.settings.algorithms)
            raise TokenRefused(
                "algorithm", f"the algorithm {_shown(algorithm)} is not among oauth2.algorithms: {allowed}"
            )
        if kid is not None and not isinstance(kid, str):
            raise TokenRefused("malformed", "the header's kid is no text")
        return TokenHeader(algorithm, kid)


def key_kind(algorithm: str) -> str:
    """The kind of key that a signature needs."""
    return "EC" if algorithm.startswith("ES") else "RSA"


def verified(token: str, keys: Sequence[PublicKey], settings: OAuth2Settings, wall: float) -> TokenClaims:
    """Check signature and claims of a token with one of these keys. Raises TokenRefused."""
    payload = _signed(token, keys, settings)
    claims = _json_table(payload, "claims")
    _check_issuer_and_audience(claims, settings)
    expires_at = _time(claims, "exp")
    if expires_at is None:
        raise TokenRefused("no-expiry", "the token has no exp, so it would never end")
    if wall >= expires_at:
        raise TokenRefused(
            "expired", f"the token has expired {wall - expires_at:.0f} s ago; its exp is {expires_at:.0f}"
        )
    not_before = _time(claims, "nbf")
    if not_before is not None and wall < not_before - settings.not_before_tolerance:
        raise TokenRefused(
            "not-yet-valid", f"the token is valid in {not_before - wall:.0f} s; its nbf is {not_before:.0f}"
        )
    scopes = read_scopes(_scope_texts(claims, settings), settings.prefix, _aliases(settings))
    try:
        scopes.check()
    except Invalid as error:
        raise TokenRefused("scopes", str(error)) from None
    return TokenClaims(_user(claims, settings), expires_at, scopes)


def _signed(token: str, keys: Sequence[PublicKey], settings: OAuth2Settings) -> bytes:
    """The payload, if one of the keys has signed it."""
    from joserfc.errors import BadSignatureError, JoseError
    from joserfc.jws import deserialize_compact

    for key in keys:
        try:
            return deserialize_compact(token, key.key, algorithms=[*settings.algorithms]).payload
        except BadSignatureError:
            continue
        except (JoseError, ValueError, RecursionError) as error:
            raise TokenRefused("malformed", f"the token cannot be read: {type(error).__name__}") from None
    raise TokenRefused("signature", "no key of the provider has signed the token")


def _check_issuer_and_audience(claims: Mapping[str, object], settings: OAuth2Settings) -> None:
    issuer, audience = claims.get("iss"), claims.get("aud")
    if issuer != settings.issuer:
        raise TokenRefused(
            "issuer", f"the token's iss is {_shown(issuer)}, not oauth2.issuer = {_shown(settings.issuer)}"
        )
    names = _words(audience)
    if settings.resource_server_id not in names:
        raise TokenRefused(
            "audience",
            f"the token's aud is {_shown(audience)}, without oauth2.resource_server_id = "
            f"{_shown(settings.resource_server_id)}",
        )


def _time(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused("malformed", f"the token's {name} is no number")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = float("inf")
    if not isfinite(seconds):
        raise TokenRefused("malformed", f"the token's {name} is no time")
    return seconds


def _user(claims: Mapping[str, object], settings: OAuth2Settings) -> str:
    names = (*settings.preferred_username_claims, *LAST_USERNAME_CLAIMS)
    found = next((value for name in names if isinstance(value := claims.get(name), str) and value), None)
    if found is None:
        raise TokenRefused("user", f"the token has none of {', '.join(names)}, which name the user")
    if len(found.encode(errors="replace")) > NAME_BYTES_MAX or not found.isprintable():
        raise TokenRefused("user", f"the token's name of the user must have {NAME_BYTES_MAX} printable bytes at most")
    return found


def _scope_texts(claims: Mapping[str, object], settings: OAuth2Settings) -> Sequence[str]:
    """All scopes, from the claim scope and from further ones."""
    texts = [*_words(claims.get("scope"))]
    for name in settings.additional_scopes_key:
        value = claims.get(name)
        if isinstance(value, dict):  # by resource server, and without the prefix
            texts += [settings.prefix + text for text in _words(value.get(settings.resource_server_id))]
        else:
            texts += _words(value)
    return texts


def _words(value: object) -> Sequence[str]:
    """The words of a text, or the texts of a list."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else ()


def _aliases(settings: OAuth2Settings) -> Mapping[str, Sequence[str]]:
    return {entry.alias: entry.scopes for entry in settings.scope_aliases}


def _table(encoded: str, what: str) -> Mapping[str, object]:
    try:
        data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused("malformed", f"the token's {what} is not in base64") from None
    return _json_table(data, what)


def _json_table(data: bytes, what: str) -> Mapping[str, object]:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        raise TokenRefused("malformed", f"the token's {what} is not JSON") from None
    if not isinstance(said, dict):
        raise TokenRefused("malformed", f"the token's {what} is no table")
    return said


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…"
