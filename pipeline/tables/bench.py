"""The benchmarks' result files as tables: every figure of every file, each compared with the file before."""

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

FORMAT = 1
"""The format of result files; files of other formats are ignored."""
RESULT_FILE = """
    format bigint,
    environment struct<commit string, interpreter string, compiled boolean, machine string, memory_gib bigint,
        kernel string, fdatasync_p50_ms double>,
    entries array<struct<scenario string, parameters struct<client string>, broker string, void string,
        spread map<string, struct<median double, low double, high double>>>>
"""
LIKE = ("scenario", "broker", "figure", "interpreter", "compiled", "machine", "memory_gib")
"""Figures are compared only where all of these are the same."""


def bench_results(spark: SparkSession, folder: str) -> DataFrame:
    """``bench_results``: a row for each figure of a scenario on a broker, with its spread over the runs.

    Files are in order of their names, which begin with the day. A scenario with another project's client is one of its
    own, for example ``unbatched-12 with go-amqp``.
    """
    files = spark.read.schema(RESULT_FILE).option("multiLine", True).option("pathGlobFilter", "*.json").json(folder)
    name = F.element_at(F.split(F.col("_metadata.file_path"), "/"), -1)
    client = F.col("entry.parameters.client")
    return (
        files.filter(F.col("format") == FORMAT)
        .select(name.alias("file"), "environment.*", F.explode("entries").alias("entry"))
        .select(
            *("file", "commit", "interpreter", "compiled", "machine", "memory_gib", "kernel", "fdatasync_p50_ms"),
            F.concat_ws(" with ", "entry.scenario", F.when(client != "own", client)).alias("scenario"),
            "entry.broker",
            (F.col("entry.void") != "").alias("void"),
            F.explode("entry.spread").alias("figure", "spread"),
        )
        .select("*", "spread.median", "spread.low", "spread.high")
        .drop("spread")
    )


def bench_compared(results: DataFrame) -> DataFrame:
    """``bench_compared``: each valid figure with that of the file before for the same scenario, broker and machine.

    ``ratio`` is the median divided by the earlier one; ``overlap`` says that the spreads share a value, so that the
    difference may be noise.
    """
    before = Window.partitionBy(*LIKE).orderBy("file")
    sound = results.filter(~F.col("void"))
    columns = ("file", "commit", "median", "low", "high")
    earlier = sound.select("*", *(F.lag(name).over(before).alias(f"earlier_{name}") for name in columns))
    return (
        earlier.filter("earlier_file is not null")
        .withColumn("ratio", F.try_divide("median", F.col("earlier_median")))
        .withColumn("overlap", F.expr("low <= earlier_high and earlier_low <= high"))
    )
