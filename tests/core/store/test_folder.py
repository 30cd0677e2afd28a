"""The data folder: which one is used, what is made in it, and that a refused folder stays as it was, to the byte."""

import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from core.engine.routing.topology import numbered_identities
from core.message import Origin
from core.store.definitions import COPY_FILE, DEFINITIONS_FILE, open_definitions
from core.store.errors import StoreRefused
from core.store.folder import FOLDERS, FORMAT, FORMAT_FILE, LOCK_FILE, offline, open_folder
from tests.kit.engine import queue

IDENTITY = "0123456789abcdef" * 2

HOLD = """
import sys
from pathlib import Path
from core.store.folder import open_folder
folder = open_folder(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
NOBODY = 65534


def contents(path: Path) -> dict[str, object]:
    """Every name below a folder, with the content of a file, its mode and the time of its last change."""
    found: dict[str, object] = {}
    for name in sorted(path.rglob("*")):
        state = name.lstat()
        digest = hashlib.sha256(name.read_bytes()).hexdigest() if name.is_file() else None
        found[str(name.relative_to(path))] = (digest, state.st_mode, state.st_mtime_ns)
    return found


def refusal(path: Path) -> str:
    """The error of a start on this folder, after a check that the folder is untouched. An offline tool is refused as
    well."""
    before = contents(path) if path.is_dir() else None
    with pytest.raises(StoreRefused) as refused:
        open_folder(path)
    text = str(refused.value)
    assert str(path) in text
    assert ";" in text, "the remedy is missing"
    with pytest.raises(StoreRefused), offline(path):
        pass
    if before is not None:
        assert contents(path) == before
    return text


def says(path: Path) -> dict[str, object]:
    return json.loads((path / FORMAT_FILE).read_text())


@contextmanager
def held(path: Path) -> Iterator[int]:
    """The folder while another process uses it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run as the user nobody, because file modes do not bind root."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def commons():
    """A folder that every user may enter and write, unlike pytest's own."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


# --- what is made ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["here", "far/down/there"])
def test_a_folder_is_made_with_its_layout(tmp_path, name):
    path = tmp_path / name
    with closing(open_folder(path)) as folder:
        assert (folder.path, folder.generation) == (path, 1)
        assert sorted(os.listdir(path)) == sorted([*FOLDERS, LOCK_FILE, FORMAT_FILE])
        encodings = ["amqp-0-9-1", "amqp-1.0"]
        assert says(path) == {
            "format": FORMAT,
            "product": "headgate",
            "starts": 1,
            "encodings": encodings,
            "definitions": 0,
        }
        assert (path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
        assert folder.chosen.is_new
        assert path.stat().st_mode & 0o077 == 0
    assert (path / LOCK_FILE).read_text() == ""


def test_every_start_is_counted(tmp_path):
    for number in (1, 2, 3):
        with closing(open_folder(tmp_path)) as folder:
            assert folder.generation == number
    assert says(tmp_path)["starts"] == 3


def test_row_4_2_three_folders_and_the_transient_one_is_wiped_at_start(tmp_path):
    open_folder(tmp_path).close()
    open_definitions(tmp_path, new_identity=numbered_identities()).close()
    for name in ("queues/7/0/0.idx", "queues/t3/0/0.idx", "msg_store_persistent/1.rdq", "msg_store_transient/1.rdq"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("messages")
    open_folder(tmp_path).close()
    assert (tmp_path / "queues/7/0/0.idx").read_text() == "messages"
    assert (tmp_path / "msg_store_persistent/1.rdq").read_text() == "messages"
    assert os.listdir(tmp_path / "msg_store_transient") == []
    assert os.listdir(tmp_path / "queues") == ["7"]


@pytest.mark.parametrize("leftover", [LOCK_FILE, "format.json.new", "lost+found"])
def test_a_first_start_that_was_cut_off_is_begun_again(tmp_path, leftover):
    (tmp_path / leftover).touch()
    with closing(open_folder(tmp_path)) as folder:
        assert folder.generation == 1


def test_a_start_that_was_cut_off_while_it_was_counted(tmp_path):
    open_folder(tmp_path).close()
    (tmp_path / "format.json.new").write_text('{"format": 1, "prod')
    with closing(open_folder(tmp_path)) as folder:
        assert folder.generation == 2


# --- what is refused ------------------------------------------------------------------------------------------


def test_another_folder_names_what_is_in_it(tmp_path):
    for name in ("letters.txt", "photos", "music", "zoo"):
        (tmp_path / name).mkdir()
    text = refusal(tmp_path)
    assert "is not a folder of Headgate: there is no format.json, but letters.txt, music, photos and more" in text
    assert "name another with data.folder or --data" in text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{}", "is not a folder of Headgate: its format.json says b'{}'"),
        ("", "is not a folder of Headgate"),
        ("[1, 2]", "is not a folder of Headgate"),
        ('{"product": "other", "format": 1, "starts": 1}', "is not a folder of Headgate"),
        ("\xff\xfe", "is not a folder of Headgate"),
        ('{"product": "headgate", "format": 3, "starts": 9}', "has format 3, and this version of Headgate knows form"),
        ('{"product": "headgate", "format": "1", "starts": 9}', "format.json is damaged, it says"),
        ('{"product": "headgate", "format": true, "starts": 9}', "format.json is damaged"),
        ('{"product": "headgate", "format": 1, "starts": 0}', "format.json is damaged"),
        ('{"product": "headgate", "format": 1}', "format.json is damaged"),
    ],
)
def test_a_format_that_is_not_ours_newer_or_damaged(tmp_path, content, text):
    open_folder(tmp_path).close()
    (tmp_path / FORMAT_FILE).write_bytes(content.encode("latin-1"))
    assert text in refusal(tmp_path)


def test_a_newer_layout_of_the_definitions(tmp_path):
    with (
        closing(open_folder(tmp_path)) as folder,
        closing(open_definitions(folder.path, new_identity=numbered_identities())) as database,
    ):
        database.add_queue(queue("q"), IDENTITY)
    for name in (DEFINITIONS_FILE, COPY_FILE):
        with closing(sqlite3.connect(tmp_path / name)) as newer:
            newer.execute("PRAGMA user_version = 9")
    before = contents(tmp_path)
    with pytest.raises(StoreRefused, match="has layout 9"):
        open_folder(tmp_path)
    assert contents(tmp_path) == before


def test_a_second_broker_is_told_the_first_one_s_process(tmp_path):
    with held(tmp_path) as pid:
        assert f"is in use by process {pid}; end that one first" in refusal(tmp_path)
    with closing(open_folder(tmp_path)) as folder:
        assert folder.generation == 2, "a process that was killed holds nothing"


def test_a_folder_is_locked_within_one_process_too(tmp_path):
    with closing(open_folder(tmp_path)):
        assert f"in use by process {os.getpid()}" in refusal(tmp_path)


def test_a_folder_that_is_looked_at_is_not_served(tmp_path):
    open_folder(tmp_path).close()
    with offline(tmp_path):
        before = contents(tmp_path)
        with pytest.raises(StoreRefused, match="is in use by another process"):
            open_folder(tmp_path)
        assert contents(tmp_path) == before
    open_folder(tmp_path).close()


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("important")
    assert "is not a folder" in refusal(path)
    assert path.read_text() == "important"
    assert "cannot be used: Not a directory" in refusal(path / "below")


def test_a_link_that_leads_nowhere(tmp_path):
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "gone")
    with pytest.raises(StoreRefused, match="File exists"):
        open_folder(path)


def test_a_folder_that_cannot_be_read(commons):
    path = commons / "data"
    with as_nobody():
        open_folder(path).close()
    before = contents(path)
    path.chmod(0)
    with as_nobody(), pytest.raises(StoreRefused, match=rf"{path} cannot be used: Permission denied; check who may"):
        open_folder(path)
    path.chmod(0o700)
    assert contents(path) == before


def test_a_format_that_cannot_be_read(commons):
    path = commons / "data"
    with as_nobody():
        open_folder(path).close()
    (path / FORMAT_FILE).chmod(0)
    before = {name: state for name, state in contents(path).items() if name != FORMAT_FILE}
    with as_nobody(), pytest.raises(StoreRefused, match=rf"{path}: format\.json cannot be used: Permission denied"):
        open_folder(path)
    assert {name: state for name, state in contents(path).items() if name != FORMAT_FILE} == before


def test_a_folder_that_cannot_be_written(commons):
    path = commons / "data"
    path.mkdir(mode=0o555)
    path.chmod(0o555)
    with as_nobody(), pytest.raises(StoreRefused, match=r"headgate\.lock cannot be used: Permission denied"):
        open_folder(path)
    assert os.listdir(path) == []


def test_a_folder_that_cannot_be_made(commons):
    commons.chmod(0o555)
    with as_nobody(), pytest.raises(StoreRefused, match="cannot be used: Permission denied"):
        open_folder(commons / "data")
    assert os.listdir(commons) == []


# --- offline --------------------------------------------------------------------------------------------------


def test_looking_changes_nothing(tmp_path):
    open_folder(tmp_path).close()
    before = contents(tmp_path)
    with offline(tmp_path) as path:
        assert path == tmp_path
    assert contents(tmp_path) == before


def test_a_copy_without_the_lock_can_be_looked_at(tmp_path):
    open_folder(tmp_path).close()
    (tmp_path / LOCK_FILE).unlink()
    with offline(tmp_path):
        assert LOCK_FILE not in os.listdir(tmp_path)


@pytest.mark.parametrize(("make", "text"), [(False, "does not exist"), (True, "is empty: no broker has used it")])
def test_a_folder_without_a_store_cannot_be_inspected(tmp_path, make, text):
    path = tmp_path / "data"
    if make:
        path.mkdir()
    with pytest.raises(StoreRefused, match=re.escape(f"data folder {path} {text}")), offline(path):
        pass
    assert path.exists() is make


def test_messages_in_an_encoding_that_a_broker_does_not_know_keep_it_out(tmp_path):
    open_folder(tmp_path, [Origin.AMQP091]).close()
    open_folder(tmp_path, [Origin.AMQP091]).close()
    open_folder(tmp_path).close()
    before = says(tmp_path)
    with pytest.raises(StoreRefused, match=r"may hold messages in the encoding of amqp-1.0, .*headgate serve"):
        open_folder(tmp_path, [Origin.AMQP091])
    assert says(tmp_path) == before
    open_folder(tmp_path).close()


def test_a_folder_from_before_there_were_two_encodings_holds_the_first(tmp_path):
    open_folder(tmp_path).close()
    (tmp_path / FORMAT_FILE).write_text(json.dumps({"format": FORMAT, "product": "headgate", "starts": 4}))
    with pytest.raises(StoreRefused, match=r"amqp-1.0"):
        open_folder(tmp_path, [Origin.AMQP091])
    with closing(open_folder(tmp_path)) as folder:
        assert folder.generation == 5
