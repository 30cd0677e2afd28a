"""The batch and the streaming sink of ``format("amqp10")``. A row counts as written when the broker has accepted it.

Each task has its own connection. Rows are sent in runs as link credit allows, and the task ends when all have their
outcome. If a row is not accepted, or no outcome comes for ``confirmTimeout``, the task fails with the row and the
reason. Spark may repeat a task, and after a crash a batch: then its rows are sent again. So a sink is at-least-once.
Two annotations of each message tell its row and batch, so that a consumer can drop repeated messages.
"""

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_amqp10.encoding import RowEncoder
from pyspark_amqp10.errors import BadMessage, BadOption, ClientError
from pyspark_amqp10.row_sender import RowSender
from pyspark_amqp10.sink_options import SinkOptions, check_columns

LOG = logging.getLogger(__name__)
RUN_ROWS_MAX: Final = 4096
"""Rows that are encoded and sent at once: as much as Headgate's link credit, ``amqp10.wanted_link_credit_max``. A task
takes a fifth less CPU time for a row than with 2048."""
RUN_BYTES_MAX: Final = 67_108_864
"""About so many bytes of rows are encoded at once: until they are sent each exists twice, as a row and as a
message."""
QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
"""Local properties that Spark gives to the tasks of a streaming query (StreamExecution, MicroBatchExecution): a query
keeps its id, and a batch its number, over restarts from the same checkpoint."""
WRITE_ID_BYTES: Final = 8
"""Random bytes that tell batch writes apart: 64 bits."""


@dataclass(frozen=True, slots=True)
class RowsWritten(WriterCommitMessage):
    """A task's message to the driver."""

    partition: int
    rows: int


def runs(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in the parts that are encoded and sent at once, equally many but for the last."""
    some = max(1, min(RUN_ROWS_MAX, RUN_BYTES_MAX * rows.num_rows // max(1, rows.nbytes)))
    return (rows.slice(at, some) for at in range(0, rows.num_rows, some))


@dataclass(frozen=True, slots=True)
class RowWriter:
    """The work of a task, for both sinks. It travels to the executors."""

    options: SinkOptions

    def write(self, batches: Iterator[pa.RecordBatch], *, partition: int, batch: str) -> RowsWritten:
        """Send all rows of a partition, and wait until the broker has accepted them. Raises ClientError.

        ``batch`` is the value of the annotation: the same when the partition is written again.
        """
        encoder = RowEncoder(self.options.durable, batch if self.options.batch_id_annotation else None)
        some = (run for rows in batches for run in runs(rows))
        first = next(some, None)
        if first is None:
            return RowsWritten(partition, 0)  # empty partitions need no connection
        try:
            return RowsWritten(partition, self._send(encoder, first, some))
        except ClientError as error:
            raise type(error)(f"{batch}: {error.text}", error.condition) from None

    def _send(self, encoder: RowEncoder, first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> int:
        options = self.options
        with options.login.connect(container_id=options.container_id) as connection:
            sender = RowSender(
                connection,
                unconfirmed_max=options.unconfirmed_max,
                links_max=options.links_max,
                within_s=options.confirm_time_out_s,
                link_name=options.link_name,
            )
            row, rows = 0, first
            while rows is not None:
                entries = encoder.encode(rows, row)
                for address, indices in self._by_address(rows, row).items():
                    if len(indices) == len(entries):
                        sender.send(address, entries, range(row, row + len(entries)))
                    else:
                        chosen = [entries[index] for index in indices]
                        sender.send(address, chosen, [row + index for index in indices])
                row += rows.num_rows
                rows = next(others, None)
            return sender.finish()

    def _by_address(self, rows: pa.RecordBatch, first_row: int) -> Mapping[str, Sequence[int]]:
        """The rows for each address, in order."""
        default = self.options.address
        if "address" not in rows.schema.names:
            assert default is not None  # checked by check_columns
            return {default: range(rows.num_rows)}
        groups: dict[str, list[int]] = {}
        for index, own in enumerate(rows.column("address").to_pylist()):
            address = own or default
            if address is None:
                raise BadMessage(f"row {first_row + index}: column address is null, and there is no option address")
            groups.setdefault(address, []).append(index)
        return groups


class BatchSink(DataSourceArrowWriter):
    """The sink behind ``df.write.format("amqp10")``."""

    def __init__(self, options: SinkOptions) -> None:
        self._writer = RowWriter(options)
        self._write_id = secrets.token_hex(WRITE_ID_BYTES)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        """See :meth:`RowWriter.write`."""
        partition = _task().partitionId()
        return self._writer.write(iterator, partition=partition, batch=f"{self._write_id}/0/{partition}")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many messages were sent: they cannot be taken back."""
        _tell_abort(f"write {self._write_id}", messages)


class StreamSink(DataSourceStreamArrowWriter):
    """The sink behind ``df.writeStream.format("amqp10")``."""

    def __init__(self, options: SinkOptions) -> None:
        self._writer = RowWriter(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowsWritten:
        """See :meth:`RowWriter.write`."""
        task = _task()
        partition = task.partitionId()
        batch = f"{task.getLocalProperty(QUERY_PROPERTY)}/{task.getLocalProperty(BATCH_PROPERTY)}/{partition}"
        return self._writer.write(iterator, partition=partition, batch=batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Log how many messages were sent: they cannot be taken back."""
        _tell_abort(f"batch {batchId}", messages)


def sink_options(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    """The options of a sink, with its columns checked. Raises BadOption and BadColumn."""
    options = SinkOptions.read(given)
    if overwrite:
        raise BadOption(
            "messages cannot be overwritten: use mode append, or output mode append; foreachBatch for rows that change"
        )
    check_columns({column.name: column.dataType.simpleString() for column in schema}, address=options.address)
    return options


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None  # a sink's write runs in a task
    return task


def _tell_abort(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    rows = sum(message.rows for message in messages if isinstance(message, RowsWritten))
    LOG.warning(
        "%s failed: %d rows of tasks that had ended are in the broker, and those that failed may have sent some; "
        "all come again when Spark repeats it, with the same annotations",
        what,
        rows,
    )
