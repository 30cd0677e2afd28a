"""The figures for Prometheus, as a file for the textfile collector of its node exporter.

Each value is of the newest day in the tables. There are at most :data:`VERDICTS_MAX` links and connections, those held
up for longest first; their names come from clients, so they are escaped.
"""

from collections.abc import Iterator, Sequence

from pipeline.report.figures import Figures, Row

SHARE, BOTTLENECK = "headgate_pipeline_held_up_ratio", "headgate_pipeline_bottleneck"
BLOCKED, DROPPED = "headgate_pipeline_blocked_seconds", "headgate_pipeline_dropped_records"
LABELS = ("node", "connection", "link", "protocol", "container_id", "user", "address")


def exposition(figures: Figures) -> str:
    """The text of the file."""
    day = figures.days[-1] if figures.days else ""
    verdicts = [row for row in figures.verdicts if str(row["day"]) == day]
    lines: list[str] = []
    lines += _metric(
        SHARE,
        "Share of its time for which a link, or the reader of an AMQP 0.9.1 connection, was held up.",
        [(_labels(row), float(str(row["share"]))) for row in verdicts],
    )
    lines += _metric(
        BOTTLENECK,
        "1 for each link or connection with a bottleneck, which the labels name.",
        [
            (_labels(row) | {"bottleneck": str(row["bottleneck"]), "culprit": str(row["culprit"] or "")}, 1.0)
            for row in verdicts
            if row["bottleneck"] is not None
        ],
    )
    lines += _metric(
        BLOCKED,
        "Stalls of 50 ms and longer by user, queue and what has to change.",
        [
            (
                {name: str(row[name] or "") for name in ("user", "address", "culprit")},
                float(str(row["blocked_us_sum"])) / 1e6,
            )
            for row in figures.culprits
        ],
    )
    dropped = sum(int(str(row["dropped"])) for row in figures.counts)
    lines += _metric(DROPPED, "Records for which the broker had no room.", [({}, float(dropped))])
    return "\n".join(lines) + "\n"


def _labels(row: Row) -> dict[str, str]:
    return {name: str(row[name] or "") for name in LABELS}


def _metric(name: str, words: str, values: Sequence[tuple[dict[str, str], float]]) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} gauge"
    for labels, value in values:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {value:.10g}" if inside else f"{name} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
