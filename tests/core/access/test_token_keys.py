"""Keys of a provider: which can be used, and when they are fetched."""

import json

import pytest

from core.access.token_keys import WAITING_MAX, TokenKeys, read_keys
from core.errors import Invalid
from tests.kit.tokens import Clocks, ec_key, key_set, oauth2, rsa_key

URL = {"jwks_file": None, "jwks_url": "https://login.example.org/keys"}


def entries(*found: dict[str, object]) -> bytes:
    return json.dumps({"keys": found}).encode()


EC, RSA = ec_key().as_dict(private=False), rsa_key().as_dict(private=False)


def test_a_key_set():
    assert [(key.kid, key.kind) for key in read_keys(key_set())] == [("one", "EC"), ("rsa", "RSA")]


def test_public_keys_in_pem_have_no_names():
    pem = ec_key().as_pem(private=False) + rsa_key().as_pem(private=False)
    assert [(key.kid, key.kind) for key in read_keys(b"\n" + pem)] == [(None, "EC"), (None, "RSA")]


@pytest.mark.parametrize(
    "odd",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "n": "sXch", "e": "AQAB"},
        {"kty": "RSA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-999", "x": EC["x"], "y": EC["y"]},
        {"kty": ["EC"]},
        RSA | {"use": "enc"},
        RSA | {"kid": 7},
        {},
        7,
    ],
)
def test_keys_that_cannot_be_used_are_left_out(odd: object):
    assert [key.kid for key in read_keys(json.dumps({"keys": [odd, EC]}).encode())] == ["one"]
    with pytest.raises(Invalid, match="there is no public key of RSA or EC"):
        read_keys(json.dumps({"keys": [odd]}).encode())


def test_a_private_key_in_a_set_is_used_as_a_public_one():
    (key,) = read_keys(entries(ec_key().as_dict(private=True)))
    assert not key.key.is_private


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"<html>login</html>", "they begin with '<html>login</html>'"),
        (b"[" * 20_000, "not JSON"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"[]", 'table with the list "keys"'),
        (b'{"keys": {}}', 'table with the list "keys"'),
        (b'{"keys": []}', "no public key"),
        (entries(*[EC] * 65), "65 keys; at most 64"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA", "without an end"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "no public key"),
        (ec_key().as_pem(private=True), "BEGIN PUBLIC KEY.*there is PRIVATE KEY"),
    ],
)
def test_what_is_no_key_set(data: bytes, words: str):
    with pytest.raises(Invalid, match=words):
        read_keys(data)


def test_which_keys_are_tried_for_a_token():
    keys = TokenKeys(oauth2(), monotonic=lambda: 0.0)
    keys.keys = [*read_keys(key_set()), *read_keys(ec_key("x").as_pem(private=False))]
    assert [key.kid for key in keys.of("one", "EC")] == ["one", None]
    assert [key.kid for key in keys.of("other", "EC")] == [None]
    assert [key.kid for key in keys.of(None, "EC")] == ["one", None]
    assert [key.kid for key in keys.of("one", "RSA")] == []


class Waiting:
    def __init__(self) -> None:
        self.came = 0

    def keys_came(self) -> None:
        self.came += 1


def test_tokens_that_wait_share_one_fetch():
    clocks, wanted, tokens = Clocks(), [], [Waiting() for _ in range(3)]
    keys = TokenKeys(oauth2(**URL), monotonic=lambda: clocks.monotonic)
    keys.fetches_wanted = lambda: wanted.append(clocks.monotonic)
    assert all(keys.wait(token) for token in tokens)
    assert wanted == [0.0]
    keys.fetched(read_keys(key_set()))
    assert [token.came for token in tokens] == [1, 1, 1]
    assert keys.fetches == {"done": 1, "failed": 0}


def test_unknown_keys_cause_one_fetch_in_a_while():
    clocks, wanted, token = Clocks(), [], Waiting()
    keys = TokenKeys(oauth2(**URL), monotonic=lambda: clocks.monotonic)
    keys.fetches_wanted = lambda: wanted.append(clocks.monotonic)
    for _ in range(1000):
        keys.wait(token)
        if keys.fetches["failed"] < len(wanted):
            keys.failed()
        clocks.advance(0.1)
    assert wanted == pytest.approx([0.0, 30.0, 60.0, 90.0], abs=0.2)
    assert token.came == 4


def test_no_more_than_a_limited_number_waits():
    keys = TokenKeys(oauth2(**URL), monotonic=lambda: 0.0)
    tokens = [Waiting() for _ in range(WAITING_MAX + 1)]
    assert [keys.wait(token) for token in tokens].count(False) == 1


def test_nothing_is_fetched_where_the_keys_are_in_a_file():
    assert not TokenKeys(oauth2(), monotonic=lambda: 0.0).wait(Waiting())
