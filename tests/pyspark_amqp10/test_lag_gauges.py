"""The gauges from the progress of queries, as Spark tells it; under Spark in test_spark_sources."""

import json
from math import isnan
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from pyspark_amqp10.lag_gauges import GAUGES, LagGauges, lags_of
from pyspark_amqp10.offsets import Numbers, QueueOffset, queue_json, stream_json

ID, RUN = UUID(int=1), UUID(int=2)
LAG = {"rows": 3, "bytes": 300, "seconds": 1.5}
FLOW = {"blocked": 0.25, "link_credit": 1000}
STREAM = stream_json({"/queues/s": 9}) | {"lag": LAG, "flow": FLOW | {"reason": "memory"}}
QUEUE = queue_json({"/queues/b": QueueOffset(Numbers(), 1), "/queues/a": QueueOffset(Numbers([(0, 4)]), 5)}, LAG)


def progress(*sources: tuple[Any, Any], name: str | None = None) -> StreamingQueryProgress:
    """Of a query with sources of which the latest and the end offset are these."""
    told = [
        {"description": "amqp10", "startOffset": None, "endOffset": end, "latestOffset": latest, "numInputRows": 0,
         "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0, "metrics": {}}
        for latest, end in sources
    ]  # fmt: skip
    return StreamingQueryProgress.fromJson(
        {
            "id": str(ID), "runId": str(RUN), "name": name, "timestamp": "2026-01-01T00:00:00Z", "batchId": 0,
            "batchDuration": 0, "durationMs": {}, "eventTime": {}, "stateOperators": [], "sources": told,
            "sink": {"description": "noop", "numOutputRows": 0, "metrics": {}}, "observedMetrics": {},
            "numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0,
        }
    )  # fmt: skip


def shown(registry: CollectorRegistry, key: str, **labels: str) -> float | None:
    return registry.get_sample_value(GAUGES[key][0], labels)


def test_a_lag_stands_in_the_latest_offset_of_streams_and_in_the_end_offset_of_queues():
    plain = json.dumps(stream_json({"/queues/s": 9}))
    found = lags_of(progress((json.dumps(STREAM), plain), (None, json.dumps(QUEUE))))
    assert [(lag.addresses, lag.values) for lag in found] == [
        ("/queues/s", LAG | FLOW),
        ("/queues/a,/queues/b", LAG | dict.fromkeys(FLOW)),
    ]


def test_other_sources_and_offsets_without_a_lag_are_left_out():
    texts = [None, "null", "7", "not JSON", json.dumps({"topic": {"0": 5}, "lag": LAG}), json.dumps({"amqp10": 1})]
    assert list(lags_of(progress(*[(text, text) for text in texts]))) == []


def test_gauges_show_the_last_progress_and_go_with_their_query():
    registry, ended = CollectorRegistry(), QueryTerminatedEvent(ID, RUN, None, None)
    gauges = LagGauges(registry)
    gauges.onQueryProgress(QueryProgressEvent(progress((json.dumps(STREAM), None), name="q")))
    labels = {"query": "q", "addresses": "/queues/s"}
    assert {key: shown(registry, key, **labels) for key in GAUGES} == LAG | FLOW
    later = STREAM | {"lag": {"rows": 1, "bytes": None, "seconds": 0}}
    gauges.onQueryProgress(QueryProgressEvent(progress((json.dumps(later), None), name="q")))
    assert shown(registry, "rows", **labels) == 1
    unknown = shown(registry, "bytes", **labels)
    assert unknown is not None
    assert isnan(unknown)
    gauges.onQueryTerminated(ended)
    assert shown(registry, "rows", **labels) is None
    gauges.onQueryTerminated(ended)


def test_a_query_without_a_name_is_shown_by_its_id():
    registry = CollectorRegistry()
    gauges = LagGauges(registry)
    gauges.onQueryProgress(QueryProgressEvent(progress((None, json.dumps(QUEUE)))))
    assert shown(registry, "seconds", query=str(ID), addresses="/queues/a,/queues/b") == 1.5
