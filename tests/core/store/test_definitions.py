"""The file of the definitions: what comes back, what is refused, and that a change happens wholly or not at all."""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.options.arguments import frozen
from core.errors import PreconditionFailed
from core.interface import ExchangeType, QueueDeclaration
from core.store.definitions import (
    CHANGE_WORK,
    CHECKED_EACH,
    COPY_FILE,
    Definitions,
    PolicyDeclaration,
    StoredQueue,
)
from core.store.definitions_found import Witness, choose_definitions
from core.store.errors import StoreDamaged, StoreRefused
from core.store.sealed_file import APPLICATION_ID, SCHEMA_VERSION, judged
from tests.kit.definitions_files import IDENTITY, POLICY, filled, opened_at, reopened
from tests.kit.engine import binding, exchange, queue


@pytest.fixture
def path(tmp_path):
    return tmp_path / "definitions.db"


@pytest.fixture
def database(path):
    with closing(opened_at(path, lock_wait_s=0)) as opened:
        yield opened


def test_a_new_file_is_empty(database):
    assert database.load() == Definitions(queues=[], exchanges=[], bindings=[], policies=[])
    assert database.hosts() == ["/"]
    assert (database.behind, database.deleted, database.last_number) == ([], [], 0)


def test_each_change_is_charged_to_the_turn_that_makes_it(database):
    spent = [database.work.spent]
    for change in (
        lambda: database.add_queue(queue("q"), IDENTITY),
        lambda: database.set_policy(POLICY),
        lambda: database.remove_policy("p"),
    ):
        change()
        spent.append(database.work.spent)
    assert [after - before for before, after in pairwise(spent)] == [CHANGE_WORK] * 3
    database.load()
    assert database.work.spent == spent[-1], "reading changes nothing"


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
    with closing(opened_at(path)) as upgraded:
        found = upgraded.load().queues
    assert found == [
        StoredQueue(3, queue("orders"), f"{1:032x}"),
        StoredQueue(5, queue("letters", auto_delete=True), f"{2:032x}"),
    ]
    with closing(opened_at(path)) as again:
        assert again.load().queues == found
        assert again.add_queue(queue("new"), IDENTITY) == 6


def test_a_number_is_never_given_twice(database, path):
    assert [database.add_queue(queue(name), IDENTITY) for name in "abc"] == [1, 2, 3]
    database.remove(queues=["c", "b"])
    database.close()
    with closing(opened_at(path)) as again:
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
    with closing(opened_at(path, host="other")) as other:
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
        closing(opened_at(Path(folder) / "definitions.db")) as database,
    ):
        database.add_queue(QueueDeclaration(name="q", arguments=arguments), IDENTITY)
        (kept,) = database.load().queues
    assert kept.declaration.arguments == arguments
    assert frozen(kept.declaration.arguments) == frozen(arguments)


# --- durability ----------------------------------------------------------------------------------------------


def test_a_change_is_in_the_files_when_it_returns(database, path, tmp_path):
    """A killed process leaves the files as they are at that moment; the test reads a copy of them."""
    filled(database)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in os.listdir(tmp_path):
        if name.startswith("definitions.db"):
            shutil.copy(tmp_path / name, copy / name)
    with closing(opened_at(copy / "definitions.db")) as recovered:
        assert recovered.load() == database.load()


def test_every_change_is_synced_and_no_other_file_is_needed(database, path):
    filled(database)
    for file in (path, path.with_name(COPY_FILE)):
        with closing(sqlite3.connect(file)) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert other.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
            assert other.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert database._one.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert sorted(os.listdir(path.parent)) == ["definitions.copy.db", "definitions.db"]


def test_a_file_that_another_process_locks(database, path):
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
    database._one.connection.execute(
        "CREATE TEMP TRIGGER stuck BEFORE DELETE ON exchanges BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    with pytest.raises(PreconditionFailed, match=r"the removal of queue 'q' and exchange 'e' cannot be kept in .*: no"):
        database.remove(queues=["q"], exchanges=["e"], bindings=before.bindings)
    assert database.load() == before


def test_changes_made_together_are_one_transaction(database, path):
    database.add_queue(queue("old"), IDENTITY)
    generation = database.generation
    told = []
    database.added = lambda added, at: told.append((added.declaration.name, added.id, at))
    with database.together():
        numbers = [database.add_queue(queue(name), IDENTITY) for name in ("a", "b")]
        database.remove(queues=["old"])
        database.remove(queues=["a"])
        assert [kept.declaration.name for kept in database.load().queues] == ["old"], "nothing is written yet"
    assert numbers == [2, 3]
    assert (database.generation, database.last_number) == (generation + 1, 3)
    assert told == [("a", 2, generation + 1), ("b", 3, generation + 1)]
    assert [(kept.id, kept.declaration.name) for kept in reopened(database, path).queues] == [(3, "b")]


def test_changes_made_together_are_all_refused_or_none(database, path):
    database.add_queue(queue("old"), IDENTITY)
    before = database.load(), database.generation
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(PreconditionFailed, match=r"these 2 changes cannot be kept in .*: database is locked"):
            _declare_and_delete(database)
        other.execute("ROLLBACK")
    assert (database.load(), database.generation) == before
    _declare_and_delete(database)
    assert [kept.declaration.name for kept in database.load().queues] == ["new"]


def _declare_and_delete(database):
    with database.together():
        database.add_queue(queue("new"), IDENTITY)
        database.remove(queues=["old"])


@pytest.mark.parametrize("what", ["vanished", "replaced"])
def test_row_0_15_definitions_are_not_written_where_no_start_finds_them(database, path, what):
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
    with pytest.raises((StoreRefused, StoreDamaged)) as refused:
        opened_at(path)
    assert str(path) in str(refused.value)
    assert ";" in str(refused.value)
    if before is not None:
        assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == names
    return str(refused.value)


def test_files_that_are_no_database(path):
    path.write_text("these are not the tables you are looking for" * 10)
    assert "is not a database" in refusal(path)


@pytest.mark.parametrize("pragma", ["", "PRAGMA application_id = 7", "PRAGMA user_version = 1"])
def test_the_database_of_another_program(path, pragma):
    with closing(sqlite3.connect(path)) as other:
        other.executescript(f"CREATE TABLE things (x); {pragma};")
    assert "is the database of another program" in refusal(path)


def test_a_newer_layout(database, path):
    filled(database)
    database.close()
    for file in (path, path.with_name(COPY_FILE)):
        with closing(sqlite3.connect(file)) as newer:
            newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 6}")
    text = refusal(path)
    assert "has layout 8, and this version of Headgate knows layouts up to 2" in text


def test_a_folder_in_its_place(path):
    path.mkdir()
    assert "cannot be read: Is a directory" in refusal(path)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StoreRefused, match="No such file or directory"):
        opened_at(tmp_path / "missing" / "definitions.db")


def test_a_start_that_was_cut_off_before_the_first_file_was_there(path):
    path.touch()
    with closing(opened_at(path)) as database:
        assert database.add_queue(queue("q"), IDENTITY) == 1


# --- two copies ---------------------------------------------------------------------------------------------


def changed_by_hand(file):
    """Change the database as a program would that knows nothing of seals."""
    with closing(sqlite3.connect(file)) as other:
        other.execute("UPDATE queues SET arguments = x'a0'")
        other.commit()


DAMAGE = {
    "deleted": Path.unlink,
    "emptied": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "zeroed in part": lambda file: file.write_bytes(file.read_bytes()[:8192] + bytes(4096) + file.read_bytes()[12288:]),
    "another": lambda file: file.write_bytes(bytes(4096)),
    "changed": changed_by_hand,
}


@pytest.mark.parametrize("name", ["definitions.db", COPY_FILE])
@pytest.mark.parametrize("damage", DAMAGE)
def test_one_file_may_be_lost(database, path, name, damage):
    filled(database)
    whole = database.load()
    database.close()
    file = path.with_name(name)
    DAMAGE[damage](file)
    chosen = choose_definitions(path.parent, witness=None)
    assert [rebuilt.path for rebuilt in chosen.anew] == [file]
    with closing(opened_at(path)) as again:
        assert again.load() == whole
        assert again.behind == []
        again.add_queue(queue("new"), IDENTITY)
        seals = [judged(kept).seal for kept in (path, path.with_name(COPY_FILE))]
    assert seals[0] is not None
    assert seals[0] == seals[1]


@pytest.mark.parametrize("damage", DAMAGE)
def test_both_files_lost_is_refused_and_nothing_is_changed(database, path, damage):
    filled(database)
    database.close()
    for file in (path, path.with_name(COPY_FILE)):
        DAMAGE[damage](file)
    if damage in ("deleted", "emptied"):
        refused = pytest.raises(StoreDamaged, match="cannot be proven, and streams/7 says that there were some")
    else:
        refused = pytest.raises(StoreDamaged, match=r"cannot be proven.* headgate store rebuild --data ")
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with refused:
        opened_at(path, witness=Witness(0, "streams/7"))
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_an_older_copy_of_one_file_is_passed_over_and_of_both_refused(database, path):
    filled(database)
    copy = path.with_name(COPY_FILE)
    older = path.read_bytes(), copy.read_bytes()
    database.remove(queues=["q"])
    whole, generation = database.load(), database.generation
    database.close()
    path.write_bytes(older[0])
    with closing(opened_at(path, witness=Witness(generation, "somebody"))) as again:
        assert again.load() == whole
    path.write_bytes(older[0])
    copy.write_bytes(older[1])
    expected = rf"has generation {generation - 1}, and somebody says {generation}; put back a copy of both files"
    with pytest.raises(StoreDamaged, match=expected):
        opened_at(path, witness=Witness(generation, "somebody"))


@settings(max_examples=20)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), both=st.booleans())
def test_a_bit_that_flips_changes_nothing_that_is_read(place, bit, both):
    """The same bit flips in one file or in both. The definitions are read as they were kept, or the start is
    refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "definitions.db"
        with closing(opened_at(path)) as database:
            filled(database)
            whole = database.load()
        for file in (path, path.with_name(COPY_FILE))[: 1 + both]:
            image = bytearray(file.read_bytes())
            image[int(place * len(image))] ^= 1 << bit
            file.write_bytes(image)
        try:
            with closing(opened_at(path)) as again:
                assert again.load() == whole
        except (StoreDamaged, StoreRefused):
            assert both


CHANGES = st.sampled_from(["queue", "remove", "exchange", "binding", "policy", "user", "forget"])


@settings(max_examples=15)
@given(changes=st.lists(st.tuples(CHANGES, st.integers(0, 3)), max_size=5), cut=st.data())
def test_a_crash_at_any_point_of_a_change_leaves_one_of_two_states(changes, cut):
    """The files as a crash leaves them: each page of the change is written or not, and the second file is not touched
    before the first one is whole."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "definitions.db"
        copy = path.with_name(COPY_FILE)
        with closing(opened_at(path)) as database:
            filled(database)
            for kind, number in changes:
                before = path.read_bytes(), database.load(), copy.read_bytes()
                changed(database, kind, number)
                after = path.read_bytes(), database.load(), copy.read_bytes()
                seal = judged(path).seal
                assert seal is not None
                assert seal == judged(copy).seal
        if not changes:
            return
        first_is_whole = cut.draw(st.booleans())
        torn = torn_between(before[2 if first_is_whole else 0], after[2 if first_is_whole else 0], cut)
        path.write_bytes(after[0] if first_is_whole else torn)
        copy.write_bytes(torn if first_is_whole else before[2])
        with closing(opened_at(path)) as again:
            assert again.load() in ([after[1]] if first_is_whole else [before[1], after[1]])


def changed(database, kind, number):
    name = f"{kind}{number}"
    match kind:
        case "queue":
            with suppress(PreconditionFailed):
                database.add_queue(queue(name, x_max_length=number), IDENTITY)
        case "remove":
            database.remove(queues=[f"queue{number}"], exchanges=["exchange0"], bindings=[binding("e", "q", "b0")])
        case "exchange":
            with suppress(PreconditionFailed):
                database.add_exchange(exchange(name))
        case "binding":
            database.add_binding(binding("e", "q", f"b{number}"))
        case "policy":
            database.set_policy(PolicyDeclaration(name=f"p{number % 2}", pattern=name, definition={"max-length": 1}))
        case "user":
            database.set_user("guest", name)
        case "forget":
            database.forget_deleted(database.deleted[:number])


def torn_between(before, after, cut):
    """Some pages of the old content, some of the new."""
    size = max(len(before), len(after))
    pages = range(0, size, 4096)
    written = cut.draw(st.lists(st.booleans(), min_size=len(pages), max_size=len(pages)))
    return b"".join((after if new else before)[at : at + 4096] for at, new in zip(pages, written, strict=True))


def test_what_only_one_file_took_is_brought_to_the_other_first(database, path):
    told = []
    database.fell_behind = lambda file, why: told.append((file.name, why))
    copy = path.with_name(COPY_FILE)
    with closing(sqlite3.connect(copy, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert database.add_queue(queue("q"), IDENTITY) == 1
        assert told == [(COPY_FILE, "database is locked")]
        assert database.behind == [copy]
    assert judged(copy).seal != judged(path).seal
    assert database.add_queue(queue("r"), IDENTITY) == 2
    assert database.behind == []
    assert judged(copy).seal == judged(path).seal


def test_removed_queues_are_known_until_nothing_is_left_of_them(database, path):
    filled(database)
    database.remove(queues=["auto", "q"])
    assert database.deleted == [1, 2]
    database.forget_deleted([1])
    database.close()
    with closing(opened_at(path)) as again:
        assert again.deleted == [2]
        again.was_set_aside(9, left=False)
        again.was_set_aside(1, left=False)
        assert again.deleted == [2]
        again.was_set_aside(1, left=True)
        assert again.deleted == [1, 2]
        assert again.add_queue(queue("q"), IDENTITY) == 10


def test_removed_queues_that_are_gone_are_forgotten_by_and_by(database):
    database.is_gone = lambda number: number % 2 == 1
    statements = [("INSERT INTO deleted VALUES (?)", (number,)) for number in range(1, 21)]
    database._change_all("many removals", statements, numbers=20)
    database.remove(queues=["never"])
    assert database.deleted == [number for number in range(1, 21) if number > CHECKED_EACH or number % 2 == 0]
    for _ in range(20 // CHECKED_EACH - 1):
        database.remove(queues=["never"])
    assert database.deleted == list(range(2, 21, 2))
    database.is_gone = lambda number: True
    for _ in range(20 // CHECKED_EACH):
        database.remove(queues=["never"])
    assert database.deleted == [], "they are checked in turn, again and again"


def test_an_older_file_that_is_damaged_is_refused(path):
    with closing(sqlite3.connect(path)) as older:
        older.executescript(
            f"CREATE TABLE queues (id); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;"
        )
    assert "cannot be used: no such table" in refusal(path)
