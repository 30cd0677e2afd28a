"""``headgate definitions`` with a broker in a process of its own: files of RabbitMQ, and files with errors."""

import json
import os
import subprocess

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from core.definitions_file import FILE_BYTES_MAX
from tests.kit.broker_process import ROOT, broker_process
from tests.kit.command_line import HEADGATE, Ran, run_process

RABBITMQ = ROOT / "tests" / "core" / "definitions_file" / "rabbitmq.json"
QUEUES = ("queues", "exchanges", "bindings", "policies")


@pytest.fixture(scope="module")
def empty_url():
    """The URL of a broker that only the tests of this module use."""
    with broker_process() as address:
        yield address.url()


@pytest.fixture
def headgate(empty_url, capsys, tmp_path):
    """Runs a command on that broker. The definitions that a test made are deleted after it."""

    def call(*words):
        code = run([*map(str, words), "--url", empty_url])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    yield call
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")
    assert call("definitions", "apply", nothing, "--delete-extra").code is Exit.DONE


@pytest.fixture
def definitions(headgate):
    return lambda *words: headgate("definitions", *words)


@pytest.fixture
def written(tmp_path):
    """Writes a file with these definitions, and returns its path."""

    def write(**value):
        path = tmp_path / "definitions.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    return write


def last_line(text):
    return text.splitlines()[-1]


@pytest.mark.parametrize("verb", ["export", "diff", "apply"])
def test_help_has_an_example(verb, capsys):
    assert run(["definitions", verb, "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert f"headgate definitions {verb}" in words.partition("For example:")[2]
    assert "Exit codes: 0 done," in words


def test_a_file_of_rabbitmq_moves_in(definitions, headgate, tmp_path):
    differs = definitions("diff", RABBITMQ)
    assert differs.code is Exit.DIFFERS
    assert last_line(differs.out).startswith("10 to create, 0 to change, 0 in conflict, 0 unchanged, 0 only")
    assert "Pb0ZGkzTGfkG" not in differs.out + differs.err

    tried = definitions("apply", RABBITMQ, "--dry-run")
    assert (tried.code, tried.out.splitlines()[0]) == (Exit.DONE, "would declare exchange 'orders'")
    assert json.loads(headgate("queues", "list", "--json").out) == []

    applied = definitions("apply", RABBITMQ)
    assert (applied.code, len(applied.out.splitlines())) == (Exit.DONE, 10)
    assert definitions("apply", RABBITMQ).out == "nothing is to be done\n"
    assert definitions("diff", RABBITMQ).code is Exit.DONE
    types = {row["name"]: row["type"] for row in json.loads(headgate("queues", "list", "--json").out)}
    assert types == {"work.eu": "classic", "dead": "quorum", "log": "stream"}
    assert json.loads(headgate("queues", "show", "work.eu", "--json").out)["policy"] == "limits"

    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert definitions("export", first).out == f"{first} has 2 exchanges, 3 queues, 3 bindings, 2 policies\n"
    assert definitions("diff", first).code is Exit.DONE
    assert json.loads(definitions("export", second, "--json").out) == {
        "file": str(second), "exchanges": 2, "queues": 3, "bindings": 3, "policies": 2,
    }  # fmt: skip
    assert first.read_bytes() == second.read_bytes() == definitions("export").out.encode()
    assert definitions("export", "-").out == definitions("export").out
    assert sorted(os.listdir(tmp_path)) == ["first.json", "second.json"]


def test_extra_things_are_deleted_only_when_asked_for(definitions, headgate, written):
    headgate("exchanges", "declare", "shop")
    for name in ("keep", "extra"):
        headgate("queues", "declare", name)
    headgate("bindings", "create", "shop", "extra", "--key", "k")
    file = written(queues=[{"name": "keep"}])
    differs = definitions("diff", file)
    assert differs.code is Exit.DIFFERS
    assert differs.out.splitlines() == [
        "- binding from 'shop' to queue 'extra' by 'k'",
        "- queue 'extra'",
        "- exchange 'shop'",
        "0 to create, 0 to change, 0 in conflict, 1 unchanged, 3 only in the broker",
    ]
    assert definitions("apply", file).out == "nothing is to be done\n"
    assert definitions("apply", file, "--delete-extra", "--dry-run").out.splitlines()[1] == "would delete queue 'extra'"
    assert definitions("apply", file, "--delete-extra").out.splitlines() == [
        "deleted binding from 'shop' to queue 'extra' by 'k'",
        "deleted queue 'extra'",
        "deleted exchange 'shop'",
    ]
    assert definitions("diff", file).code is Exit.DONE


def test_a_thing_that_differs_is_never_deleted(definitions, headgate, written):
    headgate("queues", "declare", "q", "--argument", "x-max-length=5")
    file = written(queues=[{"name": "q"}, {"name": "r"}])
    assert "! queue 'q': argument x-max-length is 5, the file says not set" in definitions("diff", file).out
    refused = definitions("apply", file)
    assert refused.code is Exit.REFUSED
    assert "queue 'q' is different: argument x-max-length is 5, the file says not set; delete it first" in refused.err
    assert "0 of 1 steps done, 1 failed, 1 not tried; --keep-going goes on" in refused.err
    assert headgate("queues", "show", "r").code is Exit.NOT_FOUND

    tried = definitions("apply", file, "--dry-run")
    assert (tried.code, tried.out) == (Exit.REFUSED, "would declare queue 'r'\n")
    assert last_line(tried.err) == "headgate: 1 would fail"

    went_on = definitions("apply", file, "--keep-going", "--json")
    assert went_on.code is Exit.REFUSED
    told = json.loads(went_on.out)
    assert [step["definition"]["name"] for step in told["done"]] == ["r"]
    assert told["conflicts"][0]["different"] == ["argument x-max-length is 5, the file says not set"]
    assert (told["failed"], told["not_tried"], told["dry_run"]) == ([], [], False)


def test_a_refusal_of_the_broker_is_told_and_ends_it(definitions, written):
    policies = [{"name": f"p{n:03}", "pattern": "", "definition": {"max-length": n}} for n in range(102)]
    refused = definitions("apply", written(policies=policies))
    assert refused.code is Exit.REFUSED
    assert "policy 'p100': the limit of 100 policies (policies_max) is reached" in refused.err
    assert "100 of 102 steps done, 1 failed, 1 not tried" in refused.err


def test_policies_are_changed(definitions, written):
    policy = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}
    definitions("apply", written(policies=[policy]))
    file = written(policies=[policy | {"priority": 7}])
    differs = json.loads(definitions("diff", file, "--json").out)
    assert differs["change"][0]["different"] == ["priority is 0, the file says 7"]
    assert definitions("apply", file).out == "declared policy 'p'\n"
    assert definitions("diff", file).code is Exit.DONE


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "the file: it is not JSON"),
        (b'{"queues": [{"name": "a"}, {"name": "b", "name": "c"}]}', "queues[1].name: this key is there twice"),
        (b'{"queues": [{"name": "a", "arguments": {"x-speed": 1}}, {"name": "b"}]}', "queues[0].arguments.x-speed"),
        (b'{"bindings": [{"source": "no", "destination": "amq.topic", "destination_type": "exchange"}]}',
         "binding from 'no' to exchange 'amq.topic' by '': there is no exchange 'no' in the file or the broker"),
        (b"[" * 100_000, "nested too deeply"),
        (b" " * (FILE_BYTES_MAX + 1), f"it has more than {FILE_BYTES_MAX} bytes; split it"),
        (b'{"queues": [{"name": "\\u001b[31m", "durable": 1}]}', "queues[0].durable: it is 1"),
        (b'{"queues": [{"name": "a", "arguments": {"\\u001b[31m": 1, "x-\\u001b": 2}}]}', 'arguments["x-\\u001b"]'),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_file_with_mistakes_changes_nothing(data, complaint, definitions, headgate, tmp_path):
    file = tmp_path / "bad.json"
    file.write_bytes(data)
    for verb in ("apply", "diff") if b"bindings" not in data else ("apply",):
        refused = definitions(verb, file)
        assert (refused.code, refused.out) == (Exit.USAGE, "")
        assert complaint in refused.err
        assert "nothing was changed" in refused.err
        assert "\x1b" not in refused.err
    assert json.loads(headgate("queues", "list", "--json").out) == []


def test_mistakes_as_json(definitions, written):
    refused = definitions("apply", written(queues=[{"name": 5}, {}]), "--json")
    assert refused.code is Exit.USAGE
    assert json.loads(refused.out) == {
        "problems": [
            {"path": "queues[0].name", "text": "it is 5, it must be a string"},
            {"path": "queues[1].name", "text": "it is missing"},
        ]
    }


def test_names_do_not_steer_the_terminal(definitions, written):
    told = definitions("diff", written(queues=[{"name": "\x1b[31mred\x07"}]))
    assert told.out.splitlines()[0] == r"+ queue '\x1b[31mred\x07'"


def test_files_that_cannot_be_read_or_written(definitions, tmp_path):
    missing = definitions("diff", tmp_path / "no.json")
    assert (missing.code, "cannot be read: No such file" in missing.err) == (Exit.USAGE, True)
    nowhere = definitions("export", tmp_path / "no" / "x.json")
    assert (nowhere.code, "cannot be written: No such file" in nowhere.err) == (Exit.USAGE, True)


def test_a_virtual_host_of_the_file_is_chosen(definitions, headgate):
    assert definitions("apply", RABBITMQ, "--vhost", "staging").out == "declared queue 'trial'\n"
    assert "has no virtual host 'prod'" in definitions("diff", RABBITMQ, "--vhost", "prod").err


@pytest.mark.slow
def test_from_one_process_to_another_by_way_of_standard_input(empty_url, headgate, written):
    headgate("queues", "declare", "q", "--argument", "x-queue-type=quorum")
    exported = run_process(*HEADGATE, "definitions", "export", url=empty_url)
    assert (exported.code, exported.err) == (Exit.DONE, "")
    with broker_process() as other:
        differs = run_process(*HEADGATE, "definitions", "diff", "-", given=exported.out, url=other.url())
        assert (differs.code, differs.out.splitlines()[0]) == (Exit.DIFFERS, "+ queue 'q'")
        applied = run_process(*HEADGATE, "definitions", "apply", "-", given=exported.out, url=other.url())
        assert applied == Ran(Exit.DONE, "declared queue 'q'\n", "")
        again = run_process(*HEADGATE, "definitions", "export", url=other.url())
        assert again == exported


@pytest.mark.slow
def test_an_apply_that_is_killed_is_completed_by_the_next(empty_url, definitions, written):
    """An apply of two hundred queues takes long enough to be killed in the middle."""
    file = written(queues=[{"name": f"q{number:04}"} for number in range(200)])
    process = subprocess.Popen([*HEADGATE, "definitions", "apply", str(file), "--url", empty_url], cwd=ROOT)
    while json.loads(definitions("diff", file, "--json").out)["unchanged"] == 0:
        assert process.poll() is None
    process.kill()
    process.wait()
    between = json.loads(definitions("diff", file, "--json").out)["unchanged"]
    assert 0 < between < 200
    assert definitions("apply", file).code is Exit.DONE
    assert definitions("diff", file).code is Exit.DONE
