"""The product's source files as the figures read them: modules, their lines, what they import, and circles of imports.

Nothing here imports the product: every figure comes from the text and the syntax tree, so the same code can be run in
a checkout of any commit.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PRODUCT_FOLDERS = ("amqp10", "core", "pipeline", "pyspark_amqp10")
BROKER_FOLDERS = ("amqp10", "core")
NOT_THE_BROKER_PROPER = ("amqp10/cli", "amqp10/client", "amqp10/client_core", "amqp10/services", "amqp10/top")
"""Folders of the broker's packages that hold programs and libraries for the broker's clients."""

OPERATOR_SURFACE = (
    "core/control_plane.py",
    "core/operations/**/*.py",
    "core/operations.py",
    "core/admin/api/**/*.py",
    "amqp10/control*.py",
    "amqp10/management/control*.py",
    "amqp10/cli/**/*.py",
)
"""The files that declare what an operator can ask of the broker, as patterns. Some exist only after a planned move."""


@dataclass(frozen=True)
class Import:
    """One imported module of the product. ``for_types_only``: the import stands under ``if TYPE_CHECKING``."""

    module: str
    for_types_only: bool


@dataclass(eq=False)
class Module:
    """One source file."""

    name: str
    path: Path
    room: str
    """The folder, relative to the root of the tree."""

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @property
    def all_lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def code_lines(self) -> int:
        """Lines that are not blank and not a comment, a docstring or an import. A text that stands alone as a statement
        counts as a docstring, wherever it stands. A line within a longer text that begins with ``#`` counts as a
        comment."""
        left_out: set[int] = set()
        for node in self.nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)) or standalone_text(node) is not None:
                left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return sum(
            1
            for number, line in enumerate(self.text.splitlines(), 1)
            if number not in left_out and (stripped := line.strip()) and not stripped.startswith("#")
        )


def standalone_text(node: ast.AST) -> str | None:
    """The text of a statement that is only a text, else None."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None


class SourceTree:
    """All modules below some folders of one tree, by dotted name."""

    def __init__(self, root: Path, folders: Iterable[str] = PRODUCT_FOLDERS) -> None:
        self.root = root
        self.modules: dict[str, Module] = {}
        for folder in folders:
            for path in sorted((root / folder).rglob("*.py")):
                relative = path.relative_to(root)
                parts = relative.with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                self.modules[name] = Module(name, path, str(relative.parent))

    def of(self, folders: Iterable[str]) -> Iterator[Module]:
        """The modules of these top folders."""
        wanted = frozenset(folders)
        return (module for module in self.modules.values() if module.name.partition(".")[0] in wanted)

    def lines_by_room(self) -> dict[str, int]:
        """Code lines of each folder, without those of the folders inside it."""
        rooms: dict[str, int] = {}
        for module in self.modules.values():
            rooms[module.room] = rooms.get(module.room, 0) + module.code_lines
        return dict(sorted(rooms.items()))

    @cached_property
    def imports(self) -> Mapping[str, frozenset[Import]]:
        """What each module imports of the other modules."""
        return {name: frozenset(self._imports_of(module)) for name, module in self.modules.items()}

    def _imports_of(self, module: Module) -> Iterator[Import]:
        for_types = {id(inner) for node in module.nodes if _for_types(node) for inner in _inside(node)}
        for node in module.nodes:
            for imported in self._named_in(module, node):
                if imported != module.name:
                    yield Import(imported, id(node) in for_types)

    def _named_in(self, module: Module, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.modules)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                package = module.name.split(".") if module.path.name == "__init__.py" else module.name.split(".")[:-1]
                package = package[: len(package) - node.level + 1]
                source = ".".join([*package, *([source] if source else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                if inner in self.modules:
                    yield inner
                elif source in self.modules:
                    yield source

    def importers(self) -> dict[str, frozenset[str]]:
        """Which modules import each module, for type checkers only included."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for name, imports in self.imports.items():
            for each in imports:
                found[each.module].add(name)
        return {name: frozenset(names) for name, names in found.items()}

    def circles(self, *, with_types_only: bool) -> list[list[str]]:
        """Groups of modules in which each reaches each other one by imports."""
        return circles(
            {
                name: sorted({each.module for each in imports if with_types_only or not each.for_types_only})
                for name, imports in self.imports.items()
            }
        )


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    for statement in getattr(node, "body", ()):
        yield from ast.walk(statement)


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components with more than one node, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []
    found: list[list[str]] = []
    for start in graph:
        if start in number:
            continue
        number[start] = lowest[start] = len(number)
        waiting.append(start)
        way = [(start, iter(graph[start]))]
        while way:
            node, following = way[-1]
            for each in following:
                if each not in number:
                    number[each] = lowest[each] = len(number)
                    waiting.append(each)
                    way.append((each, iter(graph[each])))
                    break
                if each in waiting:
                    lowest[node] = min(lowest[node], number[each])
            else:
                way.pop()
                if way:
                    lowest[way[-1][0]] = min(lowest[way[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    place = waiting.index(node)
                    component = sorted(waiting[place:])
                    del waiting[place:]
                    if len(component) > 1:
                        found.append(component)
    return sorted(found)
