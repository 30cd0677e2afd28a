"""What is compared, each behind the same calls: a queue of Headgate, a stream of Headgate, a topic of Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from amqp10.blocking.requests import BlockingManagement
from bench.broker import Broker
from pyspark_amqp10.login import Login
from tests.pyspark_amqp10.beside_kafka.rows import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class System(Protocol):
    """A broker with a connector."""

    @property
    def name(self) -> str:
        """The word for it in results."""

    @property
    def broker(self) -> Broker:
        """Whose CPU time counts as the broker's."""

    def columns(self, kind: Kind) -> tuple[str, ...]:
        """What its sink takes."""

    def make(self, place: str) -> None:
        """Make a queue, stream or topic."""

    def delete(self, place: str) -> None:
        """Delete it."""

    def write(self, rows: DataFrame, place: str, kind: Kind) -> None:
        """Write rows by the connector's batch sink; returns when the broker has confirmed the last."""

    def stream(self, place: str, kind: Kind, rows_max: int) -> tuple[DataFrame, str]:
        """All that is in it, as a streaming DataFrame with so many rows in a micro-batch at the most; and what is
        summed up for the check."""


@dataclass(frozen=True, slots=True)
class Headgate:
    """A classic queue with sequence numbers, or a stream."""

    name: str
    """``queue`` or ``stream``."""
    broker: Broker
    spark: SparkSession
    tasks: int

    def columns(self, kind: Kind) -> tuple[str, ...]:
        return kind.for_headgate

    def make(self, place: str) -> None:
        arguments = {"x-sequence": True} if self.name == "queue" else {"x-queue-type": "stream"}
        with self._login().connect() as connection:
            body: dict[str, object] = {"durable": True, "arguments": arguments}
            BlockingManagement(connection).request("PUT", f"/queues/{place}", body)

    def delete(self, place: str) -> None:
        with self._login().connect() as connection:
            BlockingManagement(connection).request("DELETE", f"/queues/{place}", None)

    def write(self, rows: DataFrame, place: str, kind: Kind) -> None:
        options = self._options(place) | {"batchIdAnnotation": str(kind.annotated).lower()}
        rows.write.format("amqp10").mode("append").options(**options).save()

    def stream(self, place: str, kind: Kind, rows_max: int) -> tuple[DataFrame, str]:
        options = self._options(place) | {"mode": self.name, "mapValues": "text", "maxRowsPerTrigger": str(rows_max)}
        if self.name == "stream":
            options |= {"startingOffsets": "earliest", "minPartitions": str(self.tasks)}
        else:
            options |= {"readers": str(self.tasks)}
        reader = self.spark.readStream.format("amqp10").schema(kind.schema).options(**options)
        return reader.load(), kind.sum_of_headgate

    def _login(self) -> Login:
        return Login.parse(f"amqp://127.0.0.1:{self.broker.url.rpartition(':')[2]}", user="guest")

    def _options(self, place: str) -> dict[str, str]:
        return {"url": f"amqp://{self._login().url.place}", "user": "guest", "address": f"/queues/{place}"}


@dataclass(frozen=True, slots=True)
class Kafka:
    """A topic with as many partitions as tasks read and write it."""

    broker: Broker
    spark: SparkSession
    tasks: int
    name: str = "kafka"

    def columns(self, kind: Kind) -> tuple[str, ...]:
        return kind.for_kafka

    def make(self, place: str) -> None:
        java = self.spark._jvm
        assert java is not None
        topics = java.java.util.ArrayList()
        topics.add(java.org.apache.kafka.clients.admin.NewTopic(place, self.tasks, 1))
        self._admin("createTopics", topics)

    def delete(self, place: str) -> None:
        java = self.spark._jvm
        assert java is not None
        topics = java.java.util.ArrayList()
        topics.add(place)
        self._admin("deleteTopics", topics)

    def write(self, rows: DataFrame, place: str, kind: Kind) -> None:
        options = {"kafka.bootstrap.servers": self.broker.url, "topic": place}
        rows.write.format("kafka").mode("append").options(**options).save()

    def stream(self, place: str, kind: Kind, rows_max: int) -> tuple[DataFrame, str]:
        options = {
            "kafka.bootstrap.servers": self.broker.url,
            "subscribe": place,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(rows_max),
            "includeHeaders": str(kind.headers).lower(),
        }
        return self.spark.readStream.format("kafka").options(**options).load(), kind.sum_of_kafka

    def _admin(self, call: str, topics: object) -> None:
        """Ask the broker with Kafka's own client, in Spark's Java process, and wait for the answer."""
        java = self.spark._jvm
        assert java is not None
        properties = java.java.util.Properties()
        properties.put("bootstrap.servers", self.broker.url)
        admin = java.org.apache.kafka.clients.admin.Admin.create(properties)
        try:
            getattr(admin, call)(topics).all().get()
        finally:
            admin.close()
