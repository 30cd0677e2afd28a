"""``python -m tests.faults.files``: one file of a data folder is damaged, and a broker starts on what is left.

Every file of a folder is deleted, emptied, cut short at five places, has one bit changed, has a block of zeros in it or
is swapped with an older copy of itself: once after a kill, once after an orderly stop. Whole folders are deleted too. A
damage has one of these results:

- *whole*: every message is there, in its order, and no settled message is back.
- *whole, told*: the same, and a line of the log names the file.
- *refused*: the start, or a later read of the record, fails with an error that says what is damaged and what to do.
- *lost, told*: messages are missing, and a line of the log says so.
- *silent*: messages are missing, back or out of order, and no line says so. This must not happen.
- *deleted*: a start that lost messages, or refused, removed files of messages. This must not happen.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from core.store.errors import StoreDamaged, StoreFailure, StoreRefused
from core.store.record import HEADER_BYTES, SoundRecord, scan
from tests.faults.folders import Life, Template, make_template

BLOCKS = (512, 4096)
CUTS = 5
REMEDIES = ("put back", "store.salvage", "headgate store", "name another", "write ")
"""The words of which a refusal has one."""
LEFT_ALONE = ("reserve", "headgate.lock")
"""Files whose content has no meaning."""
BAD = ("silent", "deleted")
WHOLE_FOLDERS = ("classic", "quorum", "streams", "queues", "msg_store_persistent")


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage to a file. ``act`` returns False when it does not change the file."""

    kind: str
    path: str
    act: Callable[[Path], bool]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.path} {self.kind}{self.detail}"


def kind_of(path: str) -> str:
    """The kind of the file, for the table."""
    name = path.rpartition("/")[2]
    ends = {
        ".marks": "marks", ".idx": "queue index", ".rdq": "message store", ".seg": "stream segment",
        ".log": "command log",
    }  # fmt: skip
    for suffix, kind in ends.items():
        if name.endswith(suffix):
            return kind
    return name


def damages(template: Template, rng: Random) -> Iterator[Damage]:
    """All damages to the files of a folder."""
    for file in sorted(template.folder.rglob("*")):
        path = str(file.relative_to(template.folder))
        if file.is_dir():
            if path in WHOLE_FOLDERS or path.startswith(("queues/", "streams/")):
                yield Damage("folder deleted", path, _remove_folder)
        elif path not in LEFT_ALONE:
            yield from _to_one(template, path, file.read_bytes(), rng)


def _to_one(template: Template, path: str, data: bytes, rng: Random) -> Iterator[Damage]:
    yield Damage("deleted", path, _remove)
    if data:
        yield Damage("emptied", path, lambda file: _put(file, b""))
        for place in _places_to_cut(data, rng):
            yield Damage("cut", path, lambda file, place=place: _put(file, data[:place]), f" at {place}")  # type: ignore[misc]
        for _ in range(2):
            bit = rng.randrange(8 * len(data))
            yield Damage("one bit", path, lambda file, bit=bit: _flip(file, data, bit), f" {bit}")  # type: ignore[misc]
        for block in BLOCKS:
            for start in {rng.randrange(len(data)) // block * block, (len(data) - 1) // block * block}:
                zeroed = data[:start] + bytes(min(block, len(data) - start)) + data[start + block :]
                yield Damage(
                    f"{block} zeroed",
                    path,
                    lambda file, new=zeroed: _put(file, new),  # type: ignore[misc]
                    f" at {start}",
                )
    older = template.older / path
    if older.is_file():
        yield Damage("older copy", path, lambda file: _put(file, older.read_bytes()))


def _places_to_cut(data: bytes, rng: Random) -> list[int]:
    """Places to cut a file: the beginnings of records, where no record is torn, and others at random."""
    bounds = [
        found.offset
        for found in scan(lambda offset, length: data[offset : offset + length], len(data))
        if isinstance(found, SoundRecord) and found.offset
    ]
    places = {len(data) - 1, len(data) // 2, min(len(data) - 1, HEADER_BYTES)}
    places |= set(bounds[-1:]) | ({rng.choice(bounds)} if bounds else set())
    while len(places) < min(CUTS, len(data)):
        places.add(rng.randrange(len(data)))
    return sorted(places)


def _remove(file: Path) -> bool:
    file.unlink()
    return True


def _remove_folder(folder: Path) -> bool:
    shutil.rmtree(folder)
    return True


def _put(file: Path, data: bytes) -> bool:
    changed = file.read_bytes() != data
    file.write_bytes(data)
    return changed


def _flip(file: Path, data: bytes, bit: int) -> bool:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return _put(file, bytes(changed))


# --- results -----------------------------------------------------------------------------------------------------


def judged(template: Template, damage: Damage, folder: Path) -> tuple[str, str]:
    """Damage ``folder``, a copy of the template's, and start on it; returns the result, and the lines that were
    logged."""
    before = _files(folder)
    try:
        life = Life(folder)
    except (StoreRefused, StoreDamaged, StoreFailure) as refusal:
        if missing := [path for path, data in before.items() if _content(folder / path) != data]:
            return "deleted", f"{missing[:3]} changed by a start that refused: {refusal}"
        return _refused(refusal)
    try:
        return _compared(template, life, [path for path in before if not (folder / path).exists()])
    except (StoreDamaged, StoreFailure) as refusal:
        return _refused(refusal)
    finally:
        life.data.close()


def _refused(refusal: Exception) -> tuple[str, str]:
    remedy = any(word in str(refusal).lower() for word in REMEDIES)
    return ("refused" if remedy or isinstance(refusal, StoreFailure) else "silent"), str(refusal)


def _compared(template: Template, life: Life, vanished: list[str]) -> tuple[str, str]:
    wrong = []
    for name, expected in template.content.items():
        found = life.content(name) if name in {row["name"] for row in life.broker.snapshot("queues")} else []
        if found != expected:
            lost = sorted(set(expected) - set(found))
            back = sorted(set(found) & template.settled[name])
            wrong.append(f"{name}: {len(lost)} lost {lost[:3]}, {len(back)} back {back[:3]}, of {len(expected)}")
    told = life.told()
    about = "; ".join([*wrong, *told])
    if wrong and vanished:
        return "deleted", f"{vanished[:3]}; {about}"
    if wrong:
        return ("lost, told" if told else "silent"), about
    return ("whole, told" if told else "whole"), about


def _files(folder: Path) -> dict[str, bytes]:
    """The files that hold messages."""
    suffixes = (".idx", ".rdq", ".seg", ".log")
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.suffix in suffixes and not str(file.relative_to(folder)).startswith("msg_store_tr")
    }


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


# --- many --------------------------------------------------------------------------------------------------------

Table = Counter[tuple[str, str, str]]
"""Counts by result, kind of file and kind of damage."""


def run(
    cases: int | None, seed: int, where: Path, *, long: bool, say: Callable[[str], None]
) -> tuple[Table, list[str]]:
    """Do this many damages, or all of them. Returns the table, and the cases that must not happen."""
    rng = Random(seed)
    table: Table = Counter()
    bad: list[str] = []
    todo = []
    for orderly in (False, True):
        template = make_template(where / str(orderly), seed, orderly=orderly, long=long)
        todo += [(template, damage) for damage in damages(template, rng)]
        undamaged = judged(template, Damage("nothing", "", lambda file: True), _copied(template, where))
        assert undamaged[0] == "whole", undamaged
    if cases is not None:
        todo = rng.sample(todo, min(cases, len(todo)))
    for number, (template, damage) in enumerate(todo, 1):
        folder = _copied(template, where)
        if damage.act(folder / damage.path):
            outcome, about = judged(template, damage, folder)
            table[outcome, kind_of(damage.path), damage.kind] += 1
            if outcome in BAD:
                bad.append(f"{outcome}: after {template.name}, {damage}: {about}")
        if number % 100 == 0:
            say(f"{number} of {len(todo)}, {len(bad)} bad")
    return table, bad


def _copied(template: Template, where: Path) -> Path:
    folder = where / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template.folder, folder)
    return folder


def show(table: Table) -> list[str]:
    """Write the table by kind of file and damage, with the totals at the end."""
    return list(_shown(table))


def _shown(table: Table) -> Iterator[str]:
    outcomes = sorted({outcome for outcome, _, _ in table})
    yield f"{'file':22} {'damage':15} " + " ".join(f"{outcome:>12}" for outcome in outcomes)
    for kind, done in sorted({(kind, done) for _, kind, done in table}):
        yield f"{kind:22} {done:15} " + " ".join(f"{table[outcome, kind, done] or '':>12}" for outcome in outcomes)
    totals = Counter[str]()
    for (outcome, _, _), many in table.items():
        totals[outcome] += many
    yield f"{table.total():,} cases: " + ", ".join(f"{many:,} {outcome}" for outcome, many in sorted(totals.items()))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m tests.faults.files"
    )
    parser.add_argument("--cases", type=int, help="how many, chosen by chance; default: all, some 1,500")
    parser.add_argument("--seed", type=int, default=1, help="repeats a run's random choices (default 1)")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headgate-files-") as where:
        table, bad = run(
            arguments.cases, arguments.seed, Path(where), long=True, say=lambda line: print(line, flush=True)
        )
    print("\n".join(show(table)))
    print(f"seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    if bad:
        sys.exit("\n".join([f"{len(bad)} that should not be:", *bad]))


if __name__ == "__main__":
    main()
