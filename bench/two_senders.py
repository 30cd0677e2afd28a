"""``python -m bench.two_senders``: one connection with two publishers, one of them to a slower queue.

Both send durable messages of 12 bytes as fast as possible, for 10 s: one to a classic queue, which does not wait for
the disk, one to a quorum queue, which does. There are no confirms; over AMQP 1.0 all messages are sent settled. Over
AMQP 0.9.1 the broker can only stop reading the socket that both share; over AMQP 1.0 each link has its own link credit.
The output has the messages accepted by each queue, beside those in the document with which this is compared, and the
classic queue's rate with its publisher alone.

Each round starts Headgate from this tree with syncs that take so many milliseconds longer; with --url one round is made
on a running broker.

For example:

    python -m bench.two_senders
    python -m bench.two_senders --sync-delay 20 --runs 3 --goals
    python -m bench.two_senders --url amqp://guest:guest@127.0.0.1:5673 --pid 4242
    python -m bench.two_senders --client pika --sync-delay 20

Exit status: 0; 1 when a run is void; 2 when nothing could be measured; with --goals, 3 when a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from amqp10.load.plan import Protocol
from bench.broker import Broker
from bench.results import Figures
from bench.together.brokers import Options
from bench.together.comparison import Case, Comparison, Round, Verdict, cell, ratio, run_command, sound_figure
from bench.together.figures import published, rates_over_time
from bench.together.job import Job
from bench.together.measure import Outcome, QueueKind, queues
from bench.together.page import Line

DOCUMENTS: dict[Protocol, tuple[int, int]] = {"0.9.1": (159_077, 155_782), "1.0": (1_089_075, 148_580)}
"""Messages in the classic and the quorum queue after 10 s, with RabbitMQ 4.0.0-beta.6 and syncs of 5 ms or more."""
DOCUMENTS_BLOCKS_PER_SECOND = 80
HEADLINE = 4.0
"""The document's ratio of 1.0's sum to 0.9.1's: reported and expected, not a goal."""
ALONE_MIN = 0.9
"""The least share of its rate alone that 1.0's classic link keeps beside the slow one."""
RATIO_MIN = 8.0
"""The least ratio of classic to quorum over 1.0, where syncs take 20 ms longer."""
RATIO_DELAY_MS = 20.0
BOTH: tuple[QueueKind, ...] = ("classic", "quorum")
ALONE: tuple[QueueKind, ...] = ("classic",)


def case_name(protocol: Protocol, kinds: Sequence[QueueKind]) -> str:
    return f"{protocol}, both" if len(kinds) > 1 else f"{protocol}, {kinds[0]} alone"


@contextlib.contextmanager
def prepared(
    options: Options, protocol: Protocol, kinds: Sequence[QueueKind], broker: Broker
) -> Iterator[Job]:  # fmt: skip
    names = {f"two-senders-{os.getpid()}-{kind}": kind for kind in kinds}
    with queues(broker, names):
        yield Job(
            url=broker.url,
            protocol=protocol,
            client=options.client,
            publish_to=tuple(names),
            seconds=options.seconds,
        )


def figures(kinds: Sequence[QueueKind], outcome: Outcome) -> Figures:
    """The messages that each queue accepted until the time was over, and the blocks of the reader."""
    taken = dict(zip(kinds, outcome.taken.values(), strict=True))
    found: Figures = {"seconds": round(outcome.seconds, 3)}
    for kind, count in taken.items():
        found |= {kind: count, f"{kind}_rate": round(count / outcome.seconds, 1)}
    found["sum"] = sum(taken.values())
    if len(taken) > 1 and taken["quorum"]:
        found["ratio"] = round(taken["classic"] / taken["quorum"], 3)
    if outcome.brakes is not None:
        found |= {"blocks": outcome.brakes.blocks, "blocked_seconds": round(outcome.brakes.blocked_seconds, 3)}
    return found


def table(round_: Round) -> str:
    """The document's table and the measured one."""
    lines = [f"{'':28}{'classic':>12}{'quorum':>12}{'sum':>12}{'c : q':>8}{'blocked s':>11}{'blocks/s':>10}"]
    for protocol, (classic, quorum) in DOCUMENTS.items():
        blocks = cell(DOCUMENTS_BLOCKS_PER_SECOND if protocol == "0.9.1" else None)
        lines.append(
            f"{f'document, {protocol}':28}{classic:>12,}{quorum:>12,}{classic + quorum:>12,}{classic / quorum:>8.2f}"
            f"{'-':>11}{blocks:>10}"
        )
    for name, one in round_.items():
        blocks = cell(ratio(one.figure("blocks"), one.figure("seconds")), ",.1f")
        lines.append(
            f"{f'here, {name}':28}{cell(one.figure('classic')):>12}{cell(one.figure('quorum')):>12}"
            f"{cell(one.figure('sum')):>12}{cell(one.figure('ratio'), '.2f'):>8}"
            f"{cell(one.figure('blocked_seconds'), '.2f'):>11}{blocks:>10}"
        )
    headline = headline_of(round_)
    if headline is not None:
        lines.append(f"1.0 took {headline:.1f} times as much as 0.9.1 (document: {HEADLINE:g})")
    shares = {protocol: share_of(round_, protocol) for protocol in DOCUMENTS}
    lines += [f"{name}: the classic queue at {share:.0%} of its rate alone" for name, share in shares.items() if share]
    return "\n".join(lines)


def headline_of(round_: Round) -> float | None:
    return ratio(sound_figure(round_, "1.0, both", "sum"), sound_figure(round_, "0.9.1, both", "sum"))


def share_of(round_: Round, protocol: Protocol) -> float | None:
    """The classic queue's rate beside the quorum queue, divided by its rate alone."""
    beside, alone = (sound_figure(round_, case_name(protocol, kinds), "classic_rate") for kinds in (BOTH, ALONE))
    return ratio(beside, alone)


def verdicts(round_: Round, sync_delay_ms: float) -> list[Verdict]:
    """The goals for AMQP 1.0; they apply to a slow disk."""
    if sync_delay_ms < RATIO_DELAY_MS:
        return []
    found = []
    if (share := share_of(round_, "1.0")) is not None:
        found.append((f"goal: 1.0's classic link at least {ALONE_MIN:.0%} of its rate alone", share >= ALONE_MIN))
    if (spread := sound_figure(round_, "1.0, both", "ratio")) is not None:
        found.append((f"goal: 1.0's classic to quorum at least {RATIO_MIN:g}", spread >= RATIO_MIN))
    return found


def lines(case: Case, outcome: Outcome) -> list[Line]:
    """The lines for the chart, of both publishers, for cases with two."""
    if len(outcome.taken) < len(BOTH):
        return []
    return [
        Line(
            f"{case.protocol}, to the {kind} queue",
            case.protocol,
            kind == "quorum",
            rates_over_time(outcome.report.samples, published(number)),
        )
        for number, kind in enumerate(BOTH)
    ]


def comparison(options: Options, _: argparse.Namespace) -> Comparison:
    return Comparison(
        name="two-senders",
        title="Two senders on one connection",
        introduction=(
            "One connection with two publishers of durable 12-byte messages, to a classic and to a quorum queue,"
            " nothing confirmed. The lines are what the client's socket took; the table is what the queues"
            " held in the end."
        ),
        cases=[
            Case(
                case_name(protocol, kinds), protocol, partial(prepared, options, protocol, kinds),
                partial(figures, kinds),
            )
            for protocol in options.protocols
            for kinds in (BOTH, ALONE)
        ],
        table=table,
        verdicts=verdicts,
        lines=lines,
    )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.two_senders", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return run_command(parser, words, comparison)


if __name__ == "__main__":
    sys.exit(main())
