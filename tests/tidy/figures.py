"""How heavy this tree is, in figures that can be compared before and after a change: ``python -m tests.tidy.figures``.

Every figure is about the tree that the command stands in. The sections, in the order of the output:

- lines: lines of code by folder, without blank lines, comments, docstrings and imports. The broker proper is
  ``amqp10`` and ``core`` without :data:`tests.tidy.source_tree.NOT_THE_BROKER_PROPER`; "in all" adds those folders,
  ``pipeline`` and ``pyspark_amqp10``.
- importers: modules that exactly one other module of the product imports, imports for type checkers included, and how
  many of these have at most 70 lines of any kind.
- protocols: Protocols with the number of their implementations, judged by form (:mod:`tests.tidy.declared_classes`
  says how). What tests and benchmarks hand in counts too, but something in the product has to implement each.
- names: public names of classes that are defined more than once in the product.
- operations: calls, files and moves between files of four operations (:mod:`tests.tidy.operation_calls`).
- circles: groups of modules that import each other in a circle, with and without imports for type checkers.
- words: uses of words that only this project gives a meaning (:mod:`tests.tidy.private_words`), because there is no
  English word list to compare with.
- surface: lines of any kind in the files that declare what an operator can ask of the broker, and in ``Control``.
- methods: classes with more than 40 methods of their own.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.tidy.declared_classes import Classes, met_by_functions
from tests.tidy.private_words import ACTORS, count_private_words
from tests.tidy.source_tree import BROKER_FOLDERS, NOT_THE_BROKER_PROPER, OPERATOR_SURFACE, SourceTree

ROOT = Path(__file__).parents[2]

SHORT_MODULE_LINES = 70
METHODS_MAX = 40
NAMED_MAX = 5
"""The most implementations of one Protocol that a list shows."""

EXAMPLES = """\
examples:
  python -m tests.tidy.figures
  python -m tests.tidy.figures --only lines,circles
  python -m tests.tidy.figures --only importers --list
  python -m tests.tidy.figures --json before.json
  python -m tests.tidy.figures --against before.json
"""


@dataclass
class Section:
    """One section's figures by label, and the lists behind them by title."""

    figures: dict[str, int] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)


class Measured:
    """One tree, which is read once for all sections."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.product = SourceTree(root)

    @cached_property
    def classes(self) -> Classes:
        return Classes(self.product)

    @cached_property
    def classes_beside(self) -> Classes:
        """Those of the tests and the benchmarks."""
        return Classes(SourceTree(self.root, ("tests", "bench")))


def lines(measured: Measured) -> Section:
    rooms = measured.product.lines_by_room()
    broker = {room: count for room, count in rooms.items() if room.partition("/")[0] in BROKER_FOLDERS}
    beside = sum(count for room, count in broker.items() if _below(room, NOT_THE_BROKER_PROPER))
    totals = {"the broker proper": sum(broker.values()) - beside, "in all": sum(rooms.values())}
    return Section(totals | {f"room {room}": count for room, count in rooms.items()})


def _below(room: str, folders: Iterable[str]) -> bool:
    return any(room == folder or room.startswith(f"{folder}/") for folder in folders)


def importers(measured: Measured) -> Section:
    modules = measured.product.modules
    single = {name: next(iter(by)) for name, by in measured.product.importers().items() if len(by) == 1}
    short = [name for name in single if modules[name].all_lines <= SHORT_MODULE_LINES]
    return Section(
        {
            "modules": len(modules),
            "modules with one importer": len(single),
            f"of these with at most {SHORT_MODULE_LINES} lines": len(short),
        },
        {
            "modules with one importer": [
                f"{name} ({modules[name].all_lines} lines) is imported by {by}" for name, by in single.items()
            ]
        },
    )


def protocols(measured: Measured) -> Section:
    classes, beside = measured.classes, measured.classes_beside
    called, few, several = [], [], []
    in_product_alone = 0
    for each in classes.protocols:
        asked = classes.members(each)
        if met_by_functions(asked):
            called.append(each.where)
            continue
        found = classes.implementations(asked)
        in_product_alone += len(found) > 1
        if len(found) == 1:
            found += beside.implementations(asked)
        listed = several if len(found) > 1 else few
        listed.append(f"{each.where}: {', '.join(found[:NAMED_MAX]) or 'nothing'}{' …' * (len(found) > NAMED_MAX)}")
    return Section(
        {
            "Protocols": len(classes.protocols),
            "with several implementations": len(several),
            "of these in the product alone": in_product_alone,
            "with fewer": len(few),
            "met by functions": len(called),
        },
        {
            "Protocols with one implementation or none": few,
            "Protocols that are met by functions": called,
            "Protocols with several implementations": several,
        },
    )


def names(measured: Measured) -> Section:
    found = measured.classes.defined_more_than_once()
    rows = [f"{name}: {', '.join(modules)}" for name, modules in found.items()]
    return Section({"public class names defined more than once": len(found)}, {"class names defined twice": rows})


def operations(measured: Measured) -> Section:
    # The import loads the whole broker, which no other section needs.
    from tests.tidy.operation_calls import count_operations

    found = count_operations(measured.root)
    return Section({f"{name}: {kind}": n for name, row in found.items() for kind, n in row._asdict().items()})


def circles(measured: Measured) -> Section:
    at_run_time = measured.product.circles(with_types_only=False)
    with_types = measured.product.circles(with_types_only=True)
    return Section(
        {"module circles at run time": len(at_run_time), "module circles with imports for types": len(with_types)},
        {
            "module circles at run time": [" ".join(circle) for circle in at_run_time],
            "module circles with imports for types": [" ".join(circle) for circle in with_types],
        },
    )


def words(measured: Measured) -> Section:
    found = count_private_words(measured.product.of(BROKER_FOLDERS))
    actors = sum(found[word] for word in ACTORS)
    totals = {"sentences' actors without a name": actors, "other private words": sum(found.values()) - actors}
    return Section(totals | {f"word {word}": count for word, count in found.items()})


def surface(measured: Measured) -> Section:
    files = sorted({path for pattern in OPERATOR_SURFACE for path in measured.root.glob(pattern)})
    by_file = {str(path.relative_to(measured.root)): _lines_of(path) for path in files}
    return Section(
        {"the operator's surface": sum(by_file.values()), "class Control, not in the sum": _control(measured)},
        {"files of the operator's surface": [f"{name}: {count} lines" for name, count in by_file.items()]},
    )


def _lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _control(measured: Measured) -> int:
    """Lines of the class by which the front ends carry out an operator's requests."""
    module = measured.product.modules.get("core.interface")
    found = (node for node in module.nodes if getattr(node, "name", None) == "Control") if module else iter(())
    return sum(node.end_lineno - node.lineno + 1 for node in found)


def methods(measured: Measured) -> Section:
    found = measured.classes.with_more_methods_than(METHODS_MAX)
    rows = [f"{name}: {count}" for name, count in found.items()]
    return Section({f"classes with more than {METHODS_MAX} methods": len(found)}, {"classes with many methods": rows})


SECTIONS: Mapping[str, Callable[[Measured], Section]] = {
    "lines": lines,
    "importers": importers,
    "protocols": protocols,
    "names": names,
    "operations": operations,
    "circles": circles,
    "words": words,
    "surface": surface,
    "methods": methods,
}


def shown(name: str, section: Section, before: Mapping[str, int], *, with_lists: bool) -> Iterator[str]:
    """A section as lines of text, each figure after the earlier one where there is one."""
    yield f"{name}:"
    for label, now in section.figures.items():
        was = f"{before[label]:>8,} →" if label in before else ""
        yield f"  {label:<44}{was}{now:>8,}"
    for label in before.keys() - section.figures.keys():
        yield f"  {label:<44}{before[label]:>8,} →       –"
    if with_lists:
        for title, rows in section.lists.items():
            if rows:
                yield f"  {title}:"
                yield from (f"    {row}" for row in rows)


def chosen(text: str) -> list[str]:
    """The sections that the command line names."""
    found = text.split(",")
    for name in found:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"{name!r} is no section; there are {', '.join(SECTIONS)}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.tidy.figures",
        description="Print figures about the size and the order of this tree's code.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        type=chosen,
        default=list(SECTIONS),
        metavar="SECTIONS",
        help=f"with commas between them; of {', '.join(SECTIONS)}",
    )
    parser.add_argument("--list", action="store_true", help="print the lists behind the figures too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write figures and lists to a file")
    parser.add_argument("--against", type=Path, metavar="FILE", help="print the figures of such a file beside these")
    given = parser.parse_args(arguments)
    before = json.loads(given.against.read_text(encoding="utf-8")) if given.against else {}
    measured = Measured(ROOT)
    written: dict[str, object] = {}
    for name in given.only:
        section = SECTIONS[name](measured)
        written[name] = {"figures": section.figures, "lists": section.lists}
        earlier = before.get(name, {}).get("figures", {})
        print("\n".join(shown(name, section, earlier, with_lists=given.list)))
    if given.json:
        given.json.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
