"""``python -m tests.crash.every_kind.make FOLDER``: make the data folders of every kind, and say what is in them.

Two brokers fill a folder each: ``killed`` and ``stopped`` are named after how they ended. The archive and the manifest
beside this file are replaced; FOLDER keeps the folders for a look at them. Messages with a time-to-live must have
expired before anything can be looked at, so a run takes about a minute.

Only a change of the format needs new folders: put them under a name of their own, and keep the old ones in the test.
"""

import argparse
import json
import shutil
import signal
import tarfile
import time
from pathlib import Path

import trio

from core.store.folder import FORMAT
from tests.crash.every_kind.filled import TTL_S, fill
from tests.crash.every_kind.visit import visited

HERE = Path(__file__).parent
ARCHIVE = HERE / f"format_{FORMAT}.tar.xz"
MANIFEST = HERE / f"format_{FORMAT}.json"
ENDS = {"killed": signal.SIGKILL, "stopped": signal.SIGTERM}


def made(root: Path) -> None:
    """Make the folders below ``root``, the archive and the manifest."""
    began = time.monotonic()
    for name, ended in ENDS.items():
        (root / name).mkdir(parents=True)
        trio.run(fill, root / name / "data", ended)
        print(f"{name}: filled, {time.monotonic() - began:.0f} s", flush=True)
    at = time.time()
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for name in ENDS:
            archive.add(root / name / "data", name, filter=_of_no_user)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size:,} bytes; waiting until messages have expired", flush=True)
    time.sleep(TTL_S)
    manifest: dict[str, object] = {"made": at}
    for name in ENDS:
        copy = root / name / "visited"
        shutil.copytree(root / name / "data", copy)
        manifest[name] = trio.run(visited, copy, at)
    MANIFEST.write_text(written(manifest, 4) + "\n")
    print(f"{MANIFEST}: {MANIFEST.stat().st_size:,} bytes, {time.monotonic() - began:.0f} s")


def written(value: object, levels: int) -> str:
    """The value as JSON with a line for each entry of the outer levels."""
    if levels and isinstance(value, dict):
        lines = [f"{json.dumps(name)}: {written(entry, levels - 1)}" for name, entry in value.items()]
        return "{\n" + ",\n".join(lines) + "\n}"
    if levels and isinstance(value, list) and value:
        return "[\n" + ",\n".join(written(entry, 0) for entry in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)


def _of_no_user(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same file without the user who made it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    """Read the command line and make the folders."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m tests.crash.every_kind.make",
    )  # fmt: skip
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    made(parser.parse_args().folder)


if __name__ == "__main__":
    main()
