"""Users as a part of definitions: RabbitMQ's lists ``users``, ``permissions`` and ``topic_permissions``.

An import makes and changes users; it deletes none. What the document does not say of a user that exists stays. Left
out are entries of virtual hosts that there are not, users that stand in the configuration file, which decides, and
RabbitMQ's default user guest: an import must not take the password from the default user of this broker.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from core.access.records import RABBIT_SHA256, UserRecord, parse_secret, shown_secret
from core.access.rights import VIRTUAL_HOST, Permission, TopicPermission
from core.access.users import GUEST, Users
from core.declaring import once_gone
from core.errors import EngineError, Invalid
from core.slices import Walk

USERS, PERMISSIONS, TOPIC_PERMISSIONS = "users", "permissions", "topic_permissions"
LISTS = (USERS, PERMISSIONS, TOPIC_PERMISSIONS)
"""The lists of a document that are about users."""

Entry = Mapping[str, object]


def shown_users(records: Iterable[UserRecord]) -> dict[str, list[dict[str, object]]]:
    """Return the lists of a document, with the hashes of passwords."""
    found: dict[str, list[dict[str, object]]] = {name: [] for name in LISTS}
    for record in records:
        text, algorithm = shown_secret(record.secret)
        found[USERS].append(
            {
                "name": record.name,
                "password_hash": text,
                "hashing_algorithm": algorithm,
                "tags": list(record.tags),
                "limits": dict(record.limits),
            }
        )
        for host, one in record.permissions.items():
            patterns = {"configure": one.configure, "write": one.write, "read": one.read}
            found[PERMISSIONS].append({"user": record.name, "vhost": host, **patterns})
        for host, topics in record.topics.items():
            for exchange, topic in sorted(topics.items()):
                place = {"user": record.name, "vhost": host, "exchange": exchange}
                found[TOPIC_PERMISSIONS].append({**place, "write": topic.write, "read": topic.read})
    return found


def users_of(
    document: Mapping[str, object], users: Users, hosts: Collection[str] | None = None
) -> Walk[list[UserRecord]]:
    """Return the records that an import is to set. Raises Invalid, which names the place in the document. ``hosts`` are
    the virtual hosts whose permissions are taken; without it those that there are."""
    known = list(users.virtual_hosts()) if hosts is None else hosts
    records: dict[str, UserRecord] = {}
    for place, entry in _entries(document, USERS, known):
        yield None
        record = _of_entry(place, entry, users)
        if not _left_out(record.name, users):
            records[record.name] = record
    for place, entry in _entries(document, PERMISSIONS, known):
        yield None
        found = _record_of(place, entry, records, users)
        if found is not None:
            permission = Permission(**{what: _text(place, entry, what) for what in ("configure", "write", "read")})
            records[found.name] = found.with_permission(_host(entry), permission)
    for place, entry in _entries(document, TOPIC_PERMISSIONS, known):
        yield None
        found = _record_of(place, entry, records, users)
        if found is not None:
            topic = TopicPermission(write=_text(place, entry, "write"), read=_text(place, entry, "read"))
            topics = {**found.topics.get(_host(entry), {}), _text(place, entry, "exchange"): topic}
            records[found.name] = found.with_topics(_host(entry), topics)
    for record in records.values():
        yield None
        try:
            record.check()
        except EngineError as error:
            raise Invalid(f"user '{record.name}': {error}") from None
    return list(records.values())


def set_users(records: Iterable[UserRecord], users: Users) -> Walk[None]:
    """Make and change these users. Raises PreconditionFailed, LimitReached; an import that is repeated completes it."""
    for record in records:
        if not users.is_own(record.name) or users.record(record.name) != record:
            yield from once_gone(partial(users.set, record))
        yield None


def _left_out(name: str, users: Users) -> bool:
    return users.in_file(name) or (name == GUEST and not users.is_own(name))


def _host(entry: Entry) -> str:
    return str(entry.get("vhost", VIRTUAL_HOST))


def _entries(document: Mapping[str, object], name: str, hosts: Collection[str]) -> Iterator[tuple[str, Entry]]:
    entries = document.get(name, [])
    if not isinstance(entries, list):
        raise Invalid(f"{name}: it must be an array")
    for index, entry in enumerate(entries):
        place = f"{name}[{index}]"
        if not isinstance(entry, dict):
            raise Invalid(f"{place}: it must be an object")
        if _host(entry) in hosts:
            yield place, entry


def _of_entry(place: str, entry: Entry, users: Users) -> UserRecord:
    name, given = _text(place, entry, "name"), entry.get("tags", [])
    tags = given.split(",") if isinstance(given, str) else given
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Invalid(f"{place}.tags: it must be an array of texts, or a text with commas")
    record = users.record(name) if users.is_own(name) else UserRecord(name=name)
    text, algorithm = entry.get("password_hash", ""), entry.get("hashing_algorithm", RABBIT_SHA256)
    if not isinstance(text, str) or not isinstance(algorithm, str):
        raise Invalid(f"{place}: password_hash and hashing_algorithm must be texts")
    try:
        secret = parse_secret(text, algorithm)
    except Invalid as error:
        raise Invalid(f"{place}: {error}") from None
    limits = entry.get("limits", {})
    if not isinstance(limits, dict) or not all(isinstance(most, int) for most in limits.values()):
        raise Invalid(f"{place}.limits: it must be an object of numbers")
    if "limits" in entry:
        record = replace(record, limits={name: most for name, most in limits.items() if most >= 0})
    return replace(record, secret=secret, tags=tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip())))


def _record_of(place: str, entry: Entry, records: Mapping[str, UserRecord], users: Users) -> UserRecord | None:
    """The record that a permission belongs to; None for a user in the file."""
    name = _text(place, entry, "user")
    if _left_out(name, users):
        return None
    record = records.get(name)
    if record is None and users.is_own(name):
        record = users.record(name)
    if record is None:
        raise Invalid(f"{place}.user: there is no user '{name}' in the document or the broker")
    return record


def _text(place: str, entry: Entry, key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise Invalid(f"{place}.{key}: it must be a text")
    return value
