"""Settings of OAuth 2: which tokens let a client in, and where the keys are that check them."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from core.config.section import Section
from core.config.units import Bytes, FilePath, Seconds

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Signatures with a public key [RFC 7518 3.1]. HMAC is not among them: the broker would have to know the key with which
tokens are made."""


class ScopeAlias(Section):
    """A scope or role of the identity provider, and the scopes for which it stands."""

    alias: str = Field(min_length=1, max_length=255)
    """The scope as tokens have it, such as api://broker/Orders.Write."""

    scopes: tuple[str, ...] = Field(min_length=1, strict=False)
    """The scopes for which it stands, with or without the prefix: write:*/orders.*, tag:monitoring."""


class OAuth2Settings(Section):
    """Logins with tokens (JWT) of an OAuth 2 provider. There are none while resource_server_id is empty."""

    resource_server_id: str = Field(default="", max_length=255)
    """The name of this broker at the provider. A token must have it in its audience (aud)."""

    issuer: str = Field(default="", max_length=2048)
    """The provider: exactly what its tokens have as issuer (iss)."""

    jwks_url: str | None = Field(default=None, max_length=2048)
    """Where the provider publishes its keys, as a JSON Web Key Set."""

    jwks_file: FilePath | None = None
    """A file with the keys, instead of jwks_url: a JSON Web Key Set, or public keys in PEM. headgate config reload and
    SIGHUP read it again."""

    algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1, strict=False)
    """The signatures that are accepted. A token chooses one of them, and never another."""

    user_name: str = Field(default="", max_length=255)
    """The user name with which a password can be a token. When empty, any name will do, as with RabbitMQ. The name of
    the user is always that in the token."""

    scope_prefix: str | None = Field(default=None, max_length=255)
    """What the scopes for this broker begin with; others are ignored. When not set, resource_server_id and a dot."""

    additional_scopes_key: tuple[str, ...] = Field(default=(), strict=False)
    """Claims with further scopes, beside scope: a text, a list, or a table with one of both for each
    resource_server_id."""

    preferred_username_claims: tuple[str, ...] = Field(default=(), strict=False)
    """Claims that can be the name of the user. The first that a token has is taken; sub and client_id come last."""

    not_before_tolerance: Seconds = Field(default=5.0, ge=0.0, le=300.0)
    """How long before its nbf a token is accepted, because clocks differ. There is no tolerance behind its exp."""

    token_bytes_max: Bytes = Field(default=16_384, ge=1024, le=65_536)
    """The largest token. Frames before the open may be as large, too."""

    jwks_refresh: Seconds = Field(default=3600.0, ge=10.0, le=7 * 86_400.0)
    """How often the keys are fetched again. A key that the provider has withdrawn works up to this time."""

    jwks_interval_min: Seconds = Field(default=30.0, ge=1.0, le=3600.0)
    """The least time between two fetches that tokens cause whose key is not known. Until then these are refused."""

    jwks_time_out: Seconds = Field(default=5.0, ge=0.1, le=60.0)
    """How long a fetch may take, in all. Logins that need the keys wait for it."""

    jwks_bytes_max: Bytes = Field(default=256 * 1024, ge=1024, le=2**24)
    """The largest key set."""

    allow_http: bool = False
    """Whether jwks_url may be http. An attacker who can change the answer on its way could then let in any client."""

    ca_file: FilePath | None = None
    """A PEM file with the authorities that may have signed the certificate of jwks_url. When not set, those of the
    system."""

    scope_aliases: tuple[ScopeAlias, ...] = Field(default=(), strict=False)
    """Scopes or roles of the provider that stand for scopes in the form of this broker."""

    @property
    def configured(self) -> bool:
        """Whether tokens let clients in."""
        return bool(self.resource_server_id)

    @property
    def prefix(self) -> str:
        """What the scopes for this broker begin with."""
        return f"{self.resource_server_id}." if self.scope_prefix is None else self.scope_prefix

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.configured:
            for key in ("issuer", "jwks_url", "jwks_file"):
                if getattr(self, key):
                    raise ValueError(
                        f"with {key} must have resource_server_id, the name of this broker at the provider"
                    )
            return self
        if not self.issuer:
            raise ValueError("with resource_server_id must have issuer: what the tokens of the provider have as iss")
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("with resource_server_id must have either jwks_url or jwks_file, for the provider's keys")
        if self.jwks_url is not None:
            _check_url(self.jwks_url, allow_http=self.allow_http)
        return self


def _check_url(url: str, *, allow_http: bool) -> None:
    """Raises ValueError for an address from which the keys must not or cannot be fetched."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f'jwks_url = "{url[:80]}" cannot be read: {error}') from None
    if parts.scheme == "http" and not allow_http:
        raise ValueError(f'jwks_url = "{url[:80]}" must be https; for a trial on this machine set allow_http = true')
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or not url.isascii():
        raise ValueError(f'jwks_url = "{url[:80]}" must be https://HOST[:PORT]/PATH, in ASCII and without a user')
    if any(character <= " " or character == "\x7f" for character in url):
        raise ValueError(f'jwks_url = "{url[:80]}" must have no blanks')
