"""Where the tables are: a folder of Parquet folders, one for each table, and Spark's notes about what has been read.

The folder is a path that Spark and whoever writes the report can reach: local, or on any file system that Spark knows.
"""

from pyspark.sql import DataFrame, SparkSession

BRONZE, SILVER = "flow_events", "block_intervals"
"""Are added to. All other tables are made anew by each run."""


def path_of(warehouse: str, table: str) -> str:
    """The folder of a table."""
    return f"{warehouse.rstrip('/')}/{table}"


def checkpoint_of(warehouse: str, query: str) -> str:
    """Where Spark notes how far a query has come; readers of tables pass over names with a leading underscore."""
    return path_of(warehouse, f"_checkpoints/{query}")


def read(spark: SparkSession, warehouse: str, table: str) -> DataFrame:
    """A table."""
    return spark.read.parquet(path_of(warehouse, table))


def write(table: DataFrame, warehouse: str, name: str) -> DataFrame:
    """Make a table anew, and read it back: what builds on it does not compute it again."""
    path = path_of(warehouse, name)
    table.write.mode("overwrite").parquet(path)
    return table.sparkSession.read.schema(table.schema).parquet(path)
