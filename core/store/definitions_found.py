"""The definitions that a start finds: which of the two files it uses, and whether it may.

See :mod:`core.store.definitions`. Nothing is changed here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from core.store.errors import StoreDamaged, StoreRefused
from core.store.sealed_file import SCHEMA_VERSION, Judged, judged, new_image
from core.virtual_hosts import VIRTUAL_HOST

DEFINITIONS_FILE = "definitions.db"
COPY_FILE = "definitions.copy.db"
DEFAULT_HOST = VIRTUAL_HOST


class Witness(NamedTuple):
    """Evidence of the generation that the definitions had reached."""

    generation: int
    """0 if it only proves that there were definitions."""
    source: str
    """The place of the evidence, for error messages."""


class Rebuilt(NamedTuple):
    """A file that a start has rewritten from the other one, or would have to."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The definitions that a start is to use. Nothing has been changed yet."""

    image: bytes
    """The bytes of a proven file; empty for one of an older layout."""
    anew: Sequence[Rebuilt] = ()
    """Files that differ from it and are to be rewritten."""
    upgraded_from: int | None = None
    """The older layout from which the file is to be upgraded; None if it is of the current layout."""
    is_new: bool = False
    """Whether there were no definitions."""


def choose_definitions(folder: Path, *, witness: Witness | None) -> Chosen:
    """Read both files and choose one. Changes nothing.

    ``witness``: the one with the highest generation; None without evidence of definitions. Raises StoreRefused,
    StoreDamaged.
    """
    paths = folder / DEFINITIONS_FILE, folder / COPY_FILE
    both = [judged(path) for path in paths]
    best = max(both, key=lambda file: -1 if file.seal is None else file.seal.generation)  # the first one of equals
    if best.seal is None:
        return _choose_unproven(both, witness)
    if witness is not None and best.seal.generation < witness.generation:
        raise StoreDamaged(
            f"the definitions are older than they must be: {best.path} has generation {best.seal.generation}, and "
            f"{witness.source} says {witness.generation}; {_remedy(folder)}"
        )
    anew = []
    for file in both:
        if file.seal is None:
            anew.append(Rebuilt(file.path, file.why))
        elif file.seal != best.seal:
            anew.append(Rebuilt(file.path, f"it is of generation {file.seal.generation}, and not the newest"))
        if file.seal is not None and file.seal.generation == best.seal.generation and file.seal != best.seal:
            raise StoreDamaged(f"{paths[0]} and {paths[1]} contradict each other; move away the one that is wrong")
    return Chosen(image=best.image, anew=anew)


def _choose_unproven(both: Sequence[Judged], witness: Witness | None) -> Chosen:
    """Choose if neither file is proven: upgrade an older layout, begin new definitions, or refuse."""
    first = both[0]
    anew = [Rebuilt(file.path, file.why) for file in both]
    if 0 < first.layout < SCHEMA_VERSION and (witness is None or not witness.generation):
        return Chosen(image=b"", anew=anew, upgraded_from=first.layout)
    if witness is None and not any(file.image for file in both):
        return Chosen(image=new_image(DEFAULT_HOST), anew=anew, is_new=True)
    newer = next((file for file in both if file.layout > SCHEMA_VERSION), None)
    if newer is not None:
        raise StoreRefused(f"{newer.path}: {newer.why}; start the version that wrote it, or use another data folder")
    said = "; ".join(f"{file.path}: {file.why}" for file in both)
    known = "" if witness is None else f", and {witness.source} says that there were some"
    raise StoreDamaged(f"the definitions cannot be proven{known}. {said}; {_remedy(first.path.parent)}")


def check_not_older(folder: Path, generation: int, marked: int) -> None:
    """Raises StoreDamaged if the definitions are older than the marks of a lane say."""
    if generation < marked:
        raise StoreDamaged(
            f"the definitions in {folder} are older than they must be: they have generation {generation}, and "
            f"the marks of a lane say {marked}; {_remedy(folder)}"
        )


def _remedy(folder: Path) -> str:
    return (
        f"put back a copy of both files, or have the queues made anew from what their folders say: "
        f"headgate store rebuild --data {folder}"
    )
