"""The examples of tutorial 17 for Delta Lake and Iceberg, on the session and the broker of these tests."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from tests.pyspark_amqp10.lake_module import FORMS, lake_module

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from amqp10.client import Message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(params=FORMS)
def example(request: pytest.FixtureRequest) -> ModuleType:
    return lake_module(request.param)


def test_a_batch_that_is_repeated_is_in_the_table_once(
    spark: "SparkSession",
    broker_options: dict[str, str],
    declare: Callable[..., str],
    take: "Callable[[str], list[Message]]",
    example: ModuleType,
    tmp_path: Path,
):
    folder, written = str(tmp_path), []
    sales = declare(f"sales-of-{example.__name__}", "x-sequence=true", "x-enqueued-time=true")
    again = declare(f"sales-of-{example.__name__}-again")
    orders = spark.range(40).selectExpr(
        "'an order' AS body",
        "'o' || id AS messageId",
        "map('tenant', struct('string' AS type, 'c' || id % 7 AS text)) AS properties",
    )
    orders.write.format("amqp10").mode("append").options(**broker_options, address=sales).save()
    batches_of_20 = broker_options | {"maxRowsPerTrigger": "20"}

    def write(frame: "DataFrame", batch: int, folder: str) -> None:
        example.append(frame, batch, folder)
        written.append(batch)
        if len(written) == 1:
            raise InterruptedError("after the commit of the table, before that of Spark")

    with pytest.raises(Exception, match="after the commit of the table"):
        example.archive(spark, batches_of_20, folder, sales, write)
    assert example.read(folder).num_rows == 20

    example.archive(spark, batches_of_20, folder, sales, write)
    assert written == [0, 0, 1]
    assert take(sales) == []
    ids = sorted(f"o{number}" for number in range(40))
    assert sorted(example.read(folder)["messageId"].to_pylist()) == ids

    example.send_back(spark, broker_options, folder, again)
    back = take(again)
    assert sorted(str(message.properties and message.properties.message_id) for message in back) == ids
    assert {message.application_properties["tenant"] for message in back} == {f"c{number}" for number in range(7)}
