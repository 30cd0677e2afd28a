"""What a start sets aside: whole, once, under a name of its own, and refused with a remedy where that is impossible."""

import pytest

from core.interface import QueueDeclaration
from core.store.definitions import StoredQueue
from core.store.descriptions import Description, folder_of, queue_folders, read_description, write_description
from core.store.errors import StoreRefused
from core.store.lost import lost_entries, set_aside

QUEUE = StoredQueue(7, QueueDeclaration(name="orders", arguments={"x-max-length": 5}), "0123456789abcdef" * 2)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "queues").mkdir()
    (tmp_path / "msg_store_persistent").mkdir()
    (tmp_path / "msg_store_persistent" / "0.rdq").write_bytes(b"bodies")
    write_description(tmp_path, Description(QUEUE, "/", 3), start=1)
    return tmp_path


def test_a_folder_says_what_its_queue_is(root):
    (folder,) = queue_folders(root)
    assert (folder.kind, folder.number) == ("classic", 7)
    assert folder.description == Description(QUEUE, "/", 3)
    file = folder.path / "description"
    image = bytearray(file.read_bytes())
    for place in range(len(image)):
        image[place] ^= 1
        file.write_bytes(image)
        assert read_description(folder.path) in (None, folder.description)
        image[place] ^= 1


def test_an_entry_has_everything_and_a_second_one_a_name_of_its_own(root):
    folder = folder_of(root, "classic", 7)
    first = set_aside(root, "classic", 7, folder)
    write_description(root, Description(QUEUE, "/", 3), start=1)
    second = set_aside(root, "classic", 7, folder)
    assert (first.name, second.name) == ("classic-7", "classic-7-2")
    assert not folder.exists()
    (root / "msg_store_persistent" / "0.rdq").unlink()
    assert (first / "bodies" / "0.rdq").read_bytes() == b"bodies"
    assert [(entry.name, entry.kind, entry.number) for entry in lost_entries(root)] == [("orders", "classic", 7)] * 2


def test_a_place_that_is_not_ours_is_refused_and_nothing_is_moved(root):
    (root / "lost+found").write_text("not a folder")
    folder = folder_of(root, "classic", 7)
    with pytest.raises(StoreRefused, match=r"cannot be set aside in .*lost\+found.*; let the user of the broker write"):
        set_aside(root, "classic", 7, folder)
    assert read_description(folder) == Description(QUEUE, "/", 3)
