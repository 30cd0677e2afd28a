"""The rules for this code that a machine can check. docs/style.md has the reasons."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.private_words import ACTORS

ROOT = Path(__file__).parents[2]
FOLDERS = ("amqp10", "core", "bench", "distributions", "pipeline", "pyspark_amqp10", "tests", ".ci", "examples")

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

BANNED_STEMS = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "manager"})
BANNED_DEFINITIONS = re.compile(r"process_data|do_\w+|\w+_impl|\w*Manager|\w+Handler|\w*(Utils|Helper)s?")
QUALIFIED = re.compile(r"\b(link|stage|queue|sender|receiver)[ -]$", re.IGNORECASE)
"""Link credit and stage credit are different things, so the bare word is not clear."""

LEFT_OR_SILENCED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|type: ignore(?!\[)|noqa(?!: [A-Z]+[0-9]+)")

ALLOWED_BASES = re.compile(
    r"(\w*Error|\w*Exception|\w*Fault|Protocol(\[.*\])?|Generic\[.*\]|(Int|Str)?Enum|IntFlag|NamedTuple|TypedDict"
    r"|Section|BaseModel|MessagingHandler|ArgumentParser|App\[None\]|(Simple)?DataSource\w*|SupportsTriggerAvailableNow|InputPartition"
    r"|WriterCommitMessage|StatefulProcessor|StreamingQueryListener|BuildHookInterface\[Any\]|StoreRefused|trio\.abc\.Instrument)"
)
TEXT_SUFFIXES = frozenset({"", ".md", ".py", ".toml", ".txt", ".yml"})
MAY_IMPORT_SPARK = frozenset(
    {"pipeline", "pyspark_amqp10", "distributions", "18_spark_lake.py", "18_spark_delta.py", "18_spark_iceberg.py"}
)
ONLY_IN_THE_PIPELINE = frozenset(
    {"pipeline", "pyspark_amqp10", "pyspark", "py4j", "pandas", "pyarrow", "matplotlib", "duckdb"}
)
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
PURE = frozenset({"len", "sum", "map", "max", "min"})
"""Functions that add nothing to the count of work."""

FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PRODUCT = [path for path in FILES if path.relative_to(ROOT).parts[0] not in ("tests", ".ci")]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def statements(path: Path) -> tuple[ast.stmt, ...]:
    """All statements, at every level. No rule is about an expression inside a statement, and visiting those takes ten
    times as long."""
    return tuple(below(parse(path)))


@pytest.fixture(scope="module", autouse=True)
def _trees_are_kept_for_this_module():
    """They take 330 MiB, which the garbage collector would examine again and again in all tests that follow."""
    yield
    statements.cache_clear()
    parse.cache_clear()


def below(node: ast.AST) -> Iterator[ast.stmt]:
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, part, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from below(inner)


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Each comment with its line."""
    with io.StringIO(path.read_text(encoding="utf-8")) as text:
        for token in tokenize.generate_tokens(text.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, and texts that stand alone as statements, such as docstrings."""
    yield from comments(path)
    for node in statements(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def length_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    length = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        assert first.end_lineno is not None
        length -= first.end_lineno - first.lineno + 1
    return length


def assert_none(offences: Iterable[str]) -> None:
    """Fail with all offences together."""
    found = list(offences)
    assert not found, "\n" + "\n".join(found)


def test_modules_are_short_and_named_by_what_they_hold():
    assert_none(
        f"{name(path)}: {lines} lines"
        for path in FILES
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES_MAX
    )
    assert_none(name(path) for path in FILES if path.stem in BANNED_STEMS)


def test_a_module_says_what_it_is():
    assert_none(name(path) for path in FILES if parse(path).body and ast.get_docstring(parse(path)) is None)


def test_each_room_says_where_to_begin_reading():
    rooms = [path for path in PRODUCT if path.name == "__init__.py" and name(path).startswith(("amqp10/", "core/"))]
    assert len(rooms) > 20
    for path in rooms:
        begins = re.search(r"Begin\s+reading\s+with\s+``([\w/.]+)``", ast.get_docstring(parse(path)) or "")
        assert begins is not None, name(path)
        assert (path.parent / begins[1]).exists(), f"{name(path)}: {begins[1]}"


def test_functions_are_short():
    assert_none(
        f"{name(path)}:{node.lineno}: {node.name} has {length} lines"
        for path in FILES
        for node in statements(path)
        if isinstance(node, FUNCTION) and (length := length_without_docstring(node)) > FUNCTION_LINES_MAX
    )


def test_functions_and_classes_are_named_by_what_they_do_or_are():
    assert_none(
        f"{name(path)}:{node.lineno}: {node.name}"
        for path in FILES
        for node in statements(path)
        if isinstance(node, (*FUNCTION, ast.ClassDef)) and BANNED_DEFINITIONS.fullmatch(node.name)
    )


def test_nothing_is_left_for_later_or_silenced_without_saying_what():
    assert_none(
        f"{name(path)}:{line}: {comment}"
        for path in FILES
        if LEFT_OR_SILENCED.search(path.read_text(encoding="utf-8"))  # there are few, and comments take long to find
        for line, comment in comments(path)
        if LEFT_OR_SILENCED.search(comment)
    )


def calls_in_a_sum_of_work(tree: ast.AST) -> Iterator[int]:
    """The lines of ``work.spent += … f() …``: ``spent`` is read before the call, so what the call adds is lost."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute) and node.target.attr == "spent":
            called = [ast.unparse(part.func) for part in ast.walk(node.value) if isinstance(part, ast.Call)]
            if not PURE.issuperset(called):
                yield node.lineno


def test_no_work_is_lost_that_a_called_function_adds():
    assert [f"{name(path)}:{line}" for path in PRODUCT for line in calls_in_a_sum_of_work(parse(path))] == []
    some = ast.parse("work.spent += 1 + f()\nwork.spent += len(x)\nwork.spent += n")
    assert list(calls_in_a_sum_of_work(some)) == [1]


def test_credit_is_never_named_without_saying_which():
    assert_none(
        f"{name(path)}:{line}: …{before[-40:]}{word}"
        for path in FILES
        if "credit" in path.read_text(encoding="utf-8").lower()
        for line, text in prose(path)
        for before, word in bare_credit(text)
    )


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("gives credit", True),
        ("Credits are set", True),
        ("gives link credit", False),
        ("stage\n    credit", False),
        ("the ``credit`` field", False),
        ("credit_flow", False),
    ],
)
def test_the_rule_about_credit_finds_what_it_should(text: str, bare: bool):
    assert bool(list(bare_credit(text))) is bare


def bare_credit(text: str) -> Iterator[tuple[str, str]]:
    """Each place where a text uses the word alone, as the word before it and the word."""
    words = re.sub(r"\s+", " ", re.sub(r"`+[^`]*`+", "", text))
    for found in re.finditer(r"(?<![\w.-])credits?(?![\w(-]|\.\w)", words, re.IGNORECASE):
        if not QUALIFIED.search(words[: found.start()]):
            yield words[: found.start()], found[0]


def test_no_page_names_an_actor_that_is_no_actor():
    """A sentence of the docs, of the settings' files and of the console names its subject."""
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(path for path in (ROOT / "config").rglob("*") if path.suffix in TEXT_SUFFIXES and path.is_file()),
        *(path for path in (ROOT / "core/admin/console/page").rglob("*") if path.suffix in (".js", ".css", ".html")),
    ]
    actor = re.compile(rf"\b({'|'.join(ACTORS)})\b", re.IGNORECASE)
    assert len(pages) > 40
    assert_none(
        f"{name(path)}:{number}: {found[0]}"
        for path in pages
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (found := actor.search(re.sub(r"`[^`]*`", "", line))) is not None
    )


def test_modules_hold_no_state():
    """A value that a function of the module could change has a CONSTANT_NAME, which says that none changes it."""
    assert_none(
        f"{name(path)}:{node.lineno}"
        for path in PRODUCT
        for node in statements(path)
        if isinstance(node, ast.Global)
        or (
            node in parse(path).body
            and isinstance(node, ast.Assign)
            and isinstance(node.value, ast.List | ast.Dict | ast.Set)
            and not all(re.fullmatch(r"[A-Z0-9_]+|__\w+__", ast.unparse(target)) for target in node.targets)
        )
    )


def test_nothing_inherits_but_what_a_library_wants_to():
    """Allowed are exceptions, Protocols, enums, named tuples, generics and the schema of the configuration."""
    assert_none(
        f"{name(path)}:{node.lineno}: {node.name}({ast.unparse(base)})"
        for path in PRODUCT
        for node in statements(path)
        if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases)
        for base in node.bases
        if not ALLOWED_BASES.fullmatch(ast.unparse(base))
    )


def test_only_the_pipeline_its_tests_and_an_example_import_spark():
    """The other packages of the pipeline's extra are for the pipeline only as well. Everything else runs, and is
    tested, without Spark and Java."""
    assert_none(
        f"{name(path)}:{node.lineno}: {imported}"
        for path in FILES
        if not MAY_IMPORT_SPARK & set(path.relative_to(ROOT).parts[:2])
        for node in statements(path)
        for imported in imported_modules(node)
        if imported.partition(".")[0] in ONLY_IN_THE_PIPELINE
    )


def imported_modules(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


def test_no_file_names_the_machine_it_was_written_on():
    texts = [path for folder in (*FOLDERS, "docs", "config") for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts += [path for path in ROOT.iterdir() if path.is_file()]
    assert_none(
        f"{name(path)}: {found[0]}"
        for path in texts
        if path.suffix in TEXT_SUFFIXES and path != Path(__file__)
        for found in re.finditer(r"/(home|root|Users|work)/\w+", path.read_text(encoding="utf-8", errors="replace"))
    )


def test_the_changelog_has_its_shape():
    """https://keepachangelog.com/en/1.1.0/: unreleased changes first, versions below, changes grouped by kind."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Changelog"
    versions = [line for line in lines if line.startswith("## ")]
    assert versions[0] == "## [Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version)
    kinds = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_import_contracts_hold():
    """``make lint`` asks the same. Here a new module without a layer is seen by those who run the tests alone."""
    asked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stdout
