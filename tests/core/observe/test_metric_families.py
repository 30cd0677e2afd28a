"""The table of metrics: names, types and labels as Prometheus and existing dashboards want them."""

import re

import pytest

from core.observe.metric_families import FAMILIES, ON_DEMAND, Family, MetricType

EVERYTHING = [*FAMILIES, *ON_DEMAND]
LABELS = {
    "address",
    "alarm",
    "certificate",
    "condition",
    "direction",
    "durable",
    "kind",
    "lane",
    "outcome",
    "result",
    "level",
    "limit",
    "link",
    "mechanism",
    "product_name",
    "product_version",
    "protocol",
    "python_version",
    "queue",
    "rabbitmq_cluster",
    "rabbitmq_endpoint",
    "rabbitmq_node",
    "rabbitmq_version",
    "reason",
    "stage",
    "version",
    "vhost",
}
"""All labels that may appear. No client can make any number of values of one of them, except of addresses, which are
bounded."""


def test_names_stand_once():
    names = [family.name for family in EVERYTHING]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("family", EVERYTHING, ids=lambda family: family.name)
def test_a_family_is_well_formed(family: Family):
    assert re.fullmatch(r"(rabbitmq|headgate)_[a-z_]+", family.name)
    assert family.name.endswith("_total") == (family.type is MetricType.COUNTER)
    assert family.name.endswith("_info") == (family.type is MetricType.INFO)
    assert family.help
    assert not family.help.endswith(".")
    assert set(family.labels) <= LABELS


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("rabbitmq_io_write_bytes_total", "bytes"),
        ("headgate_store_fsync_seconds", "seconds"),
        ("rabbitmq_connections", "count"),
    ],
)
def test_the_unit_stands_in_the_name(name: str, unit: str):
    assert next(family for family in EVERYTHING if family.name == name).unit == unit
