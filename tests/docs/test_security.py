"""The checklist of ``docs/security.md``: it is whole, and every test that it names exists. Some of its items are shown
here: those that say what the product does not contain."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
ITEMS = 26
PRODUCT = ("core", "amqp10")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
FORBIDDEN = {"pickle", "marshal", "shelve", "gzip", "bz2", "lzma", "zipfile", "tarfile"}
"""Modules that unpack or run what they read."""
WRITES_ARCHIVES = {"amqp10/cli/bundle.py"}
CHECKSUM_ONLY = {"crc32"}
IMPORTS = "amqp10.cli.main", "amqp10.client", "amqp10.serve", "core.admin.service", "core.process"
NO_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request"):
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(refuse)
for name in sys.argv[1:]:
    __import__(name)
"""


def rows() -> dict[int, str]:
    """The rows of the checklist, by number."""
    found = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(number): text for number, text in found}


def test_every_item_is_there_and_shown():
    assert list(rows()) == list(range(1, ITEMS + 1))
    assert [number for number, text in rows().items() if not NAMED.search(text)] == []


@pytest.mark.parametrize("number", range(1, ITEMS + 1))
def test_the_tests_of_an_item_exist(number: int):
    for path, function in NAMED.findall(rows()[number]):
        assert (ROOT / path).exists(), path
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert function in functions, f"{path}::{function}"


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of each import; the name is empty where the module itself is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (((node.module or "").partition(".")[0], alias.name) for alias in node.names)


def test_the_product_decompresses_unpickles_and_interns_nothing():
    offences = []
    for room in PRODUCT:
        for path in sorted((ROOT / room).rglob("*.py")):
            where, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            for module, name in imports_of(ast.parse(text)):
                if module == "zlib" and name not in CHECKSUM_ONLY:
                    offences.append(f"{where}: zlib.{name}")
                if module in FORBIDDEN and where not in WRITES_ARCHIVES:
                    offences.append(f"{where}: {module}")
            if "sys.intern" in text:
                offences.append(f"{where}: sys.intern")
    assert offences == []


@pytest.mark.slow
def test_an_import_requests_nothing_from_the_network():
    command = [sys.executable, "-c", NO_NETWORK, *IMPORTS]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (done.returncode, done.stdout) == (0, "")
