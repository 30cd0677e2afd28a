"""The table [oauth2]: what is wrong with one is told with value and remedy."""

from pathlib import Path

import pytest

from core.config import ConfigError, load, render, render_default

GOOD = 'resource_server_id = "broker"\nissuer = "https://login.example.org"\n'
URL = 'jwks_url = "https://login.example.org/keys"\n'


def read(folder: Path, text: str):
    file = folder / "broker.toml"
    file.write_text(f"[oauth2]\n{text}")
    return load(file)


def test_nothing_is_configured_by_default():
    assert not load().oauth2.configured
    assert "[[oauth2.scope_aliases]]" in render_default()


def test_a_whole_table(tmp_path: Path):
    alias = '[[oauth2.scope_aliases]]\nalias = "Reader"\nscopes = ["read:*/*"]\n'
    settings = read(tmp_path, GOOD + URL + 'jwks_refresh = "5min"\nalgorithms = ["PS256"]\n' + alias)
    own = settings.oauth2
    assert (own.configured, own.prefix, own.jwks_refresh, own.algorithms) == (True, "broker.", 300.0, ("PS256",))
    (tmp_path / "again.toml").write_text(render(settings))
    assert load(tmp_path / "again.toml") == settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (URL, "with jwks_url must have resource_server_id"),
        ('issuer = "x"', "with issuer must have resource_server_id"),
        ('resource_server_id = "broker"\n' + URL, "with resource_server_id must have issuer"),
        (GOOD, "either jwks_url or jwks_file"),
        (GOOD + URL + 'jwks_file = "keys.json"', "either jwks_url or jwks_file"),
        (
            GOOD + 'jwks_url = "http://login.example.org/keys"',
            "http://login.example.org/keys.*https.*allow_http = true",
        ),
        (GOOD + 'jwks_url = "file:///etc/passwd"', "file:///etc/passwd.*must be https://HOST"),
        (GOOD + 'jwks_url = "https://"', "must be https://HOST"),
        (GOOD + 'jwks_url = "https://user:secret@host/keys"', "without a user"),
        (GOOD + 'jwks_url = "https://host:99999/keys"', "cannot be read"),
        (GOOD + 'jwks_url = "https://host/a b"', "no blanks"),
        (GOOD + URL + 'algorithms = ["none"]', "'RS256'"),
        (GOOD + URL + 'algorithms = ["HS256"]', "'RS256'"),
        (GOOD + URL + "algorithms = []", "must not be empty"),
        (GOOD + URL + 'jwks_time_out = "2min"', "at most"),
        (GOOD + URL + 'token_bytes_max = "1MiB"', "at most"),
        (GOOD + URL + "isuer = 1", "did you mean oauth2.issuer"),
    ],
)
def test_what_is_wrong(tmp_path: Path, text: str, words: str):
    with pytest.raises(ConfigError, match=words) as caught:
        read(tmp_path, text)
    assert "broker.toml" in str(caught.value)


def test_http_where_it_is_allowed(tmp_path: Path):
    assert read(tmp_path, GOOD + 'jwks_url = "http://127.0.0.1:8080/keys"\nallow_http = true').oauth2.configured
