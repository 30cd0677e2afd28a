"""The public keys of an OAuth 2 provider: read from a key set or PEM, and when to fetch them again.

This module neither reads files nor opens sockets: a server hands in what it has read, and fetches when it is asked to.
"""

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from core.config.oauth2 import OAuth2Settings
from core.errors import Invalid

if TYPE_CHECKING:  # 20 MiB, only for a broker that has tokens
    from joserfc.jwk import ECKey, RSAKey

KEYS_MAX = 64
"""The most keys of a set. Providers have two or three."""
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 16_384
"""RFC 7518 3.3 demands the first; a signature with the second takes 2 ms to check."""
WAITING_MAX = 1024
"""The most tokens that wait for one fetch: with tokens of the largest default size, 16 MiB."""

_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that can check signatures."""

    kid: str | None
    """Its name in the headers of tokens; None for one that has none, which is tried for all."""
    kind: Literal["RSA", "EC"]
    key: "RSAKey | ECKey"


class WaitsForKeys(Protocol):
    """A token that waits for a fetch."""

    def keys_came(self) -> None:
        """The fetch is over; there may be other keys now, or the same. Raises nothing."""


def read_keys(data: bytes) -> Sequence[PublicKey]:
    """The keys in a JSON Web Key Set or in PEM. Keys of other kinds than RSA and EC, and for encryption, are left out.

    Raises Invalid for data that are no key set, and for one without a key that can be used.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid("the keys are not text in UTF-8") from None
    found = _of_pem(text) if text.lstrip().startswith("-----BEGIN ") else _of_set(text)
    if not found:
        raise Invalid("there is no public key of RSA or EC for signatures among the keys")
    return found


def _of_set(text: str) -> Sequence[PublicKey]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid(f"the keys are not JSON; they begin with {text.strip()[:32]!r}") from None
    entries = said.get("keys") if isinstance(said, dict) else None
    if not isinstance(entries, list):
        raise Invalid('the keys are no JSON Web Key Set: it is a table with the list "keys"')
    if len(entries) > KEYS_MAX:
        raise Invalid(f"the key set has {len(entries)} keys; at most {KEYS_MAX} are read")
    return [key for entry in entries if isinstance(entry, dict) and (key := _of_entry(entry)) is not None]


def _of_entry(entry: dict[str, object]) -> PublicKey | None:
    """The key of one entry; None for one that cannot be used, because others of the set can."""
    kid = entry.get("kid")
    if entry.get("kty") not in ("RSA", "EC") or entry.get("use", "sig") != "sig":
        return None
    if kid is not None and not isinstance(kid, str):
        return None
    public = {name: entry[name] for name in ("kty", "crv", "n", "e", "x", "y") if isinstance(entry.get(name), str)}
    return _checked(public, kid)


def _of_pem(text: str) -> Sequence[PublicKey]:
    blocks = list(_PEM.finditer(text))
    if not blocks:
        raise Invalid("the keys are PEM without an end")
    if len(blocks) > KEYS_MAX:
        raise Invalid(f"the PEM has {len(blocks)} keys; at most {KEYS_MAX} are read")
    if any(block[1] != "PUBLIC KEY" for block in blocks):
        there_is = next(block[1] for block in blocks if block[1] != "PUBLIC KEY")
        raise Invalid(f"the PEM must have public keys only (BEGIN PUBLIC KEY); there is {there_is}")
    return [key for block in blocks if (key := _checked(block[0], None)) is not None]


def _checked(source: dict[str, object] | str, kid: str | None) -> PublicKey | None:
    """The key, if it is of RSA with a fit size, or of EC. The size is looked at first: joserfc only warns."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey

    try:
        if isinstance(source, str):
            raw = load_pem_public_key(source.encode())
            if isinstance(raw, RSAPublicKey) and RSA_BITS_MIN <= raw.key_size <= RSA_BITS_MAX:
                return PublicKey(kid, "RSA", RSAKey.import_key(source))
            return PublicKey(kid, "EC", ECKey.import_key(source)) if isinstance(raw, EllipticCurvePublicKey) else None
        if source["kty"] == "EC":
            return PublicKey(kid, "EC", ECKey.import_key(source))  # type: ignore[arg-type]
        modulus = str(source["n"])
        bits = int.from_bytes(base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4))).bit_length()
        if not RSA_BITS_MIN <= bits <= RSA_BITS_MAX:
            return None
        return PublicKey(kid, "RSA", RSAKey.import_key(source))  # type: ignore[arg-type]
    except (JoseError, ValueError, TypeError, KeyError):
        return None


class TokenKeys:
    """The keys in use, and the tokens that wait for others."""

    def __init__(self, settings: OAuth2Settings, *, monotonic: Callable[[], float]) -> None:
        self.settings = settings
        self.keys: Sequence[PublicKey] = ()
        self.fetches_wanted: Callable[[], None] = _nothing
        """Called when a fetch is wanted at once."""
        self.fetches = {"done": 0, "failed": 0}
        """How many fetches have ended, and how."""
        self._monotonic = monotonic
        self._fetching = False
        self._fetched_at: float | None = None
        self._waiting: list[WaitsForKeys] = []

    def of(self, kid: str | None, kind: str) -> Sequence[PublicKey]:
        """The keys of this kind (RSA, EC) that can be that of a token: those with its name, if it has one, and those
        without a name."""
        return [key for key in self.keys if key.kind == kind and (kid is None or key.kid in (kid, None))]

    def wait(self, token: WaitsForKeys) -> bool:
        """Have a token wait for a fetch, which begins unless one is under way. Returns False if none may begin now, or
        too many wait."""
        if self.settings.jwks_url is None or len(self._waiting) >= WAITING_MAX:
            return False
        if not self._fetching:
            last = self._fetched_at
            if last is not None and self._monotonic() - last < self.settings.jwks_interval_min:
                return False
            self.begin()
            self.fetches_wanted()
        self._waiting.append(token)
        return True

    def begin(self) -> None:
        """A fetch begins."""
        self._fetching, self._fetched_at = True, self._monotonic()

    def fetched(self, keys: Sequence[PublicKey]) -> None:
        """A fetch has ended with these keys, which replace all others."""
        self.keys = keys
        self._over("done")

    def failed(self) -> None:
        """A fetch has failed; the keys stay as they were."""
        self._over("failed")

    def _over(self, result: str) -> None:
        self.fetches[result] += 1
        self._fetching = False
        waiting, self._waiting = self._waiting, []
        for token in waiting:
            token.keys_came()


def _nothing() -> None:
    pass
