"""The file of the definitions: what comes back, what is refused, and that a change happens wholly or not at all."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.arguments import frozen
from core.engine.topology import numbered_identities
from core.errors import PreconditionFailed
from core.interface import ExchangeType, QueueDeclaration
from core.store.definitions import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    Definitions,
    DefinitionsDatabase,
    PolicyDeclaration,
    StoredQueue,
    check_definitions,
)
from core.store.errors import StoreRefused
from tests.kit.engine import binding, exchange, queue

IDENTITY = "0123456789abcdef" * 2

POLICY = PolicyDeclaration(
    name="p", pattern="^q", priority=-3, apply_to="queues", definition={"ha-mode": "nodes", "ha-params": ["a", "b"]}
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "definitions.db"


@pytest.fixture
def database(path):
    with closing(DefinitionsDatabase(path, lock_wait_s=0, new_identity=numbered_identities())) as opened:
        yield opened


def reopened(database, path):
    database.close()
    with closing(DefinitionsDatabase(path, new_identity=numbered_identities())) as again:
        return again.load()


def filled(database):
    database.add_queue(queue("q", x_max_length=5, own={"deep": [1, 2.5, None, "ü"]}, flag=True), IDENTITY)
    database.add_queue(queue("auto", auto_delete=True), IDENTITY)
    database.add_exchange(exchange("e", kind=ExchangeType.TOPIC, internal=True))
    database.add_binding(binding("e", "q", "a.#", x_match="any"))
    database.add_binding(binding("amq.topic", "e", to_exchange=True))
    database.set_policy(POLICY)


def test_a_new_file_is_empty(database):
    assert database.load() == Definitions(queues=[], exchanges=[], bindings=[], policies=[])
    assert database.hosts() == ["/"]
    assert database.problems() == []


def test_everything_comes_back_as_it_was(database, path):
    filled(database)
    stored = reopened(database, path)
    assert [(kept.id, kept.declaration) for kept in stored.queues] == [
        (1, queue("q", x_max_length=5, own={"deep": [1, 2.5, None, "ü"]}, flag=True)),
        (2, queue("auto", auto_delete=True)),
    ]
    assert stored.queues[0].declaration.arguments["flag"] is True
    assert stored.exchanges == [exchange("e", kind=ExchangeType.TOPIC, internal=True)]
    assert stored.bindings == [binding("e", "q", "a.#", x_match="any"), binding("amq.topic", "e", to_exchange=True)]
    assert stored.policies == [POLICY]


def test_queues_of_the_first_layout_get_identities_once(path):
    with closing(sqlite3.connect(path)) as older:
        older.executescript(
            """
            CREATE TABLE vhosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
            CREATE TABLE queues (
                id INTEGER PRIMARY KEY AUTOINCREMENT, vhost INTEGER NOT NULL REFERENCES vhosts, name TEXT NOT NULL,
                auto_delete INTEGER NOT NULL, arguments BLOB NOT NULL, UNIQUE (vhost, name));
            CREATE TABLE users (name TEXT PRIMARY KEY, keys TEXT NOT NULL);
            CREATE TABLE exchanges (
                vhost INTEGER NOT NULL REFERENCES vhosts, name TEXT NOT NULL, type TEXT NOT NULL,
                auto_delete INTEGER NOT NULL, internal INTEGER NOT NULL, arguments BLOB NOT NULL,
                PRIMARY KEY (vhost, name));
            CREATE TABLE bindings (
                id INTEGER PRIMARY KEY, vhost INTEGER NOT NULL REFERENCES vhosts, source TEXT NOT NULL,
                destination TEXT NOT NULL, to_queue INTEGER NOT NULL, binding_key TEXT NOT NULL,
                arguments BLOB NOT NULL, UNIQUE (vhost, source, destination, to_queue, binding_key, arguments));
            CREATE TABLE policies (
                vhost INTEGER NOT NULL REFERENCES vhosts, name TEXT NOT NULL, pattern TEXT NOT NULL,
                priority INTEGER NOT NULL, apply_to TEXT NOT NULL, definition BLOB NOT NULL,
                PRIMARY KEY (vhost, name));
            INSERT INTO vhosts VALUES (1, '/');
            INSERT INTO queues VALUES (3, 1, 'orders', 0, x'a0'), (5, 1, 'letters', 1, x'a0');
            """
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;"
        )
    with closing(DefinitionsDatabase(path, new_identity=numbered_identities())) as upgraded:
        found = upgraded.load().queues
        assert upgraded.upgraded_from == 1
    assert found == [
        StoredQueue(3, queue("orders"), f"{1:032x}"),
        StoredQueue(5, queue("letters", auto_delete=True), f"{2:032x}"),
    ]
    with closing(DefinitionsDatabase(path, new_identity=lambda: IDENTITY)) as again:
        assert again.load().queues == found
        assert again.upgraded_from is None


def test_a_number_is_never_given_twice(database, path):
    assert [database.add_queue(queue(name), IDENTITY) for name in "abc"] == [1, 2, 3]
    database.remove(queues=["c", "b"])
    database.close()
    with closing(DefinitionsDatabase(path, new_identity=numbered_identities())) as again:
        assert again.add_queue(queue("d"), IDENTITY) == 4
        again.remove(queues=["a", "d"])
        assert again.add_queue(queue("a"), IDENTITY) == 5


def test_what_is_removed_together(database):
    filled(database)
    database.remove(queues=["q", "never"], exchanges=["e"], bindings=[binding("e", "q", "a.#", x_match="any")])
    stored = database.load()
    assert [kept.declaration.name for kept in stored.queues] == ["auto"]
    assert stored.exchanges == []
    assert stored.bindings == [binding("amq.topic", "e", to_exchange=True)]


def test_a_binding_is_kept_once_and_told_from_those_like_it(database):
    ones = [binding("e", "q", "k"), binding("e", "q", "k", a=1), binding("e", "q", "k", a=True), binding("e", "q", "l")]
    for made in (*ones, *ones):
        database.add_binding(made)
    assert database.load().bindings == ones
    database.remove(bindings=[ones[1]])
    assert [made.arguments for made in database.load().bindings] == [{}, {"a": True}, {}]


def test_a_policy_takes_the_place_of_the_one_of_its_name(database):
    database.set_policy(POLICY)
    other = PolicyDeclaration(name="p", pattern="", definition={"max-length": 1})
    database.set_policy(other)
    assert database.load().policies == [other]
    for _ in range(2):
        database.remove_policy("p")
    assert database.load().policies == []


def test_users(database):
    database.set_user("guest", "first")
    database.set_user("guest", "second")
    database.set_user("other", "keys")
    assert database.users() == {"guest": "second", "other": "keys"}
    for _ in range(2):
        database.remove_user("other")
    assert database.users() == {"guest": "second"}


def test_virtual_hosts_are_apart(database, path):
    filled(database)
    with closing(DefinitionsDatabase(path, host="other", new_identity=numbered_identities())) as other:
        assert other.load() == Definitions(queues=[], exchanges=[], bindings=[], policies=[])
        assert other.add_queue(queue("q"), IDENTITY) == 3
        other.remove(queues=["q"], exchanges=["e"])
        assert other.hosts() == ["/", "other"]
    assert len(database.load().queues) == 2


@settings(max_examples=30)
@given(
    arguments=st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**63), 2**64 - 1)
            | st.text(max_size=5)
            | st.floats(allow_nan=False),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_arguments_come_back_with_their_types(arguments):
    with (
        TemporaryDirectory() as folder,
        closing(DefinitionsDatabase(Path(folder) / "definitions.db", new_identity=numbered_identities())) as database,
    ):
        database.add_queue(QueueDeclaration(name="q", arguments=arguments), IDENTITY)
        (kept,) = database.load().queues
    assert kept.declaration.arguments == arguments
    assert frozen(kept.declaration.arguments) == frozen(arguments)


# --- durability ----------------------------------------------------------------------------------------------


def test_a_change_is_in_the_files_when_it_returns(database, path, tmp_path):
    """What a killed process leaves behind: a copy of the files at that moment."""
    filled(database)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in os.listdir(tmp_path):
        if name.startswith("definitions.db"):
            shutil.copy(tmp_path / name, copy / name)
    with closing(DefinitionsDatabase(copy / "definitions.db", new_identity=numbered_identities())) as recovered:
        assert recovered.load() == database.load()


def test_every_change_is_synced(database, path):
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert other.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert other.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert database._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_file_that_somebody_else_locks(database, path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for change in (lambda: database.add_queue(queue("q"), IDENTITY), lambda: database.remove(queues=["q"])):
            with pytest.raises(PreconditionFailed, match=r"'q' cannot be kept in .*: database is locked; nothing was"):
                change()
        other.execute("ROLLBACK")
    assert database.add_queue(queue("q"), IDENTITY) == 1


def test_a_removal_that_fails_half_way_removes_nothing(database, path):
    filled(database)
    before = database.load()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TRIGGER stuck BEFORE DELETE ON exchanges BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(PreconditionFailed, match=r"the removal of queue 'q' and exchange 'e' cannot be kept in .*: no"):
        database.remove(queues=["q"], exchanges=["e"], bindings=before.bindings)
    assert database.load() == before


@pytest.mark.parametrize("what", ["vanished", "replaced"])
def test_row_0_15_definitions_are_not_written_where_nobody_finds_them_again(database, path, what):
    filled(database)
    before = database.load()
    path.unlink()
    if what == "replaced":
        path.touch()
    for change in (
        lambda: database.add_queue(queue("new"), IDENTITY),
        lambda: database.add_binding(binding("e", "q")),
        lambda: database.remove(queues=["q"]),
        lambda: database.remove_policy("p"),
    ):
        with pytest.raises(PreconditionFailed, match=r"cannot be kept in .*definitions\.db: .*; nothing was changed"):
            change()
    assert database.load() == before


# --- what is refused -----------------------------------------------------------------------------------------


def refusal(path):
    before = path.read_bytes() if path.is_file() else None
    names = sorted(os.listdir(path.parent))
    with pytest.raises(StoreRefused) as refused:
        DefinitionsDatabase(path, new_identity=numbered_identities())
    assert str(path) in str(refused.value)
    assert ";" in str(refused.value)
    if before is not None:
        assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == names
    return str(refused.value)


def test_a_file_that_is_no_database(path):
    path.write_text("these are not the tables you are looking for" * 10)
    assert "is not a database" in refusal(path)


def test_a_file_that_is_cut_short(path):
    path.write_bytes(b"SQLite format 3\0")
    assert "is not a database" in refusal(path)


@pytest.mark.parametrize("pragma", ["", "PRAGMA application_id = 7", "PRAGMA user_version = 1"])
def test_the_database_of_another_program(path, pragma):
    with closing(sqlite3.connect(path)) as other:
        other.executescript(f"CREATE TABLE things (x); {pragma};")
    assert "is the database of another program" in refusal(path)


def test_a_newer_layout(database, path):
    filled(database)
    database.close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 6}")
    text = refusal(path)
    assert "has layout 8, and this version of Headgate knows layouts up to 2" in text
    with pytest.raises(StoreRefused, match="layout 8"):
        check_definitions(path)


def test_a_folder_in_its_place(path):
    path.mkdir()
    assert "cannot be read: Is a directory" in refusal(path)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StoreRefused, match="unable to open database file"):
        DefinitionsDatabase(tmp_path / "missing" / "definitions.db", new_identity=numbered_identities())


def test_a_new_file_that_is_locked(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreRefused, match="is in use by another program; end that one first"):
            DefinitionsDatabase(path, lock_wait_s=0, new_identity=numbered_identities())


def test_a_start_that_was_cut_off_before_the_first_transaction(path):
    path.touch()
    with closing(DefinitionsDatabase(path, new_identity=numbered_identities())) as database:
        assert database.add_queue(queue("q"), IDENTITY) == 1


def test_damage_inside_is_refused_with_the_file_named(database, path):
    filled(database)
    database.close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE queues SET arguments = x'ff'")
        other.commit()
    with (
        closing(DefinitionsDatabase(path, new_identity=numbered_identities())) as damaged,
        pytest.raises(StoreRefused, match=r"definitions\.db cannot be"),
    ):
        damaged.load()


def test_pages_that_are_overwritten_are_found(database, path):
    for number in range(200):
        database.add_queue(queue(f"queue {number}", own="x" * 100), IDENTITY)
    database.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-4096] + b"\xa5" * 4096)
    with closing(DefinitionsDatabase(path, new_identity=numbered_identities())) as damaged:
        assert damaged.problems()
