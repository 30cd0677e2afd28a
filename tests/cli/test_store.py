"""``headgate store`` checks, dumps and compacts the data folder of a stopped broker."""

import json
import re
from contextlib import closing

import pytest

from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.main import run
from amqp10.cli.store import print_compaction
from core.engine.routing.topology import numbered_identities
from core.store.definitions import COPY_FILE, DEFINITIONS_FILE, PolicyDeclaration, open_definitions
from core.store.descriptions import Description, folder_of, write_description
from core.store.disk import FolderDisk
from core.store.errors import StoreDamaged
from core.store.folder import FORMAT_FILE, open_folder
from core.store.lane import Lane
from core.store.lost import set_aside
from core.store.record import HEADER_BYTES, RecordKind, record_bytes
from tests.kit.broker_process import broker_process
from tests.kit.engine import binding, exchange, queue

IDENTITY = "0123456789abcdef" * 2

INDEX = "queues/1/0/0.idx"
SIZE = record_bytes(4)


@pytest.fixture
def data(tmp_path):
    """A folder with some definitions and two records, both synced."""
    with closing(open_folder(tmp_path)) as folder, closing(FolderDisk(tmp_path, 8)) as disk:
        with closing(open_definitions(folder.path, new_identity=numbered_identities())) as database:
            database.add_queue(queue("orders", x_max_length=5), IDENTITY)
            database.add_exchange(exchange("shop"))
            database.add_binding(binding("shop", "orders", "new"))
            database.set_policy(PolicyDeclaration(name="p", pattern="^o", definition={"max-length": 3}))
        lane = Lane("classic", generation=folder.generation, sync_interval_s=0.0)
        for number in range(3):
            lane.append(INDEX, number * SIZE, RecordKind.SETTLE, [b"\xff" * 4])
            batch = lane.take_write()
            batch.run(disk)
            lane.wrote(batch)
            if number < 2:
                lane.want_sync()
                sync = lane.take_sync(float(number))
                sync.run(disk)
                lane.did_sync(sync)
    return tmp_path


@pytest.fixture
def store(data, capsys):
    def call(verb, *words, folder=data):
        code = run(["store", verb, "--data", str(folder), *words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call


def damage(data, record):
    path = data / INDEX
    content = bytearray(path.read_bytes())
    content[record * SIZE + HEADER_BYTES] ^= 1
    path.write_bytes(content)


def files(data):
    return {str(path): path.read_bytes() for path in data.rglob("*") if path.is_file()}


@pytest.mark.parametrize("verb", ["check", "dump", "compact"])
def test_help_has_an_example(verb, capsys):
    assert run(["store", verb, "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert f"headgate store {verb} --data" in words.partition("For example:")[2]
    assert "8 data folder damaged" in words


def test_the_folder_must_be_named(capsys):
    assert run(["store", "check"]) is Exit.USAGE


def test_a_sound_store(store, data):
    before = files(data)
    code, out, err = store("check")
    assert (code, err) == (Exit.DONE, "")
    assert out == "5 sound, 0 torn, 0 corrupt records\n"
    assert files(data) == before


def test_a_synced_record_that_is_damaged_is_described_and_not_changed(store, data):
    damage(data, 1)
    before = files(data)
    code, out, err = store("check")
    assert code is Exit.DAMAGED
    described, counts = out.splitlines()
    assert described.startswith(f"{INDEX} at {SIZE}: SETTLE, start 1 batch 2 {SIZE} bytes corrupt: ")
    assert described.endswith("and it was synced; a broker starts only with store.salvage, and without it")
    assert counts == "4 sound, 0 torn, 1 corrupt records"
    assert err == f"headgate: data folder {data} is damaged; put back a copy, or see store.salvage\n"
    assert files(data) == before


def test_a_torn_record_that_was_not_synced_is_described_and_no_damage(store, data):
    damage(data, 2)
    code, out, _ = store("check")
    assert code is Exit.DONE
    assert "torn: " in out
    assert "4 sound, 1 torn, 0 corrupt records" in out


def test_damaged_definitions(store, data):
    (data / "definitions.db").write_bytes(b"?" * 4096)
    code, out, _ = store("check")
    assert code is Exit.DAMAGED
    assert "definitions.db: it is not a database" in out


def test_a_check_as_json(store, data):
    damage(data, 1)
    code, out, _ = store("check", "--json")
    found = json.loads(out)
    assert code is Exit.DAMAGED
    assert (found["records"], found["problems"]) == ({"sound": 4, "torn": 0, "corrupt": 1}, 0)
    assert [line.partition(":")[0] for line in found["described"]] == [f"{INDEX} at {SIZE}"]


def test_a_dump_has_a_line_for_everything(store, data):
    before = files(data)
    code, out, err = store("dump")
    assert (code, err) == (Exit.DONE, "")
    assert out.splitlines()[:4] == [
        "definitions.db: queue 1 'orders' {'x-max-length': 5}",
        "definitions.db: exchange 'shop' of type direct {}",
        "definitions.db: binding 'shop' to queue 'orders' by 'new'",
        "definitions.db: policy 'p' for all like '^o' {'max-length': 3}",
    ]
    assert f"{INDEX} at 0: SETTLE, start 1 batch 1 {SIZE} bytes" in out.splitlines()
    assert len(out.splitlines()) == 4 + 5
    assert files(data) == before


def test_a_dump_as_json_has_an_object_a_line(store, data):
    code, out, _ = store("dump", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code is Exit.DONE
    assert lines[0] == {"path": "definitions.db", "text": "queue 1 'orders' {'x-max-length': 5}"}
    first = next(line for line in lines if line["path"] == INDEX)
    assert (first["offset"], first["end"], first["kind"], first["verdict"]) == (0, SIZE, "SETTLE", "sound")
    assert len(lines) == 4 + 5


def with_another_host(folder):
    """Add a virtual host with a queue of the same name as one of the default virtual host."""
    with closing(open_definitions(folder, new_identity=numbered_identities())) as database:
        other = database.for_host("shop")
        other.set_host_settings({"max-queues": 3})
        number = other.add_queue(queue("orders"), "f" * 32)
        kept = other.load().queues[-1]
        write_description(folder, Description(kept, "shop", database.generation), start=1)
    return number


def test_a_dump_names_the_other_virtual_hosts(store, data):
    number = with_another_host(data)
    code, out, _ = store("dump")
    lines = [line.partition(": ")[2] for line in out.splitlines() if line.startswith("definitions.db: ")]
    assert code is Exit.DONE
    assert lines[0] == "queue 1 'orders' {'x-max-length': 5}"
    assert lines[4:] == ["virtual host 'shop' {'max-queues': 3}", f"in 'shop': queue {number} 'orders' {{}}"]


def test_a_queue_of_another_virtual_host_is_set_aside_named_and_adopted(store, data, capsys):
    number = with_another_host(data)
    with closing(open_definitions(data, new_identity=numbered_identities())) as database:
        database._change_all("nothing", [("DELETE FROM queues WHERE id = ?", (number,))])
    set_aside(data, "classic", number, folder_of(data, "classic", number))
    code, out, _ = store("lost")
    assert (code, out.split(",")[0]) == (Exit.DONE, f"classic-{number}: queue vhost:shop:orders")
    found = json.loads(store("lost", "--json")[1])["lost"]
    assert [(row["vhost"], row["queue"]) for row in found] == [("shop", "orders")]
    assert run(["store", "adopt", "vhost:shop:orders", "--data", str(data)]) is Exit.DONE
    assert capsys.readouterr().out.startswith("queue 'vhost:shop:orders' is defined again")
    _, out, _ = store("dump")
    assert [line for line in out.splitlines() if "in 'shop': queue" in line] == [
        f"definitions.db: in 'shop': queue {number + 1} 'orders' {{}}"
    ]


def test_definitions_that_are_made_anew_have_the_queues_of_every_virtual_host(store, data):
    number = with_another_host(data)
    for name in (DEFINITIONS_FILE, COPY_FILE):
        (data / name).write_bytes(b"?" * 4096)
    code, out, _ = store("rebuild")
    assert code is Exit.DONE
    assert "queue 'vhost:shop:orders' came back from its folder" in out.splitlines()
    assert f"definitions.db: in 'shop': queue {number} 'orders' {{}}" in store("dump")[1].splitlines()


@pytest.mark.parametrize("verb", ["check", "dump"])
def test_a_folder_in_use_is_left_alone(store, data, verb):
    with closing(open_folder(data)):
        code, out, err = store(verb)
    assert (code, out) == (Exit.USAGE, "")
    assert "is in use by process" in err


@pytest.mark.parametrize("verb", ["check", "dump", "compact"])
def test_a_folder_that_is_another_s(store, tmp_path_factory, verb):
    other = tmp_path_factory.mktemp("other")
    (other / "letters").touch()
    code, _, err = store(verb, folder=other)
    if verb != "compact":
        assert code is Exit.USAGE
        assert "is not a folder of Headgate" in err
    assert list(other.iterdir()) == [other / "letters"]


def test_a_newer_folder(store, data):
    (data / FORMAT_FILE).write_text(json.dumps({"format": 9, "product": "headgate", "starts": 1}))
    code, _, err = store("check")
    assert code is Exit.USAGE
    assert "has format 9" in err


# --- compaction -----------------------------------------------------------------------------------------------


def compacting(compaction, data):
    print_compaction(compaction, data, json=False)


def test_compaction_is_handed_the_folder_and_its_lines_are_printed(data, capsys):
    seen = []

    def compaction(folder):
        seen.append(folder)
        yield "freed 5 bytes"

    compacting(compaction, data)
    assert seen == [data]
    assert capsys.readouterr().out == "freed 5 bytes\n"
    open_folder(data).close()


def test_compaction_of_a_damaged_store(data):
    def compaction(folder):
        raise StoreDamaged("record 7 is damaged; see store.salvage")
        yield

    with pytest.raises(CommandError) as refused:
        compacting(compaction, data)
    assert (refused.value.code, refused.value.text) == (Exit.DAMAGED, "record 7 is damaged; see store.salvage")
    open_folder(data).close()


def test_compaction_of_a_folder_in_use(data):
    with closing(open_folder(data)), pytest.raises(CommandError) as refused:
        compacting(lambda folder: [], data)
    assert refused.value.code is Exit.USAGE
    assert "is in use by process" in refused.value.text


def test_compaction_gives_space_back_and_keeps_what_lives(tmp_path, capsys):
    data = tmp_path / "data"
    config = tmp_path / "broker.toml"
    config.write_text(
        '[store]\ngarbage_fraction = 0.9\nmsg_store_file_size_limit = "1MiB"\n'
    )  # the broker must not compact
    with broker_process("--data", str(data), "--config", str(config)) as address:
        url = ["--url", address.url()]
        for name in ("q", "kept"):
            assert run(["queues", "declare", name, *url]) is Exit.DONE
        for _ in range(8):  # each file has messages that are settled and messages that stay
            assert run(["publish", "/queues/q", "--size", "300000", "--count", "3", *url]) is Exit.DONE
            assert run(["publish", "/queues/kept", "--size", "300000", *url]) is Exit.DONE
        assert run(["consume", "/queues/q", "--count", "24", *url]) is Exit.DONE
    capsys.readouterr()
    assert run(["store", "compact", "--data", str(data)]) is Exit.DONE
    before, after = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) bytes", capsys.readouterr().out)]
    assert after < before / 2
    with broker_process("--data", str(data)) as address:
        assert run(["consume", "/queues/kept", "--count", "8", "--url", address.url()]) is Exit.DONE
    assert [len(line) for line in capsys.readouterr().out.split()] == [300_000] * 8
