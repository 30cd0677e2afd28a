"""``python -m bench.one_sender_one_receiver``: one connection that consumes from one queue while it fills another.

A classic queue is filled with 1,000,000 durable messages of 12 bytes. Then one connection consumes from it, with link
credit or prefetch 200 and an outcome for each message. The same connection publishes to a quorum queue in batches of
10,000, and waits for the confirms of each batch. Over AMQP 0.9.1 a publisher that is too fast for its queue stops the
reader of the socket, and with it the acknowledgements on which the consumer's next messages depend; over AMQP 1.0 it
does not. The output has the consumed and published messages, beside those in the document with which this is compared,
and the consumer's rate without the publisher. A run ends after 10 s, or with the backlog, and rates count only until
then.

Each round starts Headgate from this tree with syncs that take so many milliseconds longer; with --url one round is made
on a running broker.

For example:

    python -m bench.one_sender_one_receiver
    python -m bench.one_sender_one_receiver --messages 3000000 --sync-delay 20 --goals
    python -m bench.one_sender_one_receiver --url amqp://guest:guest@127.0.0.1:5673 --pid 4242
    python -m bench.one_sender_one_receiver --client proton --messages 100000

Exit status: 0; 1 when a run is void; 2 when nothing could be measured; with --goals, 3 when a goal is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from amqp10.load.plan import Protocol
from bench.broker import Broker
from bench.results import Figures
from bench.together.brokers import Options
from bench.together.comparison import Case, Comparison, Round, Verdict, cell, ratio, run_command, sound_figure
from bench.together.figures import consumed, published, rates_over_time
from bench.together.job import Job
from bench.together.measure import Outcome, fill, queues
from bench.together.page import Line

MESSAGES = 1_000_000
BATCH = 10_000
LINK_CREDIT = 200


@dataclass(frozen=True, slots=True)
class Documented:
    """The document's figures: messages left of 1,000,000, and messages accepted by the quorum queue."""

    left: int
    published: int

    @property
    def consumed(self) -> int:
        return MESSAGES - self.left


DOCUMENTS: dict[Protocol, Documented] = {"0.9.1": Documented(990_932, 172_800), "1.0": Documented(336_229, 130_000)}
HEADLINE = 73
"""The document's ratio of messages consumed with 1.0 to those with 0.9.1: reported and expected, not a goal."""
ALONE_MIN = 0.9
"""The least share of its rate alone that 1.0's consumer keeps beside the publisher, where syncs take 20 ms longer."""
GOAL_DELAY_MS = 20.0


def case_name(protocol: Protocol, *, publishing: bool) -> str:
    return f"{protocol}, both" if publishing else f"{protocol}, receiver alone"


@contextlib.contextmanager
def prepared(
    options: Options, messages: int, case: tuple[Protocol, bool], broker: Broker
) -> Iterator[Job]:  # fmt: skip
    protocol, publishing = case
    source, target = (f"one-sender-one-receiver-{os.getpid()}-{which}" for which in ("source", "target"))
    with queues(broker, {source: "classic", target: "quorum"}):
        fill(broker, source, messages, protocol)
        yield Job(
            url=broker.url,
            protocol=protocol,
            client=options.client,
            publish_to=(target,) if publishing else (),
            batch=BATCH,
            consume_from=source,
            backlog=messages,
            link_credit=LINK_CREDIT,
            seconds=options.seconds,
        )


def figures(messages: int, outcome: Outcome) -> Figures:
    """Messages consumed, left and confirmed until the time was over or the backlog consumed."""
    end = outcome.report.end
    seconds = max(end.seconds, 1e-9)
    found: Figures = {
        "seconds": end.seconds,
        "left": messages - end.consumed,
        "consumed": end.consumed,
        "consumed_rate": round(end.consumed / seconds, 1),
    }
    if end.published:
        found |= {"published": end.published[0], "published_rate": round(end.published[0] / seconds, 1)}
    if outcome.brakes is not None:
        found |= {"blocks": outcome.brakes.blocks, "blocked_seconds": round(outcome.brakes.blocked_seconds, 3)}
    return found


def table(round_: Round) -> str:
    """The document's table and the measured one."""
    head = f"{'':28}{'left':>12}{'consumed':>12}{'seconds':>9}{'consumed/s':>12}{'published':>12}"
    lines = [f"{head}{'blocked s':>11}{'blocks/s':>10}"]
    for protocol, document in DOCUMENTS.items():
        lines.append(
            f"{f'document, {protocol}':28}{document.left:>12,}{document.consumed:>12,}{'-':>9}{'-':>12}"
            f"{document.published:>12,}{'-':>11}{'-':>10}"
        )
    for name, one in round_.items():
        blocks = ratio(one.figure("blocks"), one.figure("seconds"))
        lines.append(
            f"{f'here, {name}':28}{cell(one.figure('left')):>12}{cell(one.figure('consumed')):>12}"
            f"{cell(one.figure('seconds'), '.2f'):>9}{cell(one.figure('consumed_rate')):>12}"
            f"{cell(one.figure('published')):>12}{cell(one.figure('blocked_seconds'), '.2f'):>11}"
            f"{cell(blocks, ',.1f'):>10}"
        )
    if (headline := headline_of(round_)) is not None:
        lines.append(f"1.0 consumed at {headline:.1f} times the rate of 0.9.1 (document: {HEADLINE})")
    shares = {protocol: share_of(round_, protocol) for protocol in DOCUMENTS}
    lines += [f"{name}: the receiver at {share:.0%} of its rate alone" for name, share in shares.items() if share]
    return "\n".join(lines)


def headline_of(round_: Round) -> float | None:
    """The measured ratio, of rates and not of messages: a backlog that was used up would make the difference look
    smaller."""
    newer, older = (
        sound_figure(round_, case_name(protocol, publishing=True), "consumed_rate") for protocol in ("1.0", "0.9.1")
    )
    return ratio(newer, older)


def share_of(round_: Round, protocol: Protocol) -> float | None:
    """The receiver's rate beside the publisher, divided by its rate alone."""
    beside, alone = (
        sound_figure(round_, case_name(protocol, publishing=both), "consumed_rate") for both in (True, False)
    )
    return ratio(beside, alone)


def verdicts(round_: Round, sync_delay_ms: float) -> list[Verdict]:
    """The goal for AMQP 1.0; it applies to a slow disk."""
    share = share_of(round_, "1.0")
    if sync_delay_ms < GOAL_DELAY_MS or share is None:
        return []
    return [(f"goal: 1.0's receiver at least {ALONE_MIN:.0%} of its rate alone", share >= ALONE_MIN)]


def lines(case: Case, outcome: Outcome) -> list[Line]:
    """The lines for the chart, of both directions, for cases that have two."""
    samples = outcome.report.samples
    if not outcome.report.end.published:
        return []
    return [
        Line(f"{case.protocol}, consumed", case.protocol, False, rates_over_time(samples, consumed)),
        Line(f"{case.protocol}, published and confirmed", case.protocol, True, rates_over_time(samples, published(0))),
    ]


def comparison(options: Options, found: argparse.Namespace) -> Comparison:
    messages: int = found.messages
    return Comparison(
        name="one-sender-one-receiver",
        title="One sender and one receiver on one connection",
        introduction=(
            f"One connection that consumes from a classic queue with {messages:,} messages, link credit or prefetch"
            f" {LINK_CREDIT}, and publishes durable 12-byte messages to a quorum queue, in confirmed batches of"
            f" {BATCH:,}."
        ),
        cases=[
            Case(
                case_name(protocol, publishing=publishing), protocol,
                partial(prepared, options, messages, (protocol, publishing)), partial(figures, messages),
            )
            for protocol in options.protocols
            for publishing in (True, False)
        ],
        table=table,
        verdicts=verdicts,
        lines=lines,
    )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.one_sender_one_receiver",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=MESSAGES, help="in the queue that is consumed from (1000000)")
    return run_command(parser, words, comparison)


if __name__ == "__main__":
    sys.exit(main())
