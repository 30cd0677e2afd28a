"""``tables.json``: which files of a warehouse count. Reading it needs no Spark."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

BRONZE, IN_EFFECT = "flow_events", "in_effect"
"""The table to which rows are appended, and the records that each day begins with. All others are answers."""
FORMAT = 1
"""The format of ``tables.json``."""
CONTENTS = "tables.json"
UNDATED = ""
"""The day of tables that are not by day."""
READS_MAX = 5
"""How often a reader begins again because a run has replaced the files that it was about to read."""


class OtherWarehouse(Exception):
    """The folder has tables of another version of the pipeline. The text says what to do."""


@dataclass(slots=True)
class Day:
    """What is known of a day whose tables were made."""

    made_from: list[str]
    """The bronze files."""
    was_newest: bool
    """Whether no later day was there."""
    has_open: bool
    """Whether something stood still at its end: a later day makes that longer."""
    began_with: str
    """A digest of the records in effect at its begin."""


@dataclass(slots=True)
class Contents:
    """What ``tables.json`` says."""

    version: int = 0
    query: str = ""
    batch: int = -1
    """The last batch of the streaming query that is in bronze: one that Spark repeats after a crash is not added."""
    too_late: int = 0
    """Records that came after their day was removed, in all."""
    days: dict[str, Day] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    """Of the records in effect, by the day that begins with them."""
    tables: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Files by table and day, relative to the folder."""

    @staticmethod
    def read(text: str) -> "Contents":
        """Read the text of the file."""
        found: dict[str, Any] = json.loads(text)
        if found.pop("format", None) != FORMAT:
            raise ValueError
        found["days"] = {day: Day(**known) for day, known in found["days"].items()}
        return Contents(**found)

    def text(self) -> str:
        """The text of the file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True) + "\n"

    def files(self, table: str) -> list[str]:
        """The files of a table, relative to the folder."""
        return [name for day in sorted(self.tables.get(table, {})) for name in self.tables[table][day]]

    def all_files(self) -> set[str]:
        """All files that count."""
        return {name for table in self.tables for name in self.files(table)}


def place_of(folder: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a folder, and its path there."""
    folder = folder.rstrip("/")
    fs, root = pafs.FileSystem.from_uri(folder if "://" in folder else Path(folder).absolute().as_uri())
    return fs, root


def read_contents(fs: pafs.FileSystem, root: str) -> Contents | None:
    """What the folder has; None when it has no tables. Raises OtherWarehouse."""
    name = f"{root}/{CONTENTS}"
    if fs.get_file_info(name).type == pafs.FileType.NotFound:
        if fs.get_file_info(f"{root}/{BRONZE}/_spark_metadata").type != pafs.FileType.NotFound:
            raise OtherWarehouse(f"{root} has tables of an older version; make them anew in another folder")
        return None
    with fs.open_input_stream(name) as file:
        try:
            return Contents.read(file.read().decode())
        except (ValueError, TypeError, KeyError, AttributeError):
            raise OtherWarehouse(f"{name} is of another version, or damaged") from None


def read_table(
    fs: pafs.FileSystem,
    root: str,
    contents: Contents,
    table: str,
    days: Sequence[str] | None,
    *,
    columns: Sequence[str] | None = None,
    chosen: ds.Expression | None = None,
) -> pa.Table | None:
    """Rows of a table with their ``day``; None for one that has no files."""
    by_day = contents.tables.get(table, {})
    names = [name for day in sorted(by_day) if days is None or day in days or day == UNDATED for name in by_day[day]]
    if not names:
        return None
    parts = ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive")
    found = ds.dataset(
        [f"{root}/{name}" for name in names], format="parquet", filesystem=fs, partitioning=parts,
        partition_base_dir=f"{root}/{table}",
    )  # fmt: skip
    return found.to_table(columns=columns, filter=chosen)
