"""The two comparisons: their arithmetic, what makes a run void, their tables, goals and pages, and a run of the
client."""

import argparse
import contextlib
import json
import os
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from amqp10.load.plan import Application
from amqp10.load.publisher import message_unit
from bench import one_sender_one_receiver, two_senders
from bench.broker import Broker
from bench.together.brokers import add_options, options_of
from bench.together.comparison import Case, Measured, cell, measure, ratio, run
from bench.together.figures import consumed, published, rates_over_time, round_up
from bench.together.job import Job, Report, Sample
from bench.together.measure import FILLER, Brakes, Outcome, brakes_of, faults_of, run_job
from bench.together.page import Chart, Line, page
from bench.trial import TrialError
from tests.kit.loopback_broker import LoopbackBroker, serving

JOB = Job(url="amqp://localhost", protocol="1.0", publish_to=("a", "b"))
SAMPLES = (Sample(0.0, (0, 0), 0), Sample(1.0, (100, 10), 50), Sample(2.0, (300, 20), 50))
REPORT = Report(samples=SAMPLES, sent=(300, 20), received={})
SOUND = Outcome(REPORT, {"a": 290, "b": 20}, 2.0, {"a": 300, "b": 20}, None)
CONSUMING = Job(url="amqp://localhost", protocol="1.0", batch=100, consume_from="s", backlog=1000, link_credit=5)
CONSUMED = Outcome(
    Report(samples=(Sample(1.0, (), 400),), sent=(), received={FILLER: [(0, 400)]}), {"s": 600}, 1.0, {"s": 600}, None
)


def test_jobs_and_reports_survive_their_journey():
    assert Job.from_json(CONSUMING.to_json()) == CONSUMING
    report = replace(REPORT, received={FILLER: [(0, 3), (5, 1)]}, faults="odd")
    assert Report.of(json.loads(report.to_json())) == report


def test_each_publisher_has_a_session_and_the_consumer_shares_the_first():
    first, second = replace(JOB, consume_from="s", batch=5).applications
    assert (first.publish_to, first.consume_from, second.publish_to, second.consume_from) == ("a", "s", "b", "")
    assert first.batch == 5
    [alone] = CONSUMING.applications
    assert (alone.publish_to, alone.consume_from) == ("", "s")
    assert JOB.traffic.settled
    assert not CONSUMING.traffic.settled


def test_rates_over_time_are_differences_of_counters():
    assert rates_over_time(SAMPLES, published(0), window=1) == [(1.0, 100.0), (2.0, 200.0)]
    assert rates_over_time(SAMPLES, published(1), window=2) == [(1.0, 10.0), (2.0, 10.0)]
    assert rates_over_time(SAMPLES, consumed, window=1) == [(1.0, 50.0), (2.0, 0.0)]


@pytest.mark.parametrize(
    ("value", "end"), [(0, 1), (0.7, 0.8), (1.0, 1), (10.05, 10), (11, 15), (170_000, 200_000), (900, 1000)]
)
def test_axes_end_at_round_numbers(value, end):
    assert round_up(value) == pytest.approx(end)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (SOUND, ""),
        (replace(SOUND, counts={"a": 299, "b": 20}), "300 to 300 should be in queue a, 299 are"),
        (replace(SOUND, counts={"a": 300, "b": 21}), "20 to 20 should be in queue b, 21 are"),
        (replace(SOUND, report=replace(REPORT, faults="3 refused")), "3 refused"),
    ],
)
def test_what_voids_a_run_of_senders(outcome, reason):
    assert faults_of(JOB, outcome) == reason


def test_unconfirmed_messages_of_a_batch_may_be_lost_with_the_connection():
    job = replace(JOB, publish_to=("a",), batch=100)
    report = Report(samples=(Sample(1.0, (200,), 0),), sent=(250,), received={})
    reasons = [faults_of(job, Outcome(report, {}, 1.0, {"a": count}, None)) for count in (199, 200, 250, 251)]
    assert [bool(reason) for reason in reasons] == [True, False, False, True]


@pytest.mark.parametrize(
    ("ranges", "left", "reason"),
    [
        ([(0, 400)], 600, ""),
        ([(0, 400)], 605, ""),
        ([(0, 400)], 599, "400 of 1000 consumed, but 599 left"),
        ([(0, 400)], 611, "400 of 1000 consumed, but 611 left"),
        ([(0, 100), (101, 300)], 600, "1 lost"),
        ([(0, 200), (199, 200)], 600, "1 duplicated"),
        ([(0, 100), (101, 1), (100, 1), (102, 298)], 600, "1 reordered"),
    ],
)
def test_what_voids_a_run_of_the_receiver(ranges, left, reason):
    outcome = replace(CONSUMED, report=replace(CONSUMED.report, received={FILLER: ranges}), counts={"s": left})
    found = faults_of(CONSUMING, outcome)
    assert reason in found
    assert bool(found) == bool(reason)


def test_the_documents_ratios_are_those_of_its_figures():
    older, newer = (sum(two_senders.DOCUMENTS[protocol]) for protocol in ("0.9.1", "1.0"))
    assert (older, newer) == (314_859, 1_237_655)
    assert newer / older == pytest.approx(two_senders.HEADLINE, rel=0.05)
    first, second = (one_sender_one_receiver.DOCUMENTS[protocol].consumed for protocol in ("0.9.1", "1.0"))
    assert (first, second) == (9_068, 663_771)
    assert second / first == pytest.approx(one_sender_one_receiver.HEADLINE, rel=0.01)


def round_of(figures):
    return {
        name: Measured(Case(name, name.partition(",")[0], None, None), [{"void": "", **run} for run in runs])
        for name, runs in figures.items()
    }


SENDERS = {
    "0.9.1, both": [{"classic": 100, "sum": 200, "classic_rate": 10.0, "seconds": 10.0, "blocks": 800}],
    "0.9.1, classic alone": [{"classic": 500, "sum": 500, "classic_rate": 50.0}],
    "1.0, both": [{"sum": 800, "classic_rate": 70.0, "ratio": 7.0}, {"sum": 1000, "classic_rate": 80.0, "ratio": 9.0}],
    "1.0, classic alone": [{"classic_rate": 100.0}],
}


def test_the_table_of_the_senders_has_the_documents_and_ours():
    text = two_senders.table(round_of(SENDERS))
    assert "159,077" in text
    assert "1,237,655" in text
    assert "1.0 took 4.5 times as much as 0.9.1 (document: 4)" in text
    assert "0.9.1: the classic queue at 20% of its rate alone" in text
    assert "1.0: the classic queue at 75% of its rate alone" in text
    [blocked] = [line for line in text.splitlines() if line.startswith("here, 0.9.1, both")]
    assert blocked.split()[-1] == "80.0"


def test_goals_hold_for_a_slow_disk_only_and_void_runs_are_not_judged():
    round_ = round_of(SENDERS)
    assert two_senders.verdicts(round_, 5.0) == []
    assert [met for _, met in two_senders.verdicts(round_, 20.0)] == [False, True]
    round_["1.0, both"].runs[0]["void"] = "1 lost"
    assert two_senders.verdicts(round_, 20.0) == []


RECEIVERS = {
    "0.9.1, both": [{"left": 900, "consumed": 100, "consumed_rate": 10.0, "published": 50}],
    "1.0, both": [{"left": 0, "consumed": 1000, "consumed_rate": 700.0, "published": 40}],
    "1.0, receiver alone": [{"left": 0, "consumed": 1000, "consumed_rate": 750.0}],
}


def test_the_table_of_the_receiver_compares_rates():
    text = one_sender_one_receiver.table(round_of(RECEIVERS))
    assert "990,932" in text
    assert "663,771" in text
    assert "1.0 consumed at 70.0 times the rate of 0.9.1 (document: 73)" in text
    assert one_sender_one_receiver.verdicts(round_of(RECEIVERS), 5.0) == []
    [(_, met)] = one_sender_one_receiver.verdicts(round_of(RECEIVERS), 20.0)
    assert met


def test_figures_of_a_run():
    outcome = replace(SOUND, brakes=Brakes(160, 1.5))
    assert two_senders.figures(two_senders.BOTH, outcome) == {
        "seconds": 2.0, "classic": 290, "classic_rate": 145.0, "quorum": 20, "quorum_rate": 10.0, "sum": 310,
        "ratio": 14.5, "blocks": 160, "blocked_seconds": 1.5,
    }  # fmt: skip
    found = one_sender_one_receiver.figures(1000, CONSUMED)
    assert (found["left"], found["consumed_rate"], "published" in found) == (600, 400.0, False)


def test_what_is_not_there_is_a_dash():
    assert (cell(None), cell(1234.5), ratio(1.0, None), ratio(None, 2.0), ratio(1.0, 0.0)) == (
        "-", "1,234", None, None, None,
    )  # fmt: skip


def test_the_page_is_well_formed_and_needs_nothing_else():
    lines = [
        Line("0.9.1 <classic>", "0.9.1", False, [(0.1, 5.0), (0.2, 100.0)]),
        Line("1.0 & quorum", "1.0", True, []),
    ]
    text = page("Title <&>", "why & how", [Chart("one", lines, "a < b"), Chart("empty", [], "")])
    html = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
    svg = "{http://www.w3.org/2000/svg}"
    assert len(html.findall(f".//{svg}svg")) == 2
    curves = html.findall(f".//{svg}polyline")
    assert [curve.get("class") for curve in curves] == ["line older", "line newer dashed"]
    words = [element.text for element in html.iter(f"{svg}text")]
    assert {"seconds", "messages per second", "0.9.1 <classic>", "1.0 & quorum", "100"} <= set(words)
    assert "prefers-color-scheme: dark" in text
    assert not [element for element in html.iter() if "src" in element.attrib or "href" in element.attrib]


def options(*words):
    parser = argparse.ArgumentParser()
    add_options(parser)
    return options_of(parser, parser.parse_args(words))


def test_options_have_three_rounds_or_one_broker():
    assert options().sync_delays_ms == (0.0, 5.0, 20.0)
    assert options("--sync-delay", "7").sync_delays_ms == (7.0,)
    assert options("--url", "amqp://x").sync_delays_ms == (0.0,)
    assert (options().protocols, options("--client", "pika").protocols) == (("0.9.1", "1.0"), ("0.9.1",))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--url", "amqp://x", "--sync-delay", "5"], "slow the one at --url yourself"),
        (["--seconds", "0"], "--seconds must be above 0"),
        (["--runs", "0"], "--runs at least 1"),
        (["--client", "other"], "invalid choice"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, reason, capsys):
    with pytest.raises(SystemExit) as end:
        options(*words)
    assert end.value.code == 2
    assert reason in capsys.readouterr().err


def test_a_broker_that_tells_nothing_has_no_brakes():
    assert brakes_of(Broker("RabbitMQ 4.0.5", "amqp://nowhere", 1)) is None


@pytest.mark.slow
def test_a_client_consumes_a_backlog_and_then_is_done():
    unit = message_unit(Application(publisher=FILLER), CONSUMING.traffic, 131072)
    payload = bytearray(unit.data[unit.body_at - 12 :])  # header section, then the head of the data section, then body
    messages = []
    for number in range(40):
        payload[-8:] = number.to_bytes(8, "big")
        messages.append(bytes(payload))
    broker = LoopbackBroker(queues={"/queues/s": messages})
    with serving(broker) as url:
        job = replace(CONSUMING, url=url, backlog=40, seconds=20.0, link_credit=10)
        outcome = run_job(Broker("Loopback", url, os.getpid()), job)
    assert broker.violations == []
    assert faults_of(job, outcome) == ""
    assert (outcome.report.end.consumed, outcome.counts) == (40, {"s": 0})
    assert outcome.report.end.seconds < 20


@pytest.mark.slow
def test_a_client_publishes_until_its_time_is_over():
    broker = LoopbackBroker()
    with serving(broker) as url:
        job = replace(JOB, url=url, publish_to=("a",), seconds=0.2)
        outcome = run_job(Broker("Loopback", url, os.getpid()), job)
    assert faults_of(job, outcome) == ""
    assert outcome.counts["a"] == outcome.report.sent[0] > 0
    assert outcome.report.end.seconds >= 0.2


@pytest.mark.slow
def test_a_comparison_leaves_a_result_file_and_a_page(tmp_path, capsys):
    output = tmp_path / "result.json"
    with serving(LoopbackBroker()) as url:
        words = ["--url", url, "--pid", str(os.getpid()), "--seconds", "20", "--output", str(output), "--goals"]
        given = options(*words)
        whole = one_sender_one_receiver.comparison(given, argparse.Namespace(messages=500))
        alone = [case for case in whole.cases if case.name == "1.0, receiver alone"]
        assert run(given, replace(whole, cases=alone)) == 0
    [entry] = json.loads(output.read_text())["entries"]
    assert (entry["void"], entry["runs"][0]["consumed"], entry["runs"][0]["left"]) == ("", 500, 0)
    assert "fdatasync_p50_ms" in output.read_text()
    ElementTree.fromstring(output.with_suffix(".html").read_text().removeprefix("<!DOCTYPE html>"))
    assert "663,771" in capsys.readouterr().out


def test_a_run_that_breaks_off_is_void():
    @contextlib.contextmanager
    def refusing(_):
        raise TrialError("no queue")
        yield

    round_ = measure(Broker("Loopback", "amqp://nowhere", 1), [Case("1.0, both", "1.0", refusing, consumed)], 1)
    assert round_["1.0, both"].void == "broke off: no queue"
    assert "-" in two_senders.table(round_)
