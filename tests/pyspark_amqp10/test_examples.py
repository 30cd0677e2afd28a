"""The examples of tutorial 17, on the session and the broker of these tests."""

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.kit.broker_process import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from amqp10.client import Message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LAKE = ROOT / "examples" / "18_spark_lake.py"
NOTEBOOK = ROOT / "examples" / "18_spark_notebook.ipynb"
PAGE = ROOT / "docs" / "tutorials" / "17-spark.md"
README = ROOT / "distributions" / "pyspark-amqp10" / "README.md"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_lake", LAKE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def filled(
    spark: "SparkSession", broker_options: dict[str, str], declare: Callable[..., str], example: ModuleType
) -> None:
    """Declare the queues of the page, as it says, and fill them."""
    for words in (line.split() for line in PAGE.read_text("utf-8").splitlines() if "queues declare" in line):
        declare(words[3], *(word for word in words[4:] if word != "--argument"))
    example.fill(spark, broker_options)


def test_a_queue_goes_into_a_table_and_back(
    spark: "SparkSession",
    broker_options: dict[str, str],
    example: ModuleType,
    filled: None,
    take: "Callable[[str], list[Message]]",
    tmp_path: Path,
):
    example.archive(spark, broker_options, str(tmp_path))
    assert take("/queues/sales") == []
    assert [path.name[:6] for path in (tmp_path / "sales").glob("day=*")] == ["day=20"]

    example.send_back(spark, broker_options, str(tmp_path))
    back = take("/queues/sales-again")
    assert len(back) == 1000
    ids = {message.properties and message.properties.message_id for message in back}
    assert ids == {f"o{number}" for number in range(1000)}
    assert {message.application_properties["tenant"] for message in back} == {f"c{number}" for number in range(7)}


def test_streams_are_joined(
    spark: "SparkSession", broker_options: dict[str, str], example: ModuleType, filled: None, tmp_path: Path
):
    example.join(spark, broker_options, str(tmp_path))
    assert spark.read.parquet(f"{tmp_path}/paid").where("cents IS NOT NULL").count() == 500


def test_orders_are_counted_by_time(
    spark: "SparkSession",
    broker_options: dict[str, str],
    example: ModuleType,
    filled: None,
    take: "Callable[[str], list[Message]]",
    tmp_path: Path,
):
    example.count(spark, broker_options, str(tmp_path))
    totals = [json.loads(message.body) for message in take("/queues/totals") if isinstance(message.body, bytes)]
    assert sum(total["orders"] for total in totals) == 1000
    assert sum(total["cents"] for total in totals) == sum(range(0, 10_000, 10))


def test_the_cells_of_the_notebook_run(
    spark: "SparkSession", broker_options: dict[str, str], declare: Callable[..., str], tmp_path: Path
):
    declare("readings-of-a-notebook", "x-queue-type=stream", "x-enqueued-time=true")
    names: dict[str, object] = {}
    changed = {
        "/queues/readings": "/queues/readings-of-a-notebook",
        "amqp://127.0.0.1:5672": broker_options["url"],
        "guest.password": broker_options["passwordFile"],
        '"readings-': f'"{tmp_path}/readings-',
    }
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    for cell in cells:
        assert cell.get("outputs", []) == []
        if cell["cell_type"] == "code":
            text = "".join(cell["source"])
            for before, after in changed.items():
                text = text.replace(before, after)
            exec(compile(text, str(NOTEBOOK), "exec"), names)
    assert spark.read.parquet(f"{tmp_path}/readings-parquet").count() == 1000


def test_the_readme_of_the_distribution_is_right(
    spark: "SparkSession",
    broker_options: dict[str, str],
    declare: Callable[..., str],
    take: "Callable[[str], list[Message]]",
    tmp_path: Path,
):
    declare("orders-of-a-readme", "x-sequence=true")
    declare("readings-of-a-readme", "x-queue-type=stream")
    row = spark.createDataFrame([("21", "room")], "body string, subject string")
    for address in ("/queues/orders-of-a-readme", "/queues/readings-of-a-readme"):
        row.write.format("amqp10").mode("append").options(**broker_options, address=address).save()
    names: dict[str, object] = {"spark": spark}
    for text in re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for before, after in {
            "amqp://127.0.0.1:5672": broker_options["url"],
            "guest.password": broker_options["passwordFile"],
            "/queues/orders": "/queues/orders-of-a-readme",
            "/queues/readings": "/queues/readings-of-a-readme",
            '"orders-': f'"{tmp_path}/orders-',
        }.items():
            text = text.replace(before, after)
        exec(compile(text, str(README), "exec"), names)
    assert spark.read.parquet(f"{tmp_path}/orders-parquet").count() == 1
    assert [message.body for message in take("/queues/orders-of-a-readme")] == [b"21"]
