"""What a command imports, which is nearly all of the time that it takes, and how much CPU it takes."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from subprocess import PIPE

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.main import run
from amqp10.cli.table import commands, inner_commands
from tests.cli.start_times import COMMANDS, QUEUE, cpu_seconds, environment
from tests.kit.broker_process import ROOT
from tests.kit.command_line import HEADGATE

CPU_SECONDS_MAX = 0.095
YARDSTICK = (sys.executable, "-c", "import asyncio")
YARDSTICKS_MAX = 1.8
"""How many times the yardstick's CPU time a command may take: 104 ms, where the yardstick takes 58 ms. Both take longer
on a slow or busy machine."""
ATTEMPTS = 15
"""Other processes disturb a measurement: the least of several counts, and one that is low enough ends them."""

LINES = {"amqp10.cli", "core.standard_streams", "core.version"}
"""The packages of a command that asks no broker."""
ASKING = LINES | {
    "amqp10.errors",
    "amqp10.wire",
    "amqp10.flow",
    "amqp10.protocol",
    "amqp10.client_core",
    "amqp10.blocking",
    "core.rows",
}
"""The packages of a command that asks a broker: the blocking client."""
ADDRESSES = ASKING | {"amqp10.addresses", "core.clock", "core.errors", "core.interface", "core.message", "core.slices"}
ALLOWED: Mapping[tuple[str, ...], set[str]] = dict(
    zip(
        COMMANDS,
        (
            LINES,
            LINES,
            LINES,
            ASKING,
            ASKING,
            ADDRESSES,
            ADDRESSES,
            ADDRESSES,
            LINES,
            LINES,
        ),
        strict=True,
    )
)
ROOTS = {"amqp10", "core"}
OF_THE_ENVIRONMENT = {"_distutils_hack", "_virtualenv", "sitecustomize", "usercustomize", "__main__", "__mp_main__"}
"""Modules that an environment imports into every process of Python."""


@pytest.fixture(scope="module")
def environ(broker_url: str) -> Iterator[Mapping[str, str]]:
    """The environment for installed commands, with the URL of a broker that has a queue."""
    environ = environment(broker_url)
    cpu_seconds((*HEADGATE, "queues", "declare", QUEUE), environ)
    yield environ
    cpu_seconds((*HEADGATE, "queues", "delete", QUEUE), environ)


UNNEEDED: Mapping[str, str] = {
    "asyncio": "for nothing",
    "concurrent": "for nothing",
    "decimal": "for nothing",
    "difflib": "for a mistyped word",
    "email": "for the version, and for HTTP",
    "encodings.idna": "for the name of a host in another script",
    "http": "for the admin server",
    "importlib.metadata": "for the version",
    "logging": "for nothing",
    "pathlib": "for commands that take a file",
    "random": "for nothing",
    "secrets": "for the salt of a password",
    "shutil": "for help",
    "ssl": "for TLS",
    "subprocess": "for nothing",
    "tempfile": "for nothing",
    "textwrap": "for help",
}
"""Modules of the standard library that a command does not need. Each takes 0.5 to 50 ms of CPU to import."""
OF_HELP = {"shutil", "textwrap"}
OF_THE_VERSION = {"email", "importlib.metadata", "pathlib", "random", "shutil", "tempfile", "textwrap"}
NEEDED_BY: Mapping[tuple[str, ...], set[str]] = {
    ("--version",): OF_THE_VERSION,
    ("--help",): OF_HELP,
    ("publish", "--help"): OF_HELP,
    ("statsu",): {"difflib"},
    ("completion", "bash"): {"pathlib"},
}
DATACLASSES_MAX = 45
"""Python compiles each dataclass when it is imported, for 0.1 to 0.4 ms of CPU. The protocol's performatives and
types, the settings and the table of a command need about forty; small values and events are named tuples."""
DATACLASSES = (
    "sum(hasattr(one, '__dataclass_fields__') and one.__module__ == name"
    " for name, module in list(sys.modules.items()) if name.partition('.')[0] not in sys.stdlib_module_names"
    " for one in list(vars(module).values()) if isinstance(one, type))"
)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "allowed"), ALLOWED.items(), ids=map(" ".join, ALLOWED))
def test_a_command_imports_what_it_needs(words: tuple[str, ...], allowed: set[str], environ: Mapping[str, str]):
    script = (
        f"import sys; before = set(sys.modules); from amqp10.cli.main import run; run({list(words)});"
        f"print(*(sys.modules.keys() - before), file=sys.stderr); print({DATACLASSES}, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True)
    *_, modules, dataclasses = ran.stderr.splitlines()
    found = set(modules.split())
    imported = {package(module) for module in found}
    assert sorted(imported - allowed - sys.stdlib_module_names - ROOTS - OF_THE_ENVIRONMENT) == []
    assert sorted(found & UNNEEDED.keys() - NEEDED_BY.get(words, set())) == []
    assert int(dataclasses) <= DATACLASSES_MAX


def package(module: str) -> str:
    """The package of a module. In amqp10 and core it is the folder or module below."""
    first, _, rest = module.partition(".")
    return ".".join((first, rest.partition(".")[0])) if rest and first in ROOTS else first


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_takes_little_cpu(words: tuple[str, ...], environ: Mapping[str, str]):
    if words[0] == "consume":
        cpu_seconds((*HEADGATE, "publish", *words[1:2], "--count", str(ATTEMPTS), "hello"), environ)
    least = yardstick = inf
    for _ in range(ATTEMPTS):
        least = min(least, cpu_seconds((*HEADGATE, *words), environ))
        yardstick = min(yardstick, cpu_seconds(YARDSTICK, environ))
        if least < max(CPU_SECONDS_MAX, YARDSTICKS_MAX * yardstick):
            return
    pytest.fail(f"{least * 1000:.0f} ms of CPU, and the yardstick {yardstick * 1000:.0f} ms")


HEAVY = ("pydantic", "rich.console", "importlib.metadata", "starlette", "prometheus_client", "structlog", "textual")
"""Each takes 20 to 120 ms to import, and a command that asks a broker does not need it."""
ENGINE = ("core.interface", "core.message", "core.store", "core.engine")
CLIENT = ("amqp10.client", "amqp10.blocking", "amqp10.cli.remote")


SERVE = "['serve', '--listen', '127.0.0.1:0', '--data', sys.argv[1], '--admin', sys.argv[2]]"
NOT_WHILE_IDLE: Mapping[str, str] = {
    "asyncio": "imported by structlog for coroutines that write lines",
    "core.access.token_login": "for tokens of OAuth 2",
    "core.access.tokens": "for a broker with a provider of OAuth 2",
    "core.admin.service": "imported when the first client of the admin server connects",
    "core.definitions_file": "for definitions that are exported or imported",
    "core.observe.why": "for the operation why",
    "core.operations.all_operations": "imported for the first request for an operation",
    "difflib": "for a configuration with a mistake",
    "greenlet": "imported by structlog for threads of another kind than the broker has",
    "http": "for the admin server's clients",
    "hypercorn": "for the admin server's clients",
    "prometheus_client": "for the admin server's clients",
    "pygments": "imported by rich",
    "re2": "for the first pattern of a policy or a list",
    "rich": "imported by structlog for coloured tracebacks, which the log does not have",
    "ssl": "for a broker with certificates, and for the admin server's clients",
    "starlette": "for the admin server's clients",
    "unittest": "for tests",
}
"""Modules that an idle broker need not keep in memory, and what they are for."""
NOT_WITHOUT_ADMIN: Mapping[str, str] = {
    "core.admin": "there is no admin server",
    "core.observe.overview": "recorded for an admin server",
    "core.observe.timelines": "recorded for an admin server",
}


def loaded_after(loads: str) -> set[str]:
    """The modules that a process has imported after running these statements."""
    script = f"import sys; {loads}; print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(ran.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("commands", HEAVY + ENGINE),
        ("requests", HEAVY + ENGINE),
        ("status", HEAVY + ENGINE),
        ("queues", HEAVY + ENGINE),
        ("check", HEAVY + ENGINE),
        ("why", HEAVY),
        ("definitions", HEAVY),
        ("store", (*HEAVY, *CLIENT, "trio")),
        ("config", (*CLIENT, "trio", "structlog")),
    ],
)
def test_a_command_loads_little(module: str, unwanted: tuple[str, ...]):
    """This is about the module of a command, without the modules that the command imports when it runs."""
    loaded = loaded_after(f"import amqp10.cli.main, amqp10.cli.{module}")
    assert f"amqp10.cli.{module}" in loaded
    assert sorted(set(unwanted) & loaded) == []


@pytest.mark.slow
def test_the_overview_loads_no_command():
    loaded = loaded_after("from amqp10.cli.main import run; run(['--help'])")
    assert "amqp10.cli.main" in loaded
    modules = {f"amqp10.cli.{entry['run'].partition(':')[0]}" for entry in commands().values() if "run" in entry}
    assert sorted((modules | {"trio"}) & loaded) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("admin", "unwanted"), [("off", NOT_WHILE_IDLE | NOT_WITHOUT_ADMIN), ("127.0.0.1:0", NOT_WHILE_IDLE)]
)
def test_an_idle_broker_has_loaded_nothing_that_only_requests_need(
    admin: str, unwanted: Mapping[str, str], tmp_path: Path
):
    script = f"import sys; from amqp10.cli.main import run; run({SERVE}); print(*sys.modules, file=sys.stderr)"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), admin], cwd=ROOT, stdout=PIPE, stderr=PIPE, text=True
    ) as broker:
        assert broker.stdout is not None
        assert "is ready at" in broker.stdout.readline()
        broker.terminate()
        _, errors = broker.communicate()
    loaded = set(errors.splitlines()[-1].split())
    assert "core.process" in loaded
    assert {module: why for module, why in unwanted.items() if module in loaded} == {}


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]], ids=["nothing", "long", "short"])
def test_the_overview_has_every_command(words: list[str], capsys):
    assert run(words) is Exit.DONE
    overview = capsys.readouterr().out
    assert all(re.search(rf"^  {name}\b", overview, re.MULTILINE) for name in inner_commands(""))


def test_the_overview_leaves_the_help_of_a_command_whole(capsys):
    """A command that got its line of the overview as help would have no other help."""
    run(["--help"])
    capsys.readouterr()
    assert run(["why", "--help"]) is Exit.DONE
    words = " ".join(capsys.readouterr().out.split())
    assert " ".join(commands()["why"]["help"].partition("\n\n")[0].split()) in words
    assert "The reasons, and what to do:" in words


@pytest.mark.slow
def test_nothing_looks_for_garbage_while_a_command_is_loaded():
    """``definitions`` is the largest of the commands that ask a broker. The objects that it makes by then stay."""
    loads = (
        "import gc, sys; from amqp10.cli import main; gc.collect(); gc.set_threshold(main.OBJECTS_BEFORE_COLLECTION);"
        "before = gc.get_stats(); import amqp10.cli.definitions; sys.exit(gc.get_stats() != before)"
    )
    ran = subprocess.run([sys.executable, "-c", loads], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
