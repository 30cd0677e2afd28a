"""What is checked of a token: its size, algorithm, signature and claims. Hostile tokens are refused with a reason."""

import base64
import hashlib
import hmac
import json

import pytest

from core.access.token_keys import read_keys
from core.access.tokens import REASONS, TokenClaims, TokenRefused, key_kind, verified
from core.config.oauth2 import OAuth2Settings
from tests.kit.tokens import ALL, ISSUER, NOW, ec_key, key_set, make_token, oauth2, rsa_key, token_access

KEYS = read_keys(key_set())


def check(token: str, settings: OAuth2Settings | None = None, wall: float = NOW) -> TokenClaims:
    """Do what a login does, without its threads."""
    tokens = token_access(settings=settings, wall=lambda: wall).tokens
    header = tokens.header(token)
    keys = tokens.keys.of(header.kid, key_kind(header.algorithm))
    return verified(token, keys, tokens.settings, wall)


def encoded(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def refused(token: str, settings: OAuth2Settings | None = None, wall: float = NOW) -> TokenRefused:
    with pytest.raises(TokenRefused) as caught:
        check(token, settings, wall)
    assert caught.value.reason in REASONS
    assert token[-40:] not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("key", [ec_key(), rsa_key()], ids=["EC", "RSA"])
def test_a_token_that_is_right(key):
    claims = check(make_token(key))
    assert (claims.user, claims.expires_at) == ("alice", NOW + 3600)
    assert claims.scopes.permission("/") is not None


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "RS1", "RS512", "", None, 7, ["ES256"]])
def test_only_the_algorithms_in_the_settings_are_accepted(algorithm: object):
    _, claims, signature = make_token().split(".")
    for end in ("", signature):
        assert refused(f"{encoded({'alg': algorithm, 'kid': 'one'})}.{claims}.{end}").reason == "algorithm"


def test_a_public_key_is_no_secret_of_hmac():
    """The classic confusion: the attacker signs with the public key, which everyone knows, as the secret of HMAC."""
    body = f"{encoded({'alg': 'HS256', 'kid': 'rsa'})}.{make_token().split('.')[1]}"
    secret = rsa_key().as_pem(private=False)
    token = f"{body}.{encoded(hmac.digest(secret, body.encode(), hashlib.sha256))}"
    assert refused(token).reason == "algorithm"


def test_an_algorithm_with_a_key_of_another_kind():
    _, claims, signature = make_token(rsa_key()).split(".")
    assert refused(f"{encoded({'alg': 'ES256', 'kid': 'rsa'})}.{claims}.{signature}").reason == "signature"


def test_keys_in_the_header_are_not_used():
    stranger = ec_key("stranger")
    jwk = stranger.as_dict(private=False)
    assert refused(make_token(stranger, header={"kid": "one", "jwk": jwk})).reason == "signature"


def test_a_changed_claim_and_the_key_of_a_stranger():
    header, _, signature = make_token().split(".")
    claims = encoded({"iss": ISSUER, "aud": "broker", "sub": "root", "exp": NOW + 60, "scope": ALL})
    assert refused(f"{header}.{claims}.{signature}").reason == "signature"
    assert refused(make_token(ec_key("stranger"), header={"kid": "one"})).reason == "signature"
    assert refused(f"{header}.{claims}.").reason == "signature"


def test_a_critical_header_that_nothing_here_understands():
    _, claims, signature = make_token().split(".")
    odd = encoded({"alg": "ES256", "kid": "one", "crit": ["x"], "x": 1})
    assert refused(f"{odd}.{claims}.{signature}").reason == "malformed"


@pytest.mark.parametrize(
    ("claims", "reason", "words"),
    [
        ({"iss": "https://evil.example.org"}, "issuer", "'https://evil.example.org', not oauth2.issuer"),
        ({"iss": None}, "issuer", "iss is None"),
        ({"iss": [ISSUER]}, "issuer", "iss"),
        ({"aud": "other"}, "audience", "'other', without oauth2.resource_server_id = 'broker'"),
        ({"aud": None}, "audience", "None"),
        ({"aud": ["brokers", "brok", 7]}, "audience", "brokers"),
        ({"exp": NOW}, "expired", "0 s ago"),
        ({"exp": NOW - 60.5}, "expired", "60 s ago"),
        ({"exp": None}, "no-expiry", "exp"),
        ({"exp": "tomorrow"}, "malformed", "exp is no number"),
        ({"exp": True}, "malformed", "exp is no number"),
        ({"exp": float("nan")}, "malformed", "exp is no time"),
        ({"exp": float("inf")}, "malformed", "exp is no time"),
        ({"exp": 10**400}, "malformed", "exp is no time"),
        ({"nbf": NOW + 5.5}, "not-yet-valid", "valid in"),
        ({"nbf": "now"}, "malformed", "nbf is no number"),
        ({"sub": None}, "user", "sub, client_id"),
        ({"sub": "x" * 256}, "user", "255"),
        ({"sub": "a\nb"}, "user", "printable"),
        ({"sub": 7}, "user", "sub, client_id"),
    ],
)
def test_claims_that_are_wrong(claims: dict[str, object], reason: str, words: str):
    error = refused(make_token(**claims))
    assert error.reason == reason
    assert words in str(error)


def test_scopes_that_are_too_many_for_patterns():
    token = make_token(scope=" ".join(f"broker.read:*/{'a*' * 99}{n}" for n in range(150)))
    error = refused(token, oauth2(token_bytes_max=65_536))
    assert (error.reason, "the scopes for read" in str(error)) == ("scopes", True)


def test_the_edges_of_time():
    token = make_token(exp=NOW + 10, nbf=NOW + 5)
    assert check(token, wall=NOW).expires_at == NOW + 10
    assert check(token, wall=NOW + 9.9).expires_at == NOW + 10
    assert refused(token, wall=NOW + 10).reason == "expired"
    assert refused(token, oauth2(not_before_tolerance=0.0), wall=NOW + 4).reason == "not-yet-valid"


@pytest.mark.parametrize("audience", ["broker", "other broker", ["other", "broker"]])
def test_an_audience_is_a_text_or_a_list(audience: object):
    assert check(make_token(aud=audience)).user == "alice"


@pytest.mark.parametrize(
    "token",
    [
        "ey..",
        "ey.a.b",
        "ey!!.e30.AA",
        encoded([1]) + ".e30.AA",
        encoded(b"{" * 4000) + ".e30.AA",
        encoded(b"[" * 10_000) + ".e30.AA",
        encoded(b"\xff\xfe") + ".e30.AA",
        encoded(b'{"alg":' + b"9" * 5000 + b"}") + ".e30.AA",
        encoded({"alg": "ES256", "kid": 7}) + ".e30.AA",
        encoded({"alg": "ES256", "kid": "one"}) + ".e30.!!!",
        "ü" * 30,
    ],
)
def test_what_is_no_token(token: str):
    assert refused(token).reason in ("malformed", "signature")


def test_claims_that_are_no_table_though_signed():
    from joserfc import jws

    for payload in (b"[]", b"7", b"{", b"[" * 9000, b"\xff"):
        token = jws.serialize_compact({"alg": "ES256", "kid": "one"}, payload, ec_key(), algorithms=["ES256"])
        assert refused(token).reason == "malformed"


def test_a_token_that_is_too_long_is_refused_unread():
    error = refused("ey" + "A" * 2**20 + ".A.A")
    assert error.reason == "too-long"
    assert "1048582 bytes; oauth2.token_bytes_max is 16384" in str(error)


def test_the_name_of_the_user():
    settings = oauth2(preferred_username_claims=["user_name", "email"])
    assert check(make_token(email="a@example.org"), settings).user == "a@example.org"
    assert check(make_token(email="a@example.org", user_name="ann"), settings).user == "ann"
    assert check(make_token(user_name=""), settings).user == "alice"
    assert check(make_token(without=("sub",), client_id="robot")).user == "robot"


def test_further_scopes_in_other_claims():
    settings = oauth2(additional_scopes_key=["roles", "permissions", "none"])
    token = make_token(
        without=("scope",),
        roles=["broker.tag:monitoring", 7],
        permissions={"broker": ["read:*/a"], "other": "read:*/b"},
    )
    found = check(token, settings).scopes
    assert found.tags == {"monitoring"}
    assert [scope.name for scope in found.rights] == ["a"]
    assert check(make_token(without=("scope",), roles="broker.read:*/a x"), settings).scopes.rights == found.rights


def test_aliases_and_a_prefix_of_ones_own():
    settings = oauth2(scope_prefix="api:", scope_aliases=[{"alias": "Reader", "scopes": ["read:*/*"]}])
    found = check(make_token(scope=["Reader", "api:write:*/w", "broker.configure:*/*"]), settings).scopes
    assert {(scope.kind, scope.name) for scope in found.rights} == {("read", "*"), ("write", "w")}


def test_a_token_without_scopes_lets_in_with_no_rights():
    assert check(make_token(without=("scope",))).scopes.permission("/") is None
    assert check(make_token(scope={"x": 1})).scopes.permission("/") is None
