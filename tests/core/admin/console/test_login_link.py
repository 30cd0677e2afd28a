"""The login link of the console: good once, for five minutes, from this machine; and no log has it."""

import json

import httpx
import pytest

from core.access.rights import ADMINISTRATOR
from core.admin.console.login import LOGIN_PATH
from core.admin.console.login_link import VALID_S, LoginLink, link_url
from tests.kit.admin import Facts, client_of

PAGE = {"x-headgate-request": "1", "origin": "http://127.0.0.1:15692"}


def linked() -> tuple[Facts, str]:
    """A broker that serves users only, and the secret of its link."""
    facts = Facts()
    secret, facts.login_link = LoginLink.make(random_bytes=bytes, monotonic=lambda: facts.now.monotonic)
    return facts, secret


async def use(client: httpx.AsyncClient, secret: str) -> int:
    return (await client.post(LOGIN_PATH, json={"link": secret})).status_code


async def test_the_link_logs_in_once_with_all_rights_and_no_log_has_it():
    facts, secret = linked()
    async with client_of(facts.application(users_only=True), **PAGE) as client:
        assert (await client.get("/api/nodes")).status_code == 401
        answer = await client.post(LOGIN_PATH, json={"link": secret})
        told = answer.json()
        assert (answer.status_code, told["user"], told["tags"]) == (200, ADMINISTRATOR, [ADMINISTRATOR])
        assert (await client.get("/api/nodes")).status_code == 200
        client.headers["x-headgate-csrf"] = told["csrf_token"]
        assert (await client.put("/api/queues/%2F/new", json={})).status_code == 201
    async with client_of(facts.application(users_only=True), **PAGE) as another:
        refused = await another.post(LOGIN_PATH, json={"link": secret})
        assert (refused.status_code, refused.json()["reason"]) == (
            401,
            "the login link is wrong, was used before, or is too old",
        )
        assert (await another.get("/api/nodes")).status_code == 401
    assert facts.logged("console-login")
    assert secret not in json.dumps(facts.log.entries, default=str)


async def test_the_link_ends_after_five_minutes():
    facts, secret = linked()
    facts.pass_time(VALID_S - 1)
    late, late_secret = linked()
    late.pass_time(VALID_S)
    async with client_of(facts.application(users_only=True), **PAGE) as client:
        assert await use(client, secret) == 200
    async with client_of(late.application(users_only=True), **PAGE) as client:
        assert await use(client, late_secret) == 401


async def test_a_wrong_link_counts_as_a_failed_login_and_uses_nothing_up():
    facts, secret = linked()
    async with client_of(facts.application(users_only=True), **PAGE) as client:
        assert [await use(client, wrong) for wrong in ("", "1" * 64, secret[1:], "😀")] == [401] * 4
        assert await use(client, secret) == 200
        statuses = {await use(client, "wrong") for _ in range(200)}
        assert statuses == {401, 429}


async def test_only_this_machine_may_use_it():
    facts, secret = linked()
    transport = httpx.ASGITransport(app=facts.application(users_only=True), client=("192.0.2.1", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:15692", headers=PAGE) as client:
        assert await use(client, secret) == 401


async def test_a_page_of_another_site_and_a_broker_without_a_link_are_refused():
    facts, secret = linked()
    async with client_of(facts.application(users_only=True), **PAGE | {"origin": "http://evil.example"}) as client:
        assert await use(client, secret) == 403
    async with client_of(Facts().application(users_only=True), **PAGE) as client:
        assert await use(client, secret) == 401


@pytest.mark.parametrize(
    ("addresses", "url"),
    [
        ([("127.0.0.1", 15672)], "https://127.0.0.1:15672/console/#login=s"),
        ([("192.0.2.1", 1), ("::1", 2)], "https://[::1]:2/console/#login=s"),
        ([("0.0.0.0", 1)], "https://127.0.0.1:1/console/#login=s"),
        ([("::", 1)], "https://[::1]:1/console/#login=s"),
        ([("192.0.2.1", 1)], None),
        ([], None),
    ],
)
def test_the_url_is_one_that_a_browser_on_this_machine_reaches(addresses: list[tuple[str, int]], url: str | None):
    assert link_url("https", addresses, "s") == url
