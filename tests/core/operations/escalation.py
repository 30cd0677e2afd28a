"""``python -m tests.core.operations.escalation``: every operation on every surface, asked for without its right.

The attempts are made from the tables of operations, for a user with each tag and one without any; all of these users
may do everything with queues and exchanges. A second matrix has the acts on queues and exchanges, of both protocols and
over HTTP: each is tried by users who have every right but one that it needs. The command prints both. Its exit code is
1 when an attempt was not refused as it should be, or when one of the first matrix has changed something.
"""

import base64
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import trio

from amqp10.conversion.converter import MessageConverter
from core.access.login import NewPassword
from core.access.records import UserRecord
from core.access.rights import FULL, TAGS, AccessKind, Permission
from core.admin.console.login import LOGIN_PATH
from core.amqp091.plain_messages import PlainMessages
from core.operations.all_operations import OPERATIONS
from core.operations.operation import RIGHTS_OF_TAGS, Right
from core.operations.table import PathEntry
from core.slices import run_at_once
from tests.conformance.test_rights import AUTH_ACTS
from tests.core.operations.test_all_operations import document, shop, split
from tests.kit import acts091, link_acts
from tests.kit.acts import Need, Trial, trials
from tests.kit.acts import place as acts_place
from tests.kit.admin import Facts, client_of
from tests.kit.management import Console, decode_answer, encode_request, respond
from tests.kit.tokens import ALL, make_token, token_access

PASSWORD = "a password of a user"
USERS: Mapping[str, UserRecord] = {
    tag: UserRecord(name=tag, tags=(tag,), permissions={"/": FULL}) for tag in (*TAGS, "unknown-tag")
} | {"plain": UserRecord(name="plain", permissions={"/": FULL})}
"""A user with each tag, and one without any; all of them may do everything with queues and exchanges."""
STATE = ("queues", "exchanges", "bindings", "policies", "alarms")
UNAUTHORIZED, FORBIDDEN = 401, 403
SURFACES = ("AMQP", "HTTP", "cookie", "cookie of a token", "cookie alone")
"""The management node; HTTP with name and password; a login to the console with a password, or with a token of OAuth 2;
and a write with the cookie and without the text of the login, also by users who have the right."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An operation that was asked for by a user who may not have it."""

    surface: str
    operation: str
    user: str
    status: int
    expected: int
    said: str

    @property
    def refused(self) -> bool:
        """Whether it was refused as it should be."""
        return self.status == self.expected


def place() -> Facts:
    """The broker of the examples, with these users."""
    facts = shop()
    secret = run_at_once(NewPassword(facts.control.logins, PASSWORD).hashing())
    for record in USERS.values():
        facts.control.users.set(UserRecord(**{**{f: getattr(record, f) for f in record.__slots__}, "secret": secret}))
    return facts


def may(user: str, right: Right) -> bool:
    """Whether the tags of one of these users give a right."""
    return any(right in RIGHTS_OF_TAGS.get(tag, ()) for tag in USERS[user].tags)


def state(facts: Facts) -> object:
    """All that an operation could have changed."""
    rows = {kind: facts.control.snapshot(kind) for kind in STATE}
    kept = ("name", "messages_ready", "definition", "on", "binding_key", "destination", "arguments")
    seen = {kind: [[row.get(key) for key in kept] for row in found] for kind, found in rows.items()}
    return seen, [record.render() for record in facts.control.users.records()], facts.server.closed, facts.server.orders


def basic(user: str, password: str = PASSWORD) -> dict[str, str]:
    """The header with name and password."""
    return {"authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def over_amqp(facts: Facts) -> list[Attempt]:
    """Ask the management node."""
    console, made = Console(), []
    for operation in OPERATIONS:
        for user in (user for user in USERS if not may(user, operation.right)):
            for spelling in operation.spellings:
                path, free = split(operation, spelling.path, operation.example.parameters)
                body = document(operation, free) if spelling.method in ("PUT", "POST") else None
                request = encode_request(spelling.method, f"/headgate{path}", body)
                rights = facts.control.users.rights_of(user)
                answer = decode_answer(respond(console.node, console.broker, request, rights=rights))
                made.append(Attempt("AMQP", operation.name, user, answer.status, FORBIDDEN, str(answer.body)))
    return made


async def over_http(facts: Facts) -> list[Attempt]:
    """Ask the HTTP API with name and password."""
    api, _ = facts.api()
    made = []
    async with client_of(facts.application(api=api)) as client:
        for entry in api.table.entries:
            for user in (user for user in USERS if not may(user, entry.operation.right)):
                response = await client.request(**_request(entry), headers=basic(user))
                made.append(Attempt("HTTP", entry.operation.name, user, response.status_code, FORBIDDEN, response.text))
    return made


async def with_a_cookie(facts: Facts, *, with_token: bool) -> list[Attempt]:
    """Ask with the cookie of a login to the console. The tags are those of the user, or of a token of OAuth 2 that is
    given as the password of an administrator."""
    facts.control.logins.tokens = token_access().tokens
    api, _ = facts.api()
    app = facts.application(api=api, users_only=True)
    surface, made = "cookie of a token" if with_token else "cookie", []
    for user in USERS:
        async with client_of(app, **{"x-headgate-request": "1", "origin": "http://127.0.0.1:15692"}) as client:
            given = {"user": user, "password": PASSWORD}
            if with_token:
                given = {"user": "administrator", "password": make_token(sub=user, scope=f"{ALL} broker.tag:{user}")}
            login = await client.post(LOGIN_PATH, json=given)
            has_tag = any(may(user, right) for right in Right)
            expected = FORBIDDEN if has_tag else UNAUTHORIZED
            assert (login.status_code == 200) is has_tag, (user, login.text)
            mark = {"x-headgate-csrf": login.json()["csrf_token"]} if has_tag else {}
            for entry in api.table.entries:
                name, permitted = entry.operation.name, may(user, entry.operation.right)
                assert (has_tag and name in login.json()["operations"]) is permitted, (name, user)
                if entry.spelling.method != "GET":
                    response = await client.request(**_request(entry))
                    made.append(Attempt("cookie alone", name, user, response.status_code, expected, response.text))
                if not permitted:
                    response = await client.request(**_request(entry), headers=mark)
                    made.append(Attempt(surface, name, user, response.status_code, expected, response.text))
    return made


def _request(entry: PathEntry) -> dict[str, object]:
    method = entry.spelling.method
    return {"method": method, "url": example_path(entry), "json": {} if method in ("PUT", "POST") else None}


def example_path(entry: PathEntry) -> str:
    """The path with some value for each parameter."""
    choices = {one.name: one.choices[0] for one in entry.operation.parameters if one.choices}
    given = {"queue": "orders", "name": "orders", **choices}
    return re.sub(r"{(\w+)}", lambda match: str(given.get(match[1], "any")).replace("/", "%2F"), entry.path)


# --- the matrix ------------------------------------------------------------------------------------------------------


async def attempts() -> tuple[list[Attempt], bool]:
    """All attempts on all surfaces, and whether one of them has changed something."""
    facts = place()
    before = state(facts)
    made = over_amqp(facts) + await over_http(facts)
    for with_token in (False, True):
        made += await with_a_cookie(facts, with_token=with_token)
    return made, state(facts) != before


def lines(made: Sequence[Attempt]) -> list[str]:
    """The matrix: a line for each operation, with the attempts that were refused on each surface."""
    tried = Counter((attempt.operation, attempt.surface) for attempt in made)
    wrong = Counter((attempt.operation, attempt.surface) for attempt in made if not attempt.refused)
    operations = sorted({attempt.operation for attempt in made})
    width = max(map(len, operations))

    def cell(operation: str, surface: str) -> str:
        count, allowed = tried[operation, surface], wrong[operation, surface]
        return f"{allowed} ALLOWED" if allowed else str(count) if count else "-"

    head = " ".join([f"{'operation':<{width}}", *(f"{surface:>17}" for surface in SURFACES)])
    rows = [" ".join([f"{one:<{width}}", *(f"{cell(one, surface):>17}" for surface in SURFACES)]) for one in operations]
    end = f"{len(made)} attempts of {len(USERS)} users without the right, {sum(wrong.values())} allowed wrongly"
    return [head, *rows, f"{len(operations)} operations x {len(SURFACES)} surfaces: {end}"]


# --- acts on queues and exchanges -------------------------------------------------------------------------------------

ACT_SURFACES = ("AMQP 1.0", "AMQP 0.9.1", "HTTP")


@dataclass(frozen=True, slots=True)
class ActAttempt:
    """An act of a user who lacks one of the rights that it needs."""

    surface: str
    act: str
    lacking: Need
    refused: bool
    """Whether it was refused, with the name of the right."""


@dataclass(frozen=True, slots=True)
class HttpAct:
    """A write over HTTP, and one right that it needs."""

    method: str
    path: str
    template: str
    what: AccessKind
    name: str

    async def refusal(self, *, lacking: bool) -> str | None:
        """Try it as a user with all rights, or all but this one; returns the reason of the refusal."""
        facts = place()
        facts.control.message_forms = PlainMessages(MessageConverter())
        patterns = dict.fromkeys(("configure", "write", "read"), ".*") | ({self.what: "^other$"} if lacking else {})
        facts.control.users.set_permission("management", Permission(**patterns))
        body = {"payload": "x"} if "/publish" in self.path else {"type": "direct"} if "/exchanges/" in self.path else {}
        async with client_of(facts.application()) as client:
            response = await client.request(
                self.method,
                self.path,
                headers=basic("management"),
                json=body if self.method in ("PUT", "POST") else None,
            )
        return str(response.json()["reason"]) if response.status_code == FORBIDDEN else None


_QUEUE, _EXCHANGE = "/api/queues/{vhost}/{name}", "/api/exchanges/{vhost}/{name}"
_BETWEEN = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"
_BOUND = "/api/bindings/%2F/e/amq.direct/q/orders"
HTTP_ACTS = [
    HttpAct("PUT", "/api/queues/%2F/new", _QUEUE, "configure", "new"),
    HttpAct("DELETE", "/api/queues/%2F/orders", _QUEUE, "configure", "orders"),
    HttpAct("DELETE", "/api/queues/%2F/orders/contents", f"{_QUEUE}/contents", "read", "orders"),
    HttpAct("POST", "/api/queues/%2F/orders/get", f"{_QUEUE}/get", "read", "orders"),
    HttpAct("POST", "/api/exchanges/%2F/amq.direct/publish", f"{_EXCHANGE}/publish", "write", "amq.direct"),
    HttpAct("PUT", "/api/exchanges/%2F/new", _EXCHANGE, "configure", "new"),
    HttpAct("DELETE", "/api/exchanges/%2F/new", _EXCHANGE, "configure", "new"),
    HttpAct("POST", _BOUND, _BETWEEN, "write", "orders"),
    HttpAct("POST", _BOUND, _BETWEEN, "read", "amq.direct"),
    HttpAct("DELETE", f"{_BOUND}/k", f"{_BETWEEN}/{{properties_key}}", "write", "orders"),
    HttpAct("DELETE", f"{_BOUND}/k", f"{_BETWEEN}/{{properties_key}}", "read", "amq.direct"),
]


def writes_to_names(facts: Facts) -> list[PathEntry]:
    """The writes over HTTP for which a tag is not enough: permissions decide."""
    entries = facts.api()[0].table.entries
    return [one for one in entries if one.operation.right is Right.MANAGE and one.spelling.method != "GET"]


async def acts_without_a_right() -> list[ActAttempt]:
    """Try each act once without each right that it needs."""
    made = []
    for name, (act, needs) in AUTH_ACTS.items():
        for need, trial in lacking_one(needs):
            told = act(link_acts.connected(acts_place(), trial.rights))
            made.append(ActAttempt("AMQP 1.0", name, need, told is not None and trial.told in told))
    for name, (method, needs) in acts091.ACTS.items():
        for need, trial in lacking_one(needs):
            told = method(acts091.connected(acts_place(), trial.rights))
            made.append(ActAttempt("AMQP 0.9.1", name, need, told is not None and trial.told in told))
    for write in HTTP_ACTS:
        told = await write.refusal(lacking=True)
        refused = told is not None and f"{write.what} access to " in told
        made.append(ActAttempt("HTTP", f"{write.method} {write.template}", (write.what, write.name), refused))
    return made


def lacking_one(needs: Collection[Need]) -> Iterator[tuple[Need, Trial]]:
    """For each right that is needed, a user who has all others."""
    yield from zip(needs, (trial for trial in trials(needs) if not trial.allowed), strict=True)


def act_lines(made: Sequence[ActAttempt]) -> list[str]:
    """The second matrix: a line for each act on its surface, with what happened without each right."""
    acts = list(dict.fromkeys((attempt.surface, attempt.act) for attempt in made))
    width = max(len(act) for _, act in acts)
    rows = []
    for surface, act in acts:
        told = [
            f"{one.lacking[0]} on {one.lacking[1]} {'refused' if one.refused else 'ALLOWED'}"
            for one in made
            if (one.surface, one.act) == (surface, act)
        ]
        rows.append(f"{surface:<10} {act:<{width}}  without {', '.join(told)}")
    wrong = sum(not attempt.refused for attempt in made)
    return [*rows, f"{len(acts)} acts: {len(made)} attempts without one right, {wrong} allowed wrongly"]


def main() -> int:
    """Print the matrices. Returns the exit code."""
    made, changed = trio.run(attempts)
    print(*lines(made), "", sep="\n")
    acts = trio.run(acts_without_a_right)
    print(*act_lines(acts), sep="\n")
    if changed:
        print("an attempt that was refused has changed something")
    return 1 if changed or not all(attempt.refused for attempt in (*made, *acts)) else 0


if __name__ == "__main__":
    sys.exit(main())
