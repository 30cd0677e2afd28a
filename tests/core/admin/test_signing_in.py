"""Tokens of OAuth 2 over HTTP: by Bearer, and as the password of Basic."""

from base64 import b64encode

import pytest

from core.access.login import Access
from core.access.rights import Rights
from core.admin.callers import Caller, Callers
from core.admin.console.sessions import ConsoleSessions
from core.admin.signing_in import AdminTokens, SignIn
from core.clock import Now
from tests.kit.tokens import NOW, make_token, oauth2, token_access


async def rights(authorization: str, access: Access | None = None) -> Rights | None:
    """What the guard finds for an Authorization field."""
    sign_in = SignIn(access or token_access())
    return await sign_in.rights(authorization, host="127.0.0.1") if sign_in.takes(authorization) else None


def basic(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize("form", ["Bearer {}", "bearer  {} "])
async def test_bearer_has_the_rights_of_the_token(form: str):
    found = await rights(form.format(make_token(scope="broker.tag:monitoring broker.read:*/a")))
    assert (found.user, found.tags, found.may("read", "a"), found.may("read", "b")) == (
        "alice",
        {"monitoring"},
        True,
        False,
    )


async def test_the_live_stream_ends_with_the_token():
    found = await rights(f"Bearer {make_token(scope='broker.tag:monitoring', exp=int(NOW) + 60)}")
    now = [Now(0.0, NOW)]
    sessions = ConsoleSessions(idle=1, age_max=1, sessions_max=1, random_bytes=bytes, monotonic=lambda: 0.0)
    callers = Callers(tokens=AdminTokens(), sign_in=None, sessions=sessions, clock=lambda: now[0], users_only=True)
    caller = Caller(found, "user")
    assert callers.may_watch(caller)
    now[0] = Now(61.0, NOW + 61)
    assert not callers.may_watch(caller)


async def test_a_token_as_the_password_of_basic_may_be_longer_than_a_password():
    many = " ".join(f"broker.read:*/queue-{number}" for number in range(150))
    assert (await rights(basic("any", make_token(scope=many)))).may("read", "queue-7")
    assert await rights(basic("any", "x" * 3000)) is None


@pytest.mark.parametrize("claims", [{"exp": NOW - 1}, {"aud": "x"}, {"iss": "x"}])
async def test_a_token_that_is_refused(claims: dict[str, object]):
    assert await rights(f"Bearer {make_token(**claims)}") is None


async def test_what_is_no_token_is_left_to_the_other_checks():
    assert not SignIn(token_access()).takes("Bearer 0123456789abcdef")
    off = token_access()
    off.tokens = None
    assert not SignIn(off).takes(f"Bearer {make_token()}")


async def test_with_a_user_name_in_the_settings_bearer_needs_none():
    access = token_access(settings=oauth2(user_name="oauth"))
    assert await rights(f"Bearer {make_token()}", access) is not None
    assert await rights(basic("oauth", make_token()), access) is not None
