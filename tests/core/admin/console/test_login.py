"""Logging in to the console over HTTP: the cookie, what a write needs, when a login ends, and what is refused."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from core.access.login import NewPassword
from core.access.records import RabbitHash, UserRecord
from core.access.rights import FULL, Permission
from core.admin.console.login import LOGIN_PATH
from core.admin.console.sessions import SESSIONS_PER_USER_MAX
from core.admin.signing_in import LOGIN_BYTES_MAX
from core.clock import Now
from core.slices import run_at_once
from tests.kit.admin import TOKEN, Facts, client_of
from tests.kit.logins import user
from tests.kit.tokens import NOW, ec_key, make_token, oauth2, token_access

READ_TOKEN = b"a token that reads"
ORIGIN = "http://127.0.0.1:15692"
PASSWORD = "a password"
COOKIE = "headgate-15692"
PAGE = {"x-headgate-request": "1", "origin": ORIGIN}
"""What the page sends with each request."""


def place() -> Facts:
    """A broker with some users."""
    facts = Facts()
    for name, tags in {"alice": ("administrator",), "mona": ("monitoring",), "plain": ()}.items():
        make(facts, name, PASSWORD, *tags)
    return facts


def make(facts: Facts, name: str, password: str, *tags: str) -> None:
    secret = run_at_once(NewPassword(facts.control.logins, password).hashing())
    facts.control.users.set(UserRecord(name=name, tags=tags, permissions={"/": FULL}, secret=secret))


@asynccontextmanager
async def browser(facts: Facts, **given: object) -> AsyncIterator[httpx.AsyncClient]:
    """A client that keeps cookies, of a broker that serves users only if nothing else is given."""
    async with client_of(facts.application(**(given or {"users_only": True})), **PAGE) as client:
        yield client


async def log_in(client: httpx.AsyncClient, user: str = "alice", password: str = PASSWORD, **headers: str):
    """Log in; later writes of this client carry what they need."""
    response = await client.post(LOGIN_PATH, json={"user": user, "password": password}, headers=headers)
    if response.status_code == 200:
        client.headers["x-headgate-csrf"] = response.json()["csrf_token"]
    return response


def keep_cookie(client: httpx.AsyncClient, secret: str) -> None:
    """Have the client send this cookie, in place of the one that it has."""
    client.cookies.set(COOKIE, secret, domain="127.0.0.1")


async def status(client: httpx.AsyncClient, path: str = "/api/nodes") -> int:
    return (await client.get(path)).status_code


# --- logging in ----------------------------------------------------------------------------------------------------


async def test_a_login_gives_a_cookie_and_the_rights_of_the_user():
    facts = place()
    async with browser(facts) as client:
        assert (await client.get(LOGIN_PATH)).json() == {"user": None, "takes_token": False, "takes_oauth2": False}
        assert await status(client) == 401
        response = await log_in(client, "mona")
        told = response.json()
        assert (told["user"], told["tags"], told["way"]) == ("mona", ["monitoring"], "console")
        assert {"overview", "rows.list", "live", "rabbitmq GET /queues"} <= set(told["operations"])
        assert not {"queues.move", "users.list", "policies.set"} & set(told["operations"])
        assert response.headers["cache-control"] == "no-store"
        secret = client.cookies[COOKIE]
        given = response.headers["set-cookie"]
        assert given == f"{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Strict"
        assert len(bytes.fromhex(secret)) == 32
        assert secret not in response.text
        assert await status(client) == await status(client, "/metrics") == 200
        assert (await client.get("/api/whoami")).json()["name"] == "mona"
        assert (await client.get(LOGIN_PATH)).json() == told
        assert await status(client, "/api/users") == 403
    assert [line["user"] for line in facts.logged("console-login")] == ["mona"]
    assert secret not in repr(facts.log.entries)


async def test_with_tls_no_other_host_can_set_the_cookie():
    app = place().application(users_only=True)
    async with client_of(app, url="https://127.0.0.1:15692", **PAGE | {"origin": "https://127.0.0.1:15692"}) as client:
        given = (await log_in(client)).headers["set-cookie"]
        assert given.startswith("__Host-headgate-15692=")
        assert given.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert await status(client) == 200
        assert (await client.put("/api/queues/%2F/new", json={})).status_code == 201
        elsewhere = {"origin": "http://127.0.0.1:15692"}  # a page that came without TLS
        assert (await client.put("/api/queues/%2F/newer", json={}, headers=elsewhere)).status_code == 403


@pytest.mark.parametrize(("token", "user", "writes"), [(TOKEN, "administrator", 201), (READ_TOKEN, "monitoring", 403)])
async def test_a_token_logs_in_too(token: bytes, user: str, writes: int):
    async with browser(place(), token=TOKEN, read_token=READ_TOKEN) as client:
        assert (await client.get(LOGIN_PATH)).json() == {"user": None, "takes_token": True, "takes_oauth2": False}
        response = await client.post(LOGIN_PATH, json={"token": token.decode()})
        assert (response.status_code, response.json()["user"]) == (200, user)
        client.headers["x-headgate-csrf"] = response.json()["csrf_token"]
        assert await status(client) == 200
        assert (await client.put("/api/queues/%2F/new", json={})).status_code == writes
        assert (await client.delete(LOGIN_PATH)).status_code == 204
        assert await status(client) == 401


def place_with_tokens(**settings: object) -> Facts:
    """A broker that takes tokens of OAuth 2; its clock is that of the tokens."""
    facts = place()
    facts.control.logins.tokens = token_access(settings=oauth2(**settings)).tokens
    facts.now = Now(facts.now.monotonic, NOW)
    return facts


WATCHER = make_token(sub="rita", scope="broker.tag:monitoring", exp=NOW + 600)


@pytest.mark.parametrize(
    "given", [{"user": "any", "password": WATCHER}, {"token": WATCHER}, {"user": "alice", "password": f" {WATCHER}\n"}]
)
async def test_a_token_of_oauth2_logs_in_with_its_own_rights_until_it_expires(given: dict[str, str]):
    facts = place_with_tokens()
    async with browser(facts, token=TOKEN) as client:
        assert (await client.get(LOGIN_PATH)).json() == {"user": None, "takes_token": True, "takes_oauth2": True}
        response = await client.post(LOGIN_PATH, json=given)
        told = response.json()
        assert (response.status_code, told["user"], told["tags"]) == (200, "rita", ["monitoring"])
        assert WATCHER.rpartition(".")[2] not in response.text
        assert WATCHER not in response.headers["set-cookie"]
        client.headers["x-headgate-csrf"] = told["csrf_token"]
        assert await status(client) == 200
        assert (await client.put("/api/users/eve", json={"tags": "administrator"})).status_code == 403
        facts.now = Now(facts.now.monotonic + 599, NOW + 599)
        assert await status(client) == 200
        facts.now = Now(facts.now.monotonic + 1, NOW + 600)
        assert await status(client) == 401


@pytest.mark.parametrize(
    ("given", "refused", "words"),
    [
        ({"user": "any", "password": make_token(exp=NOW - 1)}, 401, "token of OAuth 2 was not accepted"),
        ({"token": make_token(aud="another")}, 401, "token of OAuth 2 was not accepted"),
        ({"token": make_token(key=ec_key("not theirs"))}, 401, "token of OAuth 2 was not accepted"),
        ({"token": make_token(scope="broker.read:*/*")}, 403, "the token of user 'alice' has none of the tags"),
        ({"token": "eyJ" + "x" * 20_000}, 413, "it is a login"),
        ({"token": ""}, 401, "the token was not accepted"),
        ({"user": "alice", "password": "ey.no.token"}, 401, "token of OAuth 2 was not accepted"),
    ],
)
async def test_a_token_of_oauth2_that_gives_no_cookie(given: dict[str, str], refused: int, words: str):
    facts = place_with_tokens()
    async with browser(facts, token=TOKEN) as client:
        response = await client.post(LOGIN_PATH, json=given)
        assert (response.status_code, "set-cookie" in response.headers) == (refused, False)
        assert words in response.json()["reason"]
        assert await status(client) == 401


async def test_a_password_that_looks_like_a_token_needs_the_name_that_takes_tokens():
    facts = place_with_tokens(user_name="oauth")
    make(facts, "carl", "ey.a.b", "monitoring")
    async with browser(facts) as client:
        assert (await log_in(client, "carl", "ey.a.b")).json()["user"] == "carl"
        assert (await log_in(client, "carl", WATCHER)).status_code == 401
        assert (await log_in(client, "oauth", WATCHER)).json()["user"] == "rita"


async def test_where_no_tokens_are_taken_one_is_a_wrong_password():
    async with browser(place()) as client:
        response = await log_in(client, "alice", WATCHER)
        assert (response.status_code, response.json()["reason"]) == (401, "the name or the password is wrong")


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"user": "alice", "password": "wrong"}, 401),
        ({"user": "stranger", "password": PASSWORD}, 401),
        ({"user": "plain", "password": PASSWORD}, 403),
        ({"token": "wrong-wrong-wrong-wrong"}, 401),
        ({"token": "é"}, 401),
        ({"token": "\ud800"}, 400),
        ({"user": "alice", "password": "\ud800"}, 400),
        ({"user": "alice"}, 400),
        ({"user": "alice", "password": PASSWORD, "token": TOKEN.decode()}, 400),
        ({"user": "alice", "password": 1}, 400),
        ({}, 400),
        ([], 400),
        ({"user": "alice", "password": "x" * LOGIN_BYTES_MAX}, 413),
    ],
)
async def test_a_wrong_login_gives_no_cookie(body: object, refused: int):
    facts = place()
    async with browser(facts, token=TOKEN) as client:
        content = json.dumps(body)
        response = await client.post(LOGIN_PATH, content=content, headers={"content-type": "application/json"})
        assert response.status_code == refused, response.text
        assert "set-cookie" not in response.headers
        assert "basic" not in response.headers.get("www-authenticate", "").lower()
        assert await status(client) == 401
    assert len(facts.sessions) == 0
    assert facts.logged("console-login") == []


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 421),
    ],
)
async def test_a_page_of_another_site_cannot_log_a_browser_in(headers: dict[str, str], refused: int):
    async with browser(place()) as client:
        body = json.dumps({"user": "alice", "password": PASSWORD})
        whole = {"content-type": "application/json"} | headers
        assert (await client.post(LOGIN_PATH, content=body, headers=whole)).status_code == refused
        del client.headers["x-headgate-request"]
        assert (await log_in(client)).status_code == 403  # no form can send this header


async def test_wrong_logins_are_limited_as_they_are_elsewhere():
    facts = place()
    async with browser(facts) as client:
        answers = [(await log_in(client, password="wrong")).status_code for _ in range(200)]
        assert set(answers) == {401, 429}
        assert answers == sorted(answers)
        assert (await log_in(client)).status_code == 429  # the right password is not looked at
        assert facts.control.logins.attempts.limit_reached("alice", "127.0.0.1") is not None
    async with browser(facts, token=TOKEN) as client:
        for _ in range(200):
            answer = await client.post(LOGIN_PATH, json={"token": "wrong-wrong-wrong"})
        assert answer.status_code == 429
        assert (await client.post(LOGIN_PATH, json={"token": TOKEN.decode()})).status_code == 429
        bearer = {"authorization": f"Bearer {TOKEN.decode()}"}
        assert (await client.get("/api/nodes", headers=bearer)).status_code == 200  # scripts go on


async def test_a_cookie_from_before_the_login_is_never_taken_over():
    facts = place()
    async with browser(facts) as client:
        keep_cookie(client, "f" * 64)
        assert (await log_in(client)).status_code == 200
        first = client.cookies[COOKIE]
        assert first != "f" * 64
        assert (await log_in(client, "mona")).status_code == 200
        assert len({first, client.cookies[COOKIE]}) == 2
        assert len(facts.sessions) == 1  # the first has ended
    async with browser(facts) as attacker:
        for secret in ("f" * 64, first, ""):
            keep_cookie(attacker, secret)
            assert await status(attacker) == 401


async def test_two_cookies_of_the_name_count_as_none():
    facts = place()
    async with browser(facts) as client:
        await log_in(client)
        secret = client.cookies[COOKIE]
        client.cookies.clear()
        for line in (f"{COOKIE}={secret}; {COOKIE}=x", f"{COOKIE}={secret}; {COOKIE}={secret}"):
            assert (await client.get("/api/nodes", headers={"cookie": line})).status_code == 401
        assert (await client.get("/api/nodes", headers={"cookie": f"a=b; {COOKIE}={secret}"})).status_code == 200
        assert (await client.get("/api/nodes", headers={"cookie": f"headgate-1={secret}"})).status_code == 401


# --- writes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"x-headgate-csrf": ""},
        {"x-headgate-csrf": "0" * 64},
        {"x-headgate-csrf": "\xe9"},
        {"origin": ""},
        {"origin": "http://127.0.0.1:8080"},
        {"origin": "http://127.0.0.1"},
        {"origin": "null"},
    ],
)
async def test_a_write_with_the_cookie_needs_its_text_and_this_origin(headers: dict[str, str]):
    facts = place()
    async with browser(facts) as client:
        await log_in(client)
        spoilt = {name: value.encode("latin-1") for name, value in headers.items()}
        for method, path in (("PUT", "/api/queues/%2F/new"), ("DELETE", LOGIN_PATH)):
            assert (await client.request(method, path, headers=spoilt)).status_code == 403
        assert await status(client) == 200
        assert facts.broker.snapshot("queues") == []
        assert (await client.put("/api/queues/%2F/new", json={})).status_code == 201
        assert [row["name"] for row in facts.broker.snapshot("queues")] == ["new"]
    assert [line["user"] for line in facts.logged("admin-write")] == ["alice"]


@pytest.mark.parametrize("missing", ["x-headgate-csrf", "origin"])
async def test_a_write_without_one_of_them_is_refused(missing: str):
    async with browser(place()) as client:
        await log_in(client)
        del client.headers[missing]
        assert (await client.put("/api/queues/%2F/new", json={})).status_code == 403
        assert await status(client) == 200


async def test_the_text_of_another_login_does_not_count():
    facts = place()
    async with browser(facts) as other, browser(facts) as client:
        await log_in(other)
        await log_in(client)
    app = facts.application(users_only=True)
    async with client_of(app, **PAGE) as client, client_of(app, **PAGE) as other:
        await log_in(client)
        await log_in(other)
        spoilt = {"x-headgate-csrf": other.headers["x-headgate-csrf"]}
        assert (await client.put("/api/queues/%2F/new", json={}, headers=spoilt)).status_code == 403


async def test_scripts_need_neither():
    facts = place()
    async with client_of(facts.application(token=TOKEN)) as client:
        for number, auth in enumerate((f"Bearer {TOKEN.decode()}", httpx.BasicAuth("alice", PASSWORD)._auth_header)):
            made = await client.put(f"/api/queues/%2F/{number}", json={}, headers={"authorization": auth})
            assert made.status_code == 201
    async with client_of(facts.application(users_only=True), **PAGE) as client:
        await log_in(client)
        del client.headers["x-headgate-csrf"], client.headers["origin"]
        monitor = {"authorization": httpx.BasicAuth("mona", PASSWORD)._auth_header}
        assert (await client.get("/api/whoami", headers=monitor)).json()["name"] == "mona"  # not that of the cookie
        assert (await client.put("/api/queues/%2F/new", json={}, headers=monitor)).status_code == 201
    assert [line["user"] for line in facts.logged("admin-write")] == ["administrator", "alice", "mona"]


# --- the end -------------------------------------------------------------------------------------------------------


async def test_a_logout_ends_it():
    facts = place()
    async with browser(facts) as client:
        await log_in(client)
        secret = client.cookies[COOKIE]
        response = await client.delete(LOGIN_PATH)
        assert response.status_code == 204
        assert response.headers["set-cookie"].startswith(f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
        assert COOKIE not in client.cookies
        keep_cookie(client, secret)
        assert await status(client) == 401
        assert (await client.get(LOGIN_PATH)).json()["user"] is None
        assert (await client.delete(LOGIN_PATH)).status_code == 204  # a second time changes nothing
    assert [line["user"] for line in facts.logged("console-logout")] == ["alice"]


@pytest.mark.parametrize("setting", ["session_idle", "session_age_max"])
async def test_it_expires(setting: str):
    facts = place()
    async with browser(facts, users_only=True, **{setting: "60s"}) as client:
        await log_in(client)
        for _ in range(3):
            facts.now = Now(facts.now.monotonic + 19.0, facts.now.wall)
            assert await status(client) == 200
        facts.now = Now(facts.now.monotonic + (60.0 if setting == "session_idle" else 3.0), facts.now.wall)
        refused = await client.get("/api/nodes")
        assert refused.status_code == 401
        assert refused.json()["reason"] == "the login has ended; log in again"
        assert refused.headers["www-authenticate"] == "Cookie"  # no window of the browser asks for a password
        assert COOKIE not in client.cookies


@pytest.mark.parametrize(
    "change",
    [
        lambda users, record: users.delete("alice"),
        lambda users, record: users.set(replace(record, secret=None)),
        lambda users, record: users.set(replace(record, tags=())),
        lambda users, record: users.set(replace(record, tags=("monitoring",))),
        lambda users, record: (users.delete("alice"), users.set(replace(record, tags=("policymaker",)))),
    ],
    ids=["deleted", "disabled", "without tags", "with another tag", "made anew"],
)
async def test_it_ends_at_once_when_the_user_may_no_more(change):
    facts = place()
    make(facts, "root", PASSWORD, "administrator")
    async with browser(facts) as client:
        await log_in(client)
        assert await status(client) == 200
        change(facts.control.users, facts.control.users.record("alice"))
        assert await status(client) == 401
        assert (await client.get(LOGIN_PATH)).json()["user"] is None


async def test_it_ends_when_the_password_changes_and_other_users_stay():
    facts = place()
    app = facts.application(users_only=True)
    async with client_of(app, **PAGE) as alice, client_of(app, **PAGE) as mona:
        await log_in(alice)
        await log_in(mona, "mona")
        changed = await alice.put("/api/headgate/users/alice", json={"password": "another"})
        assert changed.status_code == 204
        assert [await status(alice), await status(mona)] == [401, 200]
        assert (await log_in(alice)).status_code == 401
        assert (await log_in(alice, password="another")).status_code == 200


async def test_a_user_of_the_file_loses_it_with_the_line_of_the_file():
    facts = Facts()
    users = facts.control.users
    for lines in ([], [user("alice", "another")]):
        users.replace([user("alice", PASSWORD), user("bob", PASSWORD)])
        async with browser(facts) as client:
            assert (await log_in(client)).status_code == 200
            users.replace([user("alice", PASSWORD)])
            assert await status(client) == 200
            users.replace([user("bob", PASSWORD), *lines])
            assert await status(client) == 401


async def test_a_login_outlasts_the_new_hash_that_it_causes():
    facts = place()
    salt = b"salt"
    digest = hashlib.sha256(salt + PASSWORD.encode()).digest()
    rabbit = RabbitHash("rabbit_password_hashing_sha256", salt, digest)
    facts.control.users.set(UserRecord(name="rita", tags=("monitoring",), permissions={"/": FULL}, secret=rabbit))
    async with browser(facts) as client:
        assert (await log_in(client, "rita")).status_code == 200
        assert facts.control.users.record("rita").password_kind == "scram"
        assert await status(client) == 200


async def test_what_a_user_gains_or_loses_besides_takes_hold_without_a_new_login():
    facts = place()
    users = facts.control.users
    async with browser(facts) as client:
        await log_in(client, "mona")
        users.set_permission("mona", Permission(read="^none$"))
        users.set(replace(users.record("mona"), tags=("monitoring", "administrator")))
        assert await status(client, "/api/users") == 200
        assert await status(client, "/api/headgate/queues/orders/peek") in (403, 404)
        users.set_permission("mona", None)
        assert await status(client, "/api/queues") == 403
        assert await status(client) == 200


async def test_too_many_of_one_user_end_the_oldest():
    facts = place()
    app = facts.application(users_only=True)
    secrets = []
    for _ in range(SESSIONS_PER_USER_MAX + 1):
        async with client_of(app, **PAGE) as client:
            await log_in(client)
            secrets.append(client.cookies[COOKIE])
    async with client_of(app, **PAGE) as client:
        found = []
        for secret in secrets:
            keep_cookie(client, secret)
            found.append(await status(client))
    assert found == [401] + [200] * SESSIONS_PER_USER_MAX


async def test_the_default_user_logs_in_until_there_is_an_administrator():
    facts = Facts()
    async with browser(facts) as client:
        assert (await log_in(client, "guest", "guest")).status_code == 200
        made = await client.put("/api/headgate/users/alice", json={"password": PASSWORD, "tags": "administrator"})
        assert made.status_code == 204
        assert await status(client) == 401
        assert (await log_in(client)).status_code == 200


# --- without a login -----------------------------------------------------------------------------------------------


async def test_where_no_login_is_needed_things_go_on():
    facts = place()
    async with client_of(facts.application(), **PAGE) as client:
        told = (await client.get(LOGIN_PATH)).json()
        assert (told["user"], told["way"], told["csrf_token"]) == ("administrator", "open", None)
        assert "users.set" in told["operations"]
        assert (await client.put("/api/queues/%2F/new", json={})).status_code == 201
        keep_cookie(client, "0" * 64)  # a login of before a restart
        assert await status(client) == 401
        assert COOKIE not in client.cookies
        assert await status(client) == 200
        await log_in(client, "mona")
        assert await status(client, "/api/users") == 403  # who logs in has no more than that


async def test_other_methods_and_bodies_are_refused():
    async with browser(place()) as client:
        assert (await client.put(LOGIN_PATH, json={})).status_code == 405
        assert (await client.request("GET", LOGIN_PATH, content=b"x")).status_code == 413
        assert (await client.get(LOGIN_PATH + "/")).status_code in (401, 404)
