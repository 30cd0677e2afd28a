"""Keys that are derived anew are written into the configuration, and nothing else in it changes."""

import os
import threading
from pathlib import Path

import pytest

from core.access.passwords import hash_password
from core.config import load
from core.config.access import ScramKeys
from core.config.rewrite import KeysInFile
from tests.kit.logins import user

ALICE, BOB = user("alice", "wonderland"), user("bob", "builder")
NEW = hash_password("wonderland", salt=b"another salt for it", iterations=5000)


def configured(folder: Path) -> Path:
    file = folder / "broker.toml"
    text = "# ours, since 2026 é\r\n"
    for one in (ALICE, BOB):
        text += f'\n[[users]]\nname = "{one.name}"   # kept\nscram = "{one.scram.render()}"\n'
    file.write_bytes(text.encode())
    file.chmod(0o640)
    return file


def keys(file: Path) -> dict[str, ScramKeys]:
    return {one.name: one.scram for one in load(file).users}


def test_the_keys_of_one_user_change_and_nothing_else(tmp_path: Path):
    file = configured(tmp_path)
    before = file.read_bytes()
    KeysInFile(file).replace(ALICE.scram, NEW)
    assert keys(file) == {"alice": NEW, "bob": BOB.scram}
    assert file.read_bytes() == before.replace(ALICE.scram.render().encode(), NEW.render().encode())
    assert file.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["broker.toml"]


def test_a_symbolic_link_stays_one(tmp_path: Path):
    (tmp_path / "real").mkdir()
    file, link = configured(tmp_path / "real"), tmp_path / "broker.toml"
    link.symlink_to(file)
    KeysInFile(link).replace(ALICE.scram, NEW)
    assert link.is_symlink()
    assert keys(file)["alice"] == NEW


@pytest.mark.parametrize("line", ["", 'a = """{old}\n{old}"""\n'])
def test_keys_that_are_not_there_once_are_not_replaced(tmp_path: Path, line: str):
    file = tmp_path / "broker.toml"
    file.write_text(line.format(old=ALICE.scram.render()))
    before = file.read_bytes()
    with pytest.raises(ValueError, match="as it was when the broker read it") as error:
        KeysInFile(file).replace(ALICE.scram, NEW)
    assert file.read_bytes() == before
    assert "SCRAM" not in str(error.value)


def test_without_a_file_there_is_no_place_for_keys():
    with pytest.raises(ValueError, match="no configuration file"):
        KeysInFile(None).replace(ALICE.scram, NEW)


def test_a_file_that_is_gone_or_whose_place_beside_is_taken_is_told(tmp_path: Path):
    with pytest.raises(OSError, match=r"broker\.toml"):
        KeysInFile(tmp_path / "broker.toml").replace(ALICE.scram, NEW)
    file = configured(tmp_path)
    (tmp_path / ".broker.toml.new").mkdir()
    with pytest.raises(OSError, match=r"broker\.toml\.new"):
        KeysInFile(file).replace(ALICE.scram, NEW)
    assert keys(file)["alice"] == ALICE.scram


def test_what_a_crash_left_beside_it_is_written_over(tmp_path: Path):
    file = configured(tmp_path)
    (tmp_path / ".broker.toml.new").write_text("half of a configuration " * 100)
    KeysInFile(file).replace(ALICE.scram, NEW)
    assert keys(file) == {"alice": NEW, "bob": BOB.scram}


def test_two_users_at_once(tmp_path: Path):
    file = configured(tmp_path)
    place = KeysInFile(file)
    new_bob = hash_password("builder", salt=b"another salt for bob", iterations=5000)
    threads = [threading.Thread(target=place.replace, args=pair) for pair in ((ALICE.scram, NEW), (BOB.scram, new_bob))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert keys(file) == {"alice": NEW, "bob": new_bob}
