"""The classes that a source tree declares: their methods, the Protocols among them, and what implements these.

Whether a class implements a Protocol is judged by its form: the class, with its bases, has a member of each name that
the Protocol asks for, methods take the same parameters, and what is no method in the Protocol is none in the class. An
attribute stands for a method only where the Protocol asks for several members. Types are not compared, so a class can
be counted as an implementation that a type checker would refuse. A Protocol with ``__call__`` and nothing else is met
by functions, and is listed apart.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tests.tidy.source_tree import Module, SourceTree

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Declared:
    """One class statement. ``members``: a function for a method, None for anything else with a name."""

    module: str
    name: str
    bases: tuple[str, ...]
    is_protocol: bool
    members: dict[str, Function | None] = field(default_factory=dict)
    methods: int = 0

    @property
    def where(self) -> str:
        return f"{self.module}.{self.name}"


class Classes:
    """All classes of a tree."""

    def __init__(self, tree: SourceTree) -> None:
        self.all = [each for module in tree.modules.values() for each in _declared_in(module)]
        self._by_name = {each.where: each for each in self.all}

    def defined_more_than_once(self) -> dict[str, list[str]]:
        """Public names of classes with the modules that define them, where there are several."""
        modules: dict[str, list[str]] = {}
        for each in self.all:
            if not each.name.startswith("_"):
                modules.setdefault(each.name, []).append(each.module)
        return {name: found for name, found in sorted(modules.items()) if len(found) > 1}

    def with_more_methods_than(self, limit: int) -> dict[str, int]:
        """Classes with their own methods, properties included, in falling order."""
        found = {each.where: each.methods for each in self.all if each.methods > limit}
        return dict(sorted(found.items(), key=lambda row: (-row[1], row[0])))

    @cached_property
    def protocols(self) -> list[Declared]:
        return [each for each in self.all if each.is_protocol]

    def members(self, of: Declared) -> dict[str, Function | None]:
        """The members of a class with those of its bases, as far as these are in the tree."""
        found: dict[str, Function | None] = {}
        for base in of.bases:
            if (known := self._by_name.get(base)) is not None and known is not of:
                found |= self.members(known)
        return found | of.members

    def implementations(self, asked: Mapping[str, Function | None]) -> list[str]:
        """The classes that have everything that the Protocol asks for, and are no Protocols."""
        return [
            each.where
            for each in self.all
            if not each.is_protocol and _implements(self._members_once[each.where], asked)
        ]

    @cached_property
    def _members_once(self) -> dict[str, dict[str, Function | None]]:
        return {each.where: self.members(each) for each in self.all}


def met_by_functions(asked: Mapping[str, Function | None]) -> bool:
    """True when a Protocol asks for a call and nothing else."""
    return set(asked) == {"__call__"}


def _implements(has: Mapping[str, Function | None], asked: Mapping[str, Function | None]) -> bool:
    if not asked or not asked.keys() <= has.keys():
        return False
    for name, wanted in asked.items():
        given = has[name]
        if (wanted is None and given is not None) or (given is None and wanted is not None and len(asked) == 1):
            return False
        if wanted is not None and given is not None and not _takes_the_same(given, wanted):
            return False
    return True


def _takes_the_same(given: Function, wanted: Function) -> bool:
    """True when every call that the wanted signature allows fits the given one."""
    places, names = _positional(given), _positional(wanted)
    required = len(places) - len(given.args.defaults)
    only_by_name = {each.arg for each in given.args.kwonlyargs}
    needed = {
        each.arg for each, default in zip(given.args.kwonlyargs, given.args.kw_defaults, strict=True) if default is None
    }
    by_name = {each.arg for each in wanted.args.kwonlyargs}
    if len(names) > len(places) and given.args.vararg is None:
        return False
    positional_only = len(wanted.args.posonlyargs)
    for place, (has, asks) in enumerate(zip(places, names, strict=False)):
        if has != asks and place >= positional_only - 1 and not asks.startswith("_"):
            return False
    if any(place not in by_name for place in places[len(names) : max(required, 0)]):
        return False
    takes_any_name = given.args.kwarg is not None
    return needed <= by_name and (takes_any_name or by_name <= only_by_name | set(places[len(names) :]))


def _positional(function: Function) -> list[str]:
    """Names of the parameters that can be given by position, without ``self``."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    is_static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list)
    return names if is_static else names[1:]


def _declared_in(module: Module) -> Iterator[Declared]:
    if "class " not in module.text:  # parsing a module is what takes time here
        return
    imported = dict(_imported_names(module))
    for node in module.nodes:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
            declared = Declared(
                module.name,
                node.name,
                tuple(imported.get(base, f"{module.name}.{base}") for base in bases),
                is_protocol=any(base in ("Protocol", "typing.Protocol") for base in bases),
            )
            for statement in node.body:
                _note(declared, statement)
            yield declared


def _imported_names(module: Module) -> Iterator[tuple[str, str]]:
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _note(declared: Declared, statement: ast.stmt) -> None:
    """Add a statement of a class's body to its members."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if not _is_setter(statement):
            declared.methods += 1
            declared.members[statement.name] = None if _is_property(statement) else statement
        if not declared.is_protocol:
            for name in _assigned_on_self(statement):
                declared.members.setdefault(name, None)
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        declared.members[statement.target.id] = None
    elif isinstance(statement, ast.Assign):
        for name in _assigned_names(statement):
            if name != "__slots__":
                declared.members[name] = None


def _assigned_names(statement: ast.Assign) -> Iterator[str]:
    for target in statement.targets:
        for each in target.elts if isinstance(target, ast.Tuple) else (target,):
            if isinstance(each, ast.Name):
                yield each.id


def _is_property(function: Function) -> bool:
    return any(
        ast.unparse(each).rpartition(".")[2] in ("property", "cached_property") for each in function.decorator_list
    )


def _is_setter(function: Function) -> bool:
    """True for a property's second function, and for one more signature of the same method."""
    return any(
        ast.unparse(each).rpartition(".")[2] in ("setter", "deleter", "overload") for each in function.decorator_list
    )


def _assigned_on_self(function: Function) -> Iterable[str]:
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr
