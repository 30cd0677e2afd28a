"""Functions that make families of prometheus-client from the table of families and plain values."""

from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import Metric

from core.observe.metric_families import BY_NAME, Family, MetricType

LabelValues = Sequence[str]


def single(name: str, value: float) -> Metric:
    """Make a family without labels."""
    return labelled(name, [((), value)])


def labelled(name: str, values: Iterable[tuple[LabelValues, float]]) -> Metric:
    """Make a family with a value for each list of label values, in the order of the table."""
    family = BY_NAME[name]
    metric = _empty(family)
    for labels, value in values:
        metric.add_sample(name, _labels(family, labels), value)
    return metric


def histograms(name: str, values: Iterable[tuple[LabelValues, Sequence[tuple[str, float]], float]]) -> Metric:
    """Make a histogram for each list of label values, from its cumulative buckets and the sum of the observed
    values."""
    family = BY_NAME[name]
    metric = _empty(family)
    for given, buckets, total in values:
        labels = _labels(family, given)
        for bound, count in buckets:
            metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
        metric.add_sample(f"{name}_count", labels, buckets[-1][1])
        metric.add_sample(f"{name}_sum", labels, total)
    return metric


def _empty(family: Family) -> Metric:
    name = family.name
    if family.type is MetricType.COUNTER:
        name = name.removesuffix("_total")
    elif family.type is MetricType.INFO:
        name = name.removesuffix("_info")
    return Metric(name, family.help, family.type.value)


def _labels(family: Family, values: LabelValues) -> dict[str, str]:
    return dict(zip(family.labels, values, strict=True))
