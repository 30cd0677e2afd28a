"""The place of the tables: a folder with Parquet files by table and day, and one file that says which of them count.

``tables.json`` names the files of every table. A run writes new files beside the old ones and then replaces
``tables.json``, which changes all tables at once; what it does not name is not there. All names are relative, so the
folder can be moved. It may be on any file system that both Spark and Arrow know: local, or with a URL.

Readers that know nothing of ``tables.json`` can read ``TABLE/*/*.parquet``: at rest, it names exactly those files.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from pipeline.jobs.contents import CONTENTS, UNDATED, Contents, place_of, read_contents

NEW = "_new"
"""What is being written; readers of tables ignore names with a leading underscore."""


class Warehouse:
    """The folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder.rstrip("/")
        self._fs, self._root = place_of(folder)
        self.contents = read_contents(self._fs, self._root) or Contents()
        self._synced = self.contents.all_files()

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def size_of(self, names: Iterable[str]) -> int:
        """Bytes of files."""
        return sum(info.size for info in self._fs.get_file_info([self._at(name) for name in names]))

    def checkpoint_of(self, query: str) -> str:
        """The folder in which Spark stores a query's position."""
        return f"{self.folder}/_checkpoints/{query}"

    def query_of(self, query: str) -> str:
        """The identity that Spark gave a query: another one counts its batches from 0 again."""
        with self._fs.open_input_stream(self._at(f"_checkpoints/{query}/metadata")) as file:
            found: str = json.loads(file.read())["id"]
            return found

    def read(self, spark: SparkSession, table: str, schema: str, days: Sequence[str] | None = None) -> DataFrame:
        """A table, or some days of it, with its column ``day``."""
        by_day = self.contents.tables.get(table, {})
        names = [name for day in sorted(by_day) if days is None or day in days for name in by_day[day]]
        whole = f"{schema}, day date"
        if not names:
            return spark.createDataFrame([], whole)
        reader = spark.read.schema(whole).option("basePath", f"{self.folder}/{table}")
        return reader.parquet(*(f"{self.folder}/{name}" for name in names))

    def read_files(self, spark: SparkSession, table: str, like: DataFrame, files: dict[str, list[str]]) -> DataFrame:
        """What was just written of a table; ``like`` has its columns."""
        names = [name for day in sorted(files) for name in files[day]]
        if not names:
            return spark.createDataFrame([], like.schema)
        reader = spark.read.schema(like.schema).option("basePath", f"{self.folder}/{table}")
        return reader.parquet(*(f"{self.folder}/{name}" for name in names))

    def write(self, table: DataFrame, name: str, *, unique: str) -> dict[str, list[str]]:
        """Write rows into new files that do not count yet; returns them by day. ``unique`` is a part of their names
        that no other write has.

        A table without a column ``day`` is of the day :data:`UNDATED`.
        """
        new = f"{NEW}/{name}"
        writer = table.write.mode("overwrite").option("compression", "zstd")
        by_day = "day" in table.columns
        if by_day:
            writer = writer.partitionBy("day")
        writer.parquet(f"{self.folder}/{new}")
        found: dict[str, list[str]] = {}
        selector = pafs.FileSelector(self._at(new), recursive=True)
        infos = sorted(self._fs.get_file_info(selector), key=lambda info: str(info.path))
        for number, info in enumerate(info for info in infos if info.path.endswith(".parquet")):
            folder = Path(info.path).parent.name
            if by_day and not folder.startswith("day="):
                continue  # without any rows there is a file without a day
            day = folder.removeprefix("day=") if by_day else UNDATED
            place = f"{name}/day={day}" if day else f"{name}/all"
            self._fs.create_dir(self._at(place), recursive=True)
            found.setdefault(day, []).append(f"{place}/{unique}-{number:04}.parquet")
            self._fs.move(info.path, self._at(found[day][-1]))
        self._fs.delete_dir(self._at(new))
        return found

    def write_empty(self, table: DataFrame, name: str, day: str, *, unique: str) -> list[str]:
        """A file without rows, so that a table without rows has its columns."""
        from pyspark.sql.pandas.types import to_arrow_schema

        place = f"{name}/day={day}" if day else f"{name}/all"
        schema = to_arrow_schema(table.drop("day").schema, timezone="UTC")
        self._fs.create_dir(self._at(place), recursive=True)
        file = f"{place}/{unique}-0000.parquet"
        pq.write_table(schema.empty_table(), self._at(file), filesystem=self._fs)
        return [file]

    def merge(self, names: Sequence[str], into: str) -> None:
        """Write the rows of files into one, batch by batch."""
        with pq.ParquetFile(self._at(names[0]), filesystem=self._fs) as first:
            schema = first.schema_arrow
        with pq.ParquetWriter(self._at(into), schema, filesystem=self._fs, compression="zstd") as writer:
            for name in names:
                with pq.ParquetFile(self._at(name), filesystem=self._fs) as file:
                    for batch in file.iter_batches():
                        writer.write_table(pa.Table.from_batches([batch]).cast(schema))

    def commit(self) -> None:
        """Make ``contents`` the truth at once, then delete the files that do not count any more."""
        self.contents.version += 1
        new = self._at(f"_{CONTENTS}")
        with self._fs.open_output_stream(new) as file:
            file.write(self.contents.text().encode())
        self._sync([*sorted(self.contents.all_files() - self._synced), f"_{CONTENTS}"])
        self._fs.move(new, self._at(CONTENTS))
        self._sync(["."])
        self.clean()

    def _sync(self, names: Sequence[str]) -> None:
        """Make sure that files, or a folder's names, are on the disk; other file systems than a local one see to that
        themselves."""
        if not isinstance(self._fs, pafs.LocalFileSystem):
            return
        for name in names:
            number = os.open(self._at(name), os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
        self._synced = self.contents.all_files()

    def clean(self) -> None:
        """Delete the files of tables that do not count: replaced ones, and those of a run that was killed."""
        counting = self.contents.all_files()
        for table in self.contents.tables:
            selector = pafs.FileSelector(self._at(table), recursive=True, allow_not_found=True)
            for info in self._fs.get_file_info(selector):
                name = info.path.removeprefix(self._root).lstrip("/")
                if info.type == pafs.FileType.File and name not in counting:
                    self._fs.delete_file(info.path)

    def put(self, name: str, text: str) -> None:
        """Write a small file of text beside the tables."""
        with self._fs.open_output_stream(self._at(name)) as file:
            file.write(text.encode())


def path_of(warehouse: str, table: str) -> str:
    """The folder of a table that Spark alone writes: the archive."""
    return f"{warehouse.rstrip('/')}/{table}"


def checkpoint_of(warehouse: str, query: str) -> str:
    """The folder in which Spark stores the position of a query of the archive."""
    return path_of(warehouse, f"_checkpoints/{query}")


def read(spark: SparkSession, warehouse: str, table: str) -> DataFrame:
    """Read a table that Spark alone writes."""
    return spark.read.parquet(path_of(warehouse, table))
