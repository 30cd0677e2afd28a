"""Tokens of OAuth 2 and the keys that sign them, made once for a whole run, and what a broker needs to check them."""

import json
from collections.abc import Callable
from functools import cache

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey
from structlog.testing import LogCapture

from core.access.login import Access, LoginPeer
from core.access.mechanisms import PlainMechanism
from core.access.token_keys import read_keys
from core.access.tokens import Tokens
from core.config.oauth2 import OAuth2Settings
from tests.kit.logins import from_here, hash_at_once, make_access

ISSUER, BROKER, NOW = "https://login.example.org", "broker", 1_700_000_000.0
"""NOW is the wall clock of :class:`tests.kit.wire.InProcessBroker` at its start."""
ALL = "broker.configure:*/* broker.write:*/*/* broker.read:*/*/*"


@cache
def ec_key(kid: str = "one") -> ECKey:
    """A P-256 key; another one for each name."""
    return ECKey.generate_key("P-256", parameters={"kid": kid})


@cache
def rsa_key(kid: str = "rsa") -> RSAKey:
    """A key of RSA with 2048 bits."""
    return RSAKey.generate_key(2048, parameters={"kid": kid})


def key_set(*keys: ECKey | RSAKey) -> bytes:
    """The key set that a provider publishes."""
    entries = [key.as_dict(private=False) | {"use": "sig"} for key in keys or (ec_key(), rsa_key())]
    return json.dumps({"keys": entries}).encode()


def make_token(
    key: ECKey | RSAKey | None = None,
    *,
    header: dict[str, object] | None = None,
    without: tuple[str, ...] = (),
    **claims: object,
) -> str:
    """A signed token: of alice, with all rights, for an hour, unless ``claims`` say otherwise."""
    key = key or ec_key()
    algorithm = "ES256" if isinstance(key, ECKey) else "RS256"
    all_claims = {"iss": ISSUER, "aud": BROKER, "sub": "alice", "exp": NOW + 3600, "scope": ALL} | claims
    said = {name: value for name, value in all_claims.items() if name not in without}
    return jws.serialize_compact(
        {"alg": algorithm, "kid": key.kid} | (header or {}),
        json.dumps(said).encode(),
        key,
        algorithms=["ES256", "RS256", "PS256", "RS512"],
    )


def oauth2(**changes: object) -> OAuth2Settings:
    """The settings of a broker that takes these tokens, with the keys from a file that is not read here."""
    own = {"resource_server_id": BROKER, "issuer": ISSUER, "jwks_file": "keys.json"}
    return OAuth2Settings.model_validate(own | changes)


class Clocks:
    """Both clocks, which the test moves."""

    def __init__(self) -> None:
        self.wall, self.monotonic = NOW, 0.0

    def advance(self, seconds: float) -> None:
        """Move both."""
        self.wall += seconds
        self.monotonic += seconds


def token_access(
    *,
    settings: OAuth2Settings | None = None,
    keys: bytes | None = None,
    clocks: Clocks | None = None,
    wall: Callable[[], float] | None = None,
    submit: Callable[..., bool] = hash_at_once,
    log: LogCapture | None = None,
    users: tuple[object, ...] = (),
) -> Access:
    """What logins share, in a broker that takes tokens; ``keys`` is the key set, b"" for none yet."""
    clocks = clocks or Clocks()
    access = make_access(*users, submit=submit, log=log)
    access.tokens = Tokens(settings or oauth2(), wall=wall or (lambda: clocks.wall), monotonic=lambda: clocks.monotonic)
    data = key_set() if keys is None else keys
    access.tokens.keys.keys = read_keys(data) if data else ()
    return access


def log_in(access: Access, token: str, wake: Callable[[], object] = lambda: None) -> LoginPeer:
    """A peer that has logged in with this token."""
    peer = from_here(wake=wake)
    reply = PlainMechanism(access, peer).start().respond(b"\0any\0" + token.encode())
    assert reply[0] == "success", reply
    assert peer.token_rights is not None
    return peer
