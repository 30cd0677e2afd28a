"""The data source ``amqp10`` and its readers, as Spark calls them. This module translates and makes no decisions.

One object of a reader lives in the driver's planner process for as long as a query runs. Others are made elsewhere, and
copies of them travel to tasks, so nothing here connects before a method needs the connection.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property

import pyarrow as pa
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_amqp10.columns import MAP_COLUMNS, SCHEMA, TEXT_MAP, TIME, TYPED_MAP, TYPED_VALUE
from pyspark_amqp10.errors import BadOption
from pyspark_amqp10.offsets import Json, OffsetRange
from pyspark_amqp10.options import SourceOptions
from pyspark_amqp10.parallel_source import ParallelQueueSource, Piece, read_held
from pyspark_amqp10.queue_source import QueueSource, read_again
from pyspark_amqp10.sink import BatchSink, StreamSink, sink_options
from pyspark_amqp10.sink_options import SINK_OPTIONS
from pyspark_amqp10.stream_source import StreamSource, read_range

_TYPES: dict[pa.DataType, DataType] = {
    pa.binary(): BinaryType(),
    pa.string(): StringType(),
    pa.bool_(): BooleanType(),
    pa.int16(): ShortType(),
    pa.int64(): LongType(),
    TIME: TimestampType(),
    TEXT_MAP: MapType(StringType(), StringType()),
    TYPED_MAP: MapType(
        StringType(),
        StructType(
            [
                StructField(field.name, BinaryType() if field.name == "encoded" else StringType())
                for field in TYPED_VALUE
            ]
        ),
    ),
}
"""Spark's types for the types of columns."""
SPARK_SCHEMA = StructType([StructField(field.name, _TYPES[field.type]) for field in SCHEMA])
"""The columns of a source. With ``includeHeaders`` false the maps are left out; with ``mapValues`` text their values
are texts."""


class Range(InputPartition):
    """A range of offsets, sent to a task."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(tuple(wanted))
        self.wanted = wanted


class Pieces(InputPartition):
    """Held messages of queues, sent to a task."""

    def __init__(self, pieces: list[Piece]) -> None:
        super().__init__(tuple(pieces))
        self.pieces = pieces


class Amqp10DataSource(DataSource):
    """The data source behind ``format("amqp10")``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "amqp10"

    @cached_property
    def _source_options(self) -> SourceOptions:
        return SourceOptions.read(self.options, others=SINK_OPTIONS)

    def schema(self) -> StructType:
        """The columns of a source. Raises BadOption at ``load()`` for options that are wrong."""
        options = self._source_options
        texts = options.map_values == "text"
        return StructType(
            [
                StructField(field.name, _TYPES[TEXT_MAP]) if texts and field.name in MAP_COLUMNS else field
                for field in SPARK_SCHEMA.fields
                if options.include_headers or field.name not in MAP_COLUMNS
            ]
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader for a batch query."""
        return BatchReader(self._for_reading(schema), to_arrow_schema(schema, timezone="UTC"))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader for a streaming query of streams, and of queues with several readers. With one, queues have a simple
        reader, which fetches in the driver."""
        options = self._for_reading(schema)
        if options.mode == "queue":
            if options.readers > 1:
                return ParallelQueueReader(options, to_arrow_schema(schema, timezone="UTC"))
            raise PySparkNotImplementedError(
                errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader"}
            )
        return StreamReader(options, to_arrow_schema(schema, timezone="UTC"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A sink for one DataFrame."""
        return BatchSink(sink_options(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A sink for a streaming query."""
        return StreamSink(sink_options(self.options, schema, overwrite=overwrite))

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        """A reader for a streaming query of queues."""
        return QueueReader(self._for_reading(schema), to_arrow_schema(schema, timezone="UTC"))

    def _for_reading(self, schema: StructType) -> SourceOptions:
        """The options, when the columns that a query names are some of the source's. Raises BadOption."""
        own = {field.name: field.dataType for field in self.schema()}
        for field in schema:
            if field.name not in own:
                near = get_close_matches(field.name, own, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(own)}"
                raise BadOption(f"the schema asks for a column {field.name!r}, which the source does not have; {hint}")
            if field.dataType != own[field.name]:
                raise BadOption(
                    f"the schema asks for column {field.name} as {field.dataType.simpleString()}; it is "
                    f"{own[field.name].simpleString()}: cast it after reading"
                )
        if not schema.fields:
            raise BadOption("the schema asks for no column")
        return self._source_options


class BatchReader(DataSourceReader):
    """Reads streams from one offset to another, once."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        if options.mode == "queue":
            raise BadOption(
                "a batch query reads streams: set option mode to stream, or read a queue by readStream with "
                "trigger(availableNow=True)"
            )
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges for the tasks."""
        source = StreamSource(self._options)
        try:
            start, end = source.range()
            return [Range(one) for one in source.ranges(start, end)]
        finally:
            source.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return _read(self._options, partition, self._schema)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams in micro-batches."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    @cached_property
    def _source(self) -> StreamSource:
        return StreamSource(self._options)

    def initialOffset(self) -> Json:
        """The offset at which a query without a checkpoint begins."""
        return self._source.first()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxRowsPerTrigger``; ``maxBytesPerTrigger`` is applied in addition."""
        return ReadMaxRows(self._options.rows_max)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """The offset at which the next micro-batch ends."""
        options = self._options
        match limit:
            case ReadAllAvailable():
                return self._source.latest(start, None, None)
            case ReadMaxRows(max_rows=rows_max):
                return self._source.latest(start, rows_max, options.bytes_max)
            case ReadMaxBytes(max_bytes=bytes_max):
                return self._source.latest(start, options.rows_max, bytes_max)
        return self._source.latest(start, options.rows_max, options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop this run at the present ends of the streams."""
        self._source.stop_at_end()

    def reportLatestOffset(self) -> Json:
        """The present ends of the streams, with the lag: ``sources[].latestOffset`` in the progress of a query."""
        return self._source.lag()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """The ranges for the tasks of a micro-batch."""
        return [Range(one) for one in self._source.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return _read(self._options, partition, self._schema)

    def commit(self, end: Json) -> None:
        """Do nothing: reading removes no message from a stream."""

    def stop(self) -> None:
        """Close the connection at the end of the query."""
        self._source.close()


class ParallelQueueReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues in micro-batches with several tasks."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    @cached_property
    def _source(self) -> ParallelQueueSource:
        return ParallelQueueSource(self._options)

    def initialOffset(self) -> Json:
        """The offset at which a query without a checkpoint begins."""
        return self._source.first()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxRowsPerTrigger``."""
        return ReadMaxRows(self._options.rows_max)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """The offset at which the next micro-batch ends; as with one reader, the options limit it in any case."""
        return self._source.plan(start)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop this run after the messages that the queues hold now."""
        self._source.stop_at_end()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """What the tasks of a micro-batch read."""
        return [Pieces(task) for task in self._source.tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        if not isinstance(partition, Pieces):  # Spark's own class, for a query without tasks
            return iter(())
        return read_held(self._options, partition.pieces, self._schema)

    def commit(self, end: Json) -> None:
        """Settle the batch that ends at this offset."""
        self._source.committed(end)

    def stop(self) -> None:
        """Close the connection at the end of the query."""
        self._source.close()


class QueueReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues in micro-batches, in the driver's planner process."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    @cached_property
    def _source(self) -> QueueSource:
        return QueueSource(self._options, self._schema)

    def initialOffset(self) -> Json:
        """The offset at which a query without a checkpoint begins."""
        return self._source.first()

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop this run after the messages that the queues hold now."""
        self._source.stop_at_end()

    def read(self, start: Json) -> tuple[Iterator[pa.RecordBatch], Json]:
        """The next micro-batch; Spark needs an iterator that it can copy."""
        batches, end = self._source.fetch(start)
        return iter(batches), end

    def readBetweenOffsets(self, start: Json, end: Json) -> Iterator[pa.RecordBatch]:
        """Read a micro-batch that was begun before a crash; this runs in a task."""
        return read_again(self._options, start, end, self._schema)

    def commit(self, end: Json) -> None:
        """Settle the batches up to this offset."""
        self._source.committed(end)


def _read(options: SourceOptions, partition: InputPartition, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, Range):  # Spark's own class, for a query without tasks
        return iter(())
    return read_range(options, partition.wanted, schema)
