"""Users of the broker: made, changed, kept, deleted; their passwords, and the users beside them."""

import base64
import hashlib
from collections.abc import Mapping

import pytest

from core.access.login import NewPassword
from core.access.mechanisms import PlainMechanism, offered, offered_anonymous
from core.access.records import RABBIT_SHA256, RabbitHash, UserRecord
from core.access.rights import FULL, Permission, TopicPermission
from core.access.user_definitions import set_users, shown_users, users_of
from core.access.users import Users
from core.config.access import ITERATIONS_MIN, ScramKeys
from core.errors import Invalid, NotFound, PreconditionFailed
from core.interface import Mailbox, RightsChanged
from core.slices import run_at_once
from tests.kit.logins import counting_bytes, from_here, make_access, user

SALT = bytes.fromhex("908dc60a")
RABBIT = base64.b64encode(SALT + hashlib.sha256(SALT + b"test12").digest()).decode()
"""The example of RabbitMQ's documentation of its hashes."""


class KeptUsers:
    """Keeps users in memory, as the definitions do on disk."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.is_full = False

    def users(self) -> Mapping[str, str]:
        return dict(self.texts)

    def set_user(self, name: str, keys: str) -> None:
        if self.is_full:
            raise PreconditionFailed("the disk is full")
        self.texts[name] = keys

    def remove_user(self, name: str) -> None:
        del self.texts[name]


def users_with(store: KeptUsers | None = None, *in_file) -> Users:
    return Users(in_file, cache_seconds=300.0, monotonic=lambda: 0.0, random_bytes=counting_bytes(), store=store)


def login(access, name: str, password: str, **where) -> str:
    return PlainMechanism(access, from_here(**where)).start().respond(f"\0{name}\0{password}".encode())[0]


def rabbit_user(name: str = "shop", **fields) -> UserRecord:
    return UserRecord(name=name, secret=RabbitHash.parse(RABBIT, RABBIT_SHA256), **fields)


def test_a_user_is_kept_as_it_was_set():
    store = KeptUsers()
    record = UserRecord(
        name="alice",
        secret=RabbitHash.parse(RABBIT, RABBIT_SHA256),
        tags=("monitoring", "own"),
        permissions={"/": Permission(configure="a", write="b", read="c")},
        topics={"/": {"news": TopicPermission(write="d", read="e")}},
    )
    assert users_with(store).set(record) is True
    assert users_with(store).record("alice") == record
    assert "test12" not in store.texts["alice"]


def test_what_cannot_be_kept_is_not_in_force():
    store = KeptUsers()
    users = users_with(store)
    store.is_full = True
    with pytest.raises(PreconditionFailed):
        users.set(UserRecord(name="alice"))
    with pytest.raises(NotFound):
        users.record("alice")


def test_a_kept_text_that_cannot_be_read_is_told_and_admits_no_client():
    store = KeptUsers()
    store.texts = {"alice": "{}", "bob": "no JSON"}
    users = users_with(store)
    assert len(users.unusable) == 2
    assert users.names == ["guest"]
    assert users.rights_of("alice").welcome is False


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (UserRecord(name=""), "a user's name must have"),
        (UserRecord(name="a\nb"), "a user's name must have"),
        (UserRecord(name="x" * 256), "a user's name must have"),
        (UserRecord(name="a", permissions={"/": Permission(read="(?=x)")}), "read is not a pattern .*lookahead"),
        (UserRecord(name="a", permissions={"other": Permission(write="(?=x)")}), "write is not a pattern .*lookahead"),
        (UserRecord(name="a", topics={"/": {"x": TopicPermission(write="(")}}), "write is not a pattern"),
    ],
)
def test_what_cannot_be_a_user_is_refused(record, text):
    with pytest.raises(Invalid, match=text):
        users_with().set(record)


def test_guest_is_there_until_there_is_an_administrator():
    access = make_access()
    users = access.users
    users.set(UserRecord(name="alice"))
    assert login(access, "guest", "guest") == "success"
    assert [one.name for one in offered_anonymous(access, from_here())] == ["ANONYMOUS"]
    users.set(UserRecord(name="root", tags=("administrator",)))
    assert login(access, "guest", "guest") == "success", "root cannot log in"
    users.set(rabbit_user("root", tags=("administrator",)))
    assert login(access, "guest", "guest") == "failure"
    assert offered_anonymous(access, from_here()) == ()
    users.delete("root")
    assert login(access, "guest", "guest") == "success"
    assert login(access, "guest", "guest", loopback=False) == "failure"


def test_a_user_named_guest_logs_in_from_this_machine_only():
    access = make_access()
    access.users.set(UserRecord(name="guest", secret=run_at_once(NewPassword(access, "other").hashing())))
    assert login(access, "guest", "other") == "success"
    assert login(access, "guest", "other", loopback=False) == "failure"


def test_users_in_the_file_have_all_rights_and_are_not_changed():
    users = users_with(None, user("alice", "secret"))
    assert users.rights_of("alice").may("configure", "anything") is True
    for change in (
        lambda: users.set(UserRecord(name="alice")),
        lambda: users.delete("alice"),
        lambda: users.set_permission("alice", Permission()),
    ):
        with pytest.raises(PreconditionFailed, match="stands in the configuration file"):
            change()


def test_a_name_in_the_file_hides_the_user_of_the_broker():
    users = users_with()
    users.set(rabbit_user("alice"))
    assert users.rights_of("alice").welcome is False
    users.replace([user("alice", "secret")])
    assert users.rights_of("alice").may("read", "q") is True
    users.replace([])
    assert users.rights_of("alice").welcome is False


def test_changes_reach_the_rights_that_are_held():
    users, mailbox = users_with(), Mailbox(lambda: None)
    users.set(UserRecord(name="alice"))
    rights = users.rights_of("alice")
    rights.mailboxes[mailbox] = None
    assert users.set_permission("alice", Permission(read=".*")) is True
    assert rights.may("read", "q") is True
    assert users.set_permission("alice", Permission(read="^r")) is False
    assert rights.may("read", "q") is False
    assert users.set_topic_permission("alice", "news", TopicPermission(write="x")) is True
    assert rights.restricts_topics("news")
    users.set_topic_permission("alice", None, None)
    assert not rights.restricts_topics("news")
    users.delete("alice")
    assert rights.welcome is False
    assert len(mailbox.take()) == 5
    assert all(isinstance(action, RightsChanged) for action in mailbox.take())


def test_a_hash_of_rabbitmq_lets_in_and_is_replaced():
    access = make_access()
    access.users.set(rabbit_user(permissions={"/": FULL}))
    assert [one.name for one in offered(access, from_here())] == ["PLAIN", "ANONYMOUS"], "SCRAM is impossible for it"
    assert login(access, "shop", "test13") == "failure"
    assert login(access, "shop", "test12") == "success"
    record = access.users.record("shop")
    assert isinstance(record.secret, ScramKeys)
    assert record.permissions == {"/": FULL}
    assert offered(access, from_here())[0].name == "SCRAM-SHA-256"
    assert login(access, "shop", "test12") == "success"


@pytest.mark.parametrize(
    ("text", "algorithm", "refused"),
    [
        ("!", RABBIT_SHA256, "must be in base64"),
        ("AAAA", RABBIT_SHA256, "must have 36 bytes, not 3"),
        (RABBIT, "rabbit_password_hashing_md5", "hashing_algorithm 'rabbit_password_hashing_md5' is not known"),
    ],
)
def test_hashes_that_cannot_be_used(text, algorithm, refused):
    with pytest.raises(Invalid, match=refused) as error:
        RabbitHash.parse(text, algorithm)
    assert RABBIT not in str(error.value)


def test_a_new_password_forgets_the_remembered_one():
    access = make_access()
    access.users.set(UserRecord(name="alice", secret=run_at_once(NewPassword(access, "one").hashing())))
    assert login(access, "alice", "one") == "success"
    access.users.set(UserRecord(name="alice", secret=run_at_once(NewPassword(access, "two").hashing())))
    assert login(access, "alice", "one") == "failure"
    assert login(access, "alice", "two") == "success"
    access.users.set(UserRecord(name="alice"))
    assert login(access, "alice", "two") == "failure"


def test_a_name_with_a_hash_of_rabbitmq_costs_the_work_of_any_other():
    users = users_with(None, user("file", "secret"))
    users.set(rabbit_user())
    known, unknown = users.keys("shop", loopback=True), users.keys("nobody", loopback=True)
    assert known.iterations == unknown.iterations == ITERATIONS_MIN
    assert (len(known.salt), len(known.stored_key)) == (len(unknown.salt), len(unknown.stored_key))
    assert users.credentials("nobody", loopback=True).rabbit is None


def test_keys_of_sha512_are_made_and_travel_with_definitions():
    access, other = make_access(password_hash="sha512"), users_with()
    access.users.set(UserRecord(name="alice", secret=run_at_once(NewPassword(access, "one").hashing())))
    assert login(access, "alice", "one") == "success"
    lists = shown_users(access.users.records())
    assert lists["users"][0]["hashing_algorithm"] == "headgate_scram_sha512"
    run_at_once(set_users(run_at_once(users_of(lists, other)), other))
    assert other.records() == access.users.records()
    lists["users"][0]["hashing_algorithm"] = "headgate_scram_sha256"
    with pytest.raises(Invalid, match=r"users\[0\]: password_hash is of hashing_algorithm 'headgate_scram_sha512'"):
        run_at_once(users_of(lists, other))


def test_definitions_bring_users_over():
    one, other = users_with(), users_with(None, user("filed", "secret"))
    one.set(rabbit_user(tags=("management",), permissions={"/": Permission(read="^shop$")}))
    one.set_topic_permission("shop", "news", TopicPermission(write="^a", read=""))
    lists = shown_users(one.records())
    lists["users"] += [{"name": "guest", "password_hash": RABBIT, "tags": "administrator"}, {"name": "filed"}]
    lists["permissions"] += [
        {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
        {"user": "filed", "vhost": "/", "configure": "", "write": "", "read": ""},
        {"user": "whoever", "vhost": "elsewhere"},
    ]
    for _ in range(2):  # the second import finds nothing to do
        run_at_once(set_users(run_at_once(users_of(lists, other)), other))
        assert other.records() == one.records()


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"users": {}}, "users: it must be an array"),
        ({"users": [1]}, r"users\[0\]: it must be an object"),
        ({"users": [{}]}, r"users\[0\].name: it must be a text"),
        ({"users": [{"name": "a", "tags": 5}]}, r"users\[0\].tags: it must be"),
        ({"users": [{"name": "a", "password_hash": "x"}]}, r"users\[0\]: password_hash must"),
        ({"permissions": [{"user": "a"}]}, r"permissions\[0\].user: there is no user 'a'"),
        ({"users": [{"name": "a"}], "permissions": [{"user": "a", "write": "", "read": ""}]}, "configure: it must be"),
        (
            {"users": [{"name": "a"}], "permissions": [{"user": "a", "configure": "(", "write": "", "read": ""}]},
            "user 'a': configure is not a pattern",
        ),
    ],
)
def test_definitions_that_cannot_be_used_change_nothing(document, text):
    users = users_with()
    with pytest.raises(Invalid, match=text):
        run_at_once(users_of(document, users))
    assert users.records() == []
