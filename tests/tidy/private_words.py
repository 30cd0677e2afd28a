"""How often the product's code uses words that have a meaning only within this project.

No English word list comes with the packages that the checks install, and a list of all English words does not belong
into this tree. So the words here are those that a review of the code found: words for things of the field that have a
usual name, and words without a named subject. A use is counted in every comment, docstring and name of the broker's
packages (amqp10 and core), whether or not it has the private meaning there.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.tidy.source_tree import Module, standalone_text

ANYWHERE = {
    "stretch": ("stretch", "stretches"),
    "portion": ("portion", "portions"),
    "standing": ("standing", "standings"),
    "shelf": ("shelf", "shelves"),
    "fence": ("fence", "fences", "fenced"),
    "road": ("road", "roads"),
    "surroundings": ("surroundings",),
    "obedient": ("obedient",),
    "holder": ("holder", "holders"),
    "whoever": ("whoever",),
    "nobody": ("nobody",),
    "somebody": ("somebody",),
    "everybody": ("everybody",),
}
"""Each word with its forms."""

IN_CLASS_NAMES = ("Looked", "Telling", "Told")
"""Ordinary words in prose, but not as part of the name of a class."""

ACTORS = ("whoever", "nobody", "somebody", "everybody")
"""Words that stand where a sentence should name its subject."""

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_COMMENT = re.compile(r"(?:^|\s)#+\s(.*)")


def count_private_words(modules: Iterable[Module]) -> dict[str, int]:
    """Uses of each word of both tables."""
    anywhere: Counter[str] = Counter()
    in_class_names: Counter[str] = Counter()
    for module in modules:
        for text in _prose(module):
            anywhere.update(part.lower() for part in _PARTS.findall(text))
        for name in _names(module):
            parts = _PARTS.findall(name)
            anywhere.update(part.lower() for part in parts)
            if name.lstrip("_")[:1].isupper():
                in_class_names.update(part for part in parts if not part.isupper())
    found = {word: sum(anywhere[form] for form in forms) for word, forms in ANYWHERE.items()}
    return found | {word: in_class_names[word] for word in IN_CLASS_NAMES}


def _prose(module: Module) -> Iterator[str]:
    """Docstrings and comments. A comment is what follows a ``#`` between spaces, even within a text."""
    for node in module.nodes:
        if (text := standalone_text(node)) is not None:
            yield text
    for line in module.text.splitlines():
        if "#" in line and (comment := _COMMENT.search(line)) is not None:
            yield comment[1]


def _names(module: Module) -> Iterator[str]:
    """Each use of a name in the code."""
    for node in module.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield name.rpartition(".")[2]
