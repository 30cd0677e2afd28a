"""The place of the tables: a folder of Parquet folders, one for each table, and Spark's checkpoints.

The folder is a path that both Spark and the report can reach: local, or on any file system that Spark knows.
"""

from pyspark.sql import DataFrame, SparkSession

BRONZE, SILVER = "flow_events", "block_intervals"
"""Tables to which rows are appended. All others are recomputed by each run."""


def path_of(warehouse: str, table: str) -> str:
    """The folder of a table."""
    return f"{warehouse.rstrip('/')}/{table}"


def checkpoint_of(warehouse: str, query: str) -> str:
    """The folder in which Spark stores a query's position; readers of tables ignore names with a leading underscore."""
    return path_of(warehouse, f"_checkpoints/{query}")


def read(spark: SparkSession, warehouse: str, table: str) -> DataFrame:
    """Read a table."""
    return spark.read.parquet(path_of(warehouse, table))


def write(table: DataFrame, warehouse: str, name: str) -> DataFrame:
    """Write a table anew, and read it back, so that tables made from it do not compute it again."""
    path = path_of(warehouse, name)
    table.write.mode("overwrite").parquet(path)
    return table.sparkSession.read.schema(table.schema).parquet(path)
