"""CPU time per row that the sink needs to encode rows of six kinds: ``python -m tests.pyspark_amqp10.measure_encode``.

The rows are those of the messages of :mod:`tests.pyspark_amqp10.measure_decode`. They are written with typed values, as
a source hands them over, and with texts, as most programs make them; each with the annotations of the sink. No broker
and no Spark takes part.
"""

from time import process_time

import pyarrow as pa

from pyspark_amqp10.columns import MAP_COLUMNS, SCHEMA, TEXT_MAP
from pyspark_amqp10.encoding import RowEncoder
from pyspark_amqp10.rows import MessageRows
from pyspark_amqp10.sink import runs
from pyspark_amqp10.sink_options import OF_THE_BROKER
from tests.pyspark_amqp10.measure_decode import KINDS, REPEATS, ROWS

WRITTEN = pa.schema([field for field in SCHEMA if field.name not in (*OF_THE_BROKER, "address")])
TEXTS = pa.schema([(field.name, TEXT_MAP if field.name in MAP_COLUMNS else field.type) for field in WRITTEN])


def rows_of(entries: list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of messages, with the columns of which any row has a value."""
    rows = MessageRows("/queues/q", schema)
    rows.take(entries)
    batch = rows.columns()
    return batch.select([name for name in schema.names if batch.column(name).null_count < batch.num_rows])


def cost_us(batch: pa.RecordBatch) -> float:
    """CPU time of one row in microseconds."""
    encoder, least = RowEncoder(durable=True, batch="0f2b6c1e/0/0"), float("inf")
    for _ in range(REPEATS):
        begin = process_time()
        first = 0
        for rows in runs(batch):
            encoder.encode(rows, first)
            first += rows.num_rows
        least = min(least, process_time() - begin)
    return least / batch.num_rows * 1e6


def main() -> None:
    """Print one line for each kind."""
    print(f"{'kind':20} typed values   texts, without types   (microseconds a row)")
    for kind in KINDS:
        entries = [kind(number) for number in range(ROWS)]
        typed, texts = rows_of(entries, WRITTEN), rows_of(entries, TEXTS)
        few = texts.select([name for name in texts.schema.names if not name.endswith("Type")])
        print(f"{kind.__name__:20} {cost_us(typed):12.2f}   {cost_us(few):20.2f}")


if __name__ == "__main__":
    main()
