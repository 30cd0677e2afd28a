"""The documentation against the code: everything that exists is described, everything described exists, and links lead
to a page."""

import ast
import doctest
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.table import commands, divided
from amqp10.errors import ErrorCondition
from core.amqp091.methods import METHODS
from core.credit_flow.diagnosis import SlowStage
from core.engine.options.arguments import QUEUE_ARGUMENTS
from core.engine.options.policies import KEYS
from core.interface import Action, DeathReason, Engine, FlowReason
from core.store.definitions import DEFINITIONS_FILE
from core.store.folder import FOLDERS, FORMAT_FILE, LOCK_FILE
from core.store.record import RecordKind
from docs import amqp091_tables
from docs.generate import WHEN_REACHED, pages, settings_by_key

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))])
DECISIONS = sorted(path for path in (DOCS / "decisions").glob("*.md") if path.name != "index.md")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GENERATED = pages()

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BOUNDED = re.compile(r"max|_limit$|_margin$|_credit$")
"""Settings with such names are limits. Link credit and queue grants bound buffers, too."""
DIAGRAMS = {"sequenceDiagram", "stateDiagram-v2", "flowchart LR"}
NO_ROOMS = ("__init__.py", "__main__.py")
FRONT_END_FOLDERS = ("client", "cli")
"""Folders of amqp10 with the code of clients. They receive error conditions, and send none of the broker's."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, *languages: str) -> Iterator[str]:
    """The code blocks of a page in these languages."""
    return (text for language, text in BLOCK.findall(read(path)) if language in languages)


def without_blocks(path: Path) -> str:
    return BLOCK.sub("", read(path))


def headings(path: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", without_blocks(path), re.MULTILINE)


def anchor(heading: str) -> str:
    """The fragment that links to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def described_words(text: str) -> set[str]:
    """The texts between backquotes, but for blocks of code."""
    return set(re.findall(r"`([^`]+)`", BLOCK.sub("", text)))


def table(path: Path, heading: str) -> str:
    """The rows of tables below a heading, up to the next one."""
    text = read(path).partition(f"# {heading}\n")[2]
    return "\n".join(line for line in text.partition("\n#")[0].splitlines() if line.startswith("|"))


def modules(*folders: str) -> Iterator[ast.Module]:
    """The syntax trees of the broker's own modules."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            if path.relative_to(ROOT / folder).parts[0] not in FRONT_END_FOLDERS:
                yield ast.parse(read(path))


def assert_none(offences: Iterable[str]) -> None:
    """Fail with all offences together."""
    found = list(offences)
    assert not found, "\n" + "\n".join(found)


# --- what exists is described ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GENERATED, ids=name)
def test_generated_pages_are_fresh(path: Path):
    assert read(path) == GENERATED[path](), "run: python -m docs.generate"


def test_every_room_is_in_the_table_of_rooms():
    rooms = {"pipeline", "pyspark_amqp10"}
    for parent in ("amqp10", "core", "core/engine"):
        rooms |= {name(found.parent) for found in (ROOT / parent).glob("*/__init__.py")}
    for parent in ("amqp10", "core"):
        rooms |= {name(found) for found in (ROOT / parent).glob("*.py") if found.name not in NO_ROOMS}
    described = described_words(table(DOCS / "architecture.md", "The rooms"))
    assert rooms - described == set()
    assert_none(room for room in described if "/" in room[1:] and not (ROOT / room).exists())


@pytest.mark.parametrize(
    ("heading", "beginning"),
    [("Tasks", r"start_soon\(|async def run\(self, turn"), ("Threads", r"threading\.Thread\(")],
)
def test_every_module_that_runs_a_task_or_a_thread_is_in_its_table(heading: str, beginning: str):
    rows = table(DOCS / "architecture.md", heading)
    found = [path for path in (ROOT / "core").rglob("*.py") if re.search(beginning, read(path))]
    assert found
    assert_none(name(path) for path in found if f"`{name(path)}`" not in rows)


def test_every_setting_has_its_heading():
    described = set(headings(DOCS / "operating" / "configuration.md"))
    assert_none(key for key in settings_by_key() if f"`{key}`" not in described)


def test_every_limit_is_in_the_table_of_limits():
    limits = {key for key in settings_by_key() if BOUNDED.search(key.rpartition(".")[2])}
    assert limits - WHEN_REACHED.keys() == set()


def test_every_verb_and_every_action_is_described():
    described = set(re.findall(r"`(\w+)`", without_blocks(DOCS / "architecture.md")))
    verbs = {verb for verb in vars(Engine) if not verb.startswith("_")}
    actions = {action.__name__ for action in get_args(Action)}
    assert (verbs | actions) - described == set()


def test_the_conditions_described_are_the_conditions_sent():
    described = set(re.findall(r"^\| `(amqp:[a-z:-]+)`", read(DOCS / "errors.md"), re.MULTILINE))
    used = {
        ErrorCondition[node.attr].value
        for module in modules("amqp10")
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCondition"
    }
    assert described == used


def test_every_reply_code_of_amqp_0_9_1_says_when_it_is_sent():
    assert {code.name for code in amqp091_tables.levels()} == set(amqp091_tables.WHEN_SENT)


def test_what_is_said_of_methods_of_amqp_0_9_1_is_said_of_some():
    known = {amqp091_tables.spelled(method) for method in METHODS.values()}
    said = amqp091_tables.HERE.keys() | amqp091_tables.SENT_BY_THE_BROKER | amqp091_tables.SENT_BY_BOTH
    assert said - known == set()


def test_every_verdict_has_its_advice():
    rows = table(DOCS / "operating" / "troubleshooting.md", "A publisher of AMQP 0.9.1 waits")
    assert_none(stage for stage in SlowStage if f"The {stage.value} is the bottleneck" not in rows)


def test_every_log_event_is_described():
    described = set(re.findall(r"^\| `([a-z-]+)`", read(DOCS / "operating" / "running.md"), re.MULTILINE))
    logged = {
        node.args[0].value
        for module in modules("amqp10", "core")
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("debug", "info", "warning", "error")
        and ast.unparse(node.func.value).endswith("log")
        and isinstance(node.args[0], ast.Constant)
    }
    assert logged
    assert logged - described == set()


def test_the_reasons_told_now_are_those_of_the_code():
    rows = re.findall(r"^\| `([a-z-]+)` \|(.*)\|$", read(DOCS / "flow-reasons.md"), re.MULTILINE)
    listed = {reason for reason, _ in rows}
    now = {reason for reason, row in rows if "**now**" in row}
    known = {reason.value for reason in FlowReason}
    assert now <= known <= listed


def test_every_exit_code_is_described():
    described = set(map(int, re.findall(r"^\| (\d+) \|", read(DOCS / "operating" / "running.md"), re.MULTILINE)))
    assert described == {code.value for code in Exit}


def test_every_policy_key_is_described():
    described = described_words(read(DOCS / "queues.md") + read(DOCS / "operating" / "policies.md"))
    assert_none(key for key in KEYS if key not in described and f"x-{key}" not in described)


def test_the_arguments_described_exist():
    rows = table(DOCS / "queues.md", "Arguments and policies").splitlines()
    named = {word for row in rows for word in re.findall(r"`(x-[a-z-]+)`", row.split("|")[1])}
    assert named
    assert named - {argument for arguments in QUEUE_ARGUMENTS.values() for argument in arguments} == set()


def test_every_death_is_described():
    assert {reason.value for reason in DeathReason} - described_words(read(DOCS / "queues.md")) == set()


def test_every_kind_of_record_is_described_with_its_number():
    rows = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", table(DOCS / "storage-format.md", "Records"), re.MULTILINE)
    assert {(int(number), name) for number, name in rows} == {(kind.value, kind.name) for kind in RecordKind}


def test_everything_in_the_data_folder_is_described():
    rows = table(DOCS / "storage-format.md", "The data folder")
    names = (LOCK_FILE, FORMAT_FILE, DEFINITIONS_FILE, *(f"{folder}/" for folder in FOLDERS))
    assert_none(name for name in names if f"`{name}" not in rows)


# --- what is described exists ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and fragment not in map(anchor, headings(file))):
            broken.append(f"{name(page)}: {target}")
    assert_none(broken)


def test_every_page_can_be_found_from_the_index():
    seen: set[Path] = set()
    to_read = [DOCS / "index.md"]
    while to_read:
        page = to_read.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", without_blocks(page))
        to_read += [(page.parent / link).resolve() for link in links if "//" not in link]
    assert_none(name(page) for page in PAGES if page not in seen)


def test_settings_that_pages_name_exist():
    known = set(settings_by_key())
    rooms = "|".join(sorted({key.partition(".")[0] for key in known}))
    sections = {key.rpartition(".")[0] for key in known}
    assert_none(
        f"{name(page)}: {key}"
        for page in PAGES
        for key in re.findall(rf"`((?:{rooms})\.[a-z_0-9.]+)(?: = \w+)?`", without_blocks(page))
        if key not in known | sections and not key.endswith(".py")
    )


def test_commands_that_pages_name_exist():
    missing = []
    for page in PAGES:
        for shown in re.findall(r"(?:`|^|\$ )headgate ([a-z][a-z-]+(?: [a-z][a-z-]*)?)", read(page), re.MULTILINE):
            found, rest = divided(shown.split())
            if not found or (rest and "parameters" not in commands()[found]):
                missing.append(f"{name(page)}: headgate {shown}")
    assert_none(missing)


def test_make_targets_that_pages_name_exist():
    lines = re.findall(r"^([a-z][a-z -]+):", read(ROOT / "Makefile"), re.MULTILINE)
    targets = {target for line in lines for target in line.split()}
    named = {target for page in PAGES for target in re.findall(r"(?:`|^)make ([a-z-]+)", read(page), re.MULTILINE)}
    assert named - targets == set()


def test_paths_that_pages_name_exist():
    folders = "amqp10|core|tests|bench|docs|distributions|examples|config|pipeline|pyspark_amqp10"
    assert_none(
        f"{name(page)}: {path}"
        for page in PAGES
        for path in re.findall(rf"`((?:{folders})/[\w/.-]+)`", without_blocks(page))
        if not (ROOT / path).exists() and not (ROOT / f"{path}.py").exists()
    )


# --- pictures and code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if "```mermaid" in read(page)], ids=name)
def test_diagrams_say_something(page: Path):
    for text in blocks(page, "mermaid"):
        kind, *lines = text.strip().splitlines()
        assert kind in DIAGRAMS
        assert len(lines) > 2
        participants = set(re.findall(r"participant (\w+)", text))
        ends = {end for arrow in re.findall(r"^\s*(\w+)->>(\w+):", text, re.MULTILINE) for end in arrow}
        assert ends <= participants


def test_python_in_pages_is_taken_from_the_examples():
    sources = [read(path) for path in EXAMPLES]
    assert_none(
        f"{name(page)}: {text.splitlines()[0]}"
        for page in PAGES
        for text in blocks(page, "python")
        if not any(text in source for source in sources)
    )


def test_every_example_is_explained():
    text = "".join(read(page) for page in (DOCS / "tutorials").glob("*.md"))
    assert_none(path.name for path in EXAMPLES if f"examples/{path.name}" not in text)


@pytest.mark.parametrize("page", [page for page in PAGES if "```pycon" in read(page)], ids=name)
def test_what_pages_compute_is_right(page: Path):
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    names: dict[str, object] = {}
    said: list[str] = []
    for text in blocks(page, "pycon"):
        test = parser.get_doctest(text, names, name(page), str(page), 0)
        runner.run(test, out=said.append, clear_globs=False)
        names = test.globs
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    assert runner.tries > 0


# --- decisions -------------------------------------------------------------------------------------------------------


def test_decisions_are_numbered_and_listed():
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", read(DOCS / "decisions" / "index.md"))
    assert listed == [path.name for path in DECISIONS]
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("path", DECISIONS, ids=name)
def test_a_decision_says_what_belongs_to_it(path: Path):
    title, *parts = headings(path)
    assert title.startswith(f"{path.name[:4]}: ")
    assert parts == ["Context", "Decision", "Alternatives, and why not", "What would make us reopen it"]
    assert len(read(path).splitlines()) <= 45
