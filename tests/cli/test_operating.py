"""The commands of an operator: status, connections, sessions, links and alarms."""

import json
import signal

import pytest

from amqp10.cli.commands import repeated
from amqp10.cli.exits import Exit
from amqp10.cli.table import commands
from core.operations.all_operations import OPERATIONS
from tests.kit.command_line import HEADGATE, start


def test_status_shows_version_listeners_alarms_and_descriptors(headgate, broker_url):
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in headgate("status").out.splitlines()}
    assert lines["product"] == "Headgate"
    assert lines["listeners"] == broker_url.rpartition("@")[2]
    assert lines["alarms"] == "none"
    status = json.loads(headgate("status", "--json").out)
    descriptors = status["descriptors"]
    assert set(descriptors) >= {"total_limit", "total_used", "sockets_limit", "sockets_used"}
    assert 0 < descriptors["sockets_used"] <= descriptors["sockets_limit"] < descriptors["total_limit"]
    assert {"version", "pid", "listeners", "alarms"} <= set(status)


def test_a_list_is_printed_again_until_the_command_is_interrupted(broker_url):
    with start(*HEADGATE, "alarms", "list", "--watch", "1", url=broker_url) as watching:
        header, *between = watching.stdout.readline(), *iter(watching.stdout.readline, "\n")
        again = watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == Exit.INTERRUPTED
        assert watching.stderr.read() == ""
    assert (again, len(between) > 1) == (header, True)


def test_each_time_is_behind_a_wait():
    said: list[object] = []

    def wait(seconds: float) -> None:
        said.append(seconds)
        if len(said) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeated(lambda: said.append("table"), 5, wait)
    repeated(lambda: said.append("once"), None, wait)
    assert said == ["table", 5, "table", 5, "once"]


@pytest.mark.parametrize("seconds", ["0", "-1", "often", "0.5"])
def test_the_seconds_between_are_a_whole_number(headgate, seconds):
    ran = headgate("links", "list", "--watch", seconds)
    assert ran.code is Exit.USAGE
    assert seconds in ran.err


@pytest.mark.parametrize("noun", ["connections", "sessions", "links"])
def test_a_command_sees_its_own_connection(noun, headgate):
    (header, *rows) = headgate(noun, "list").out.splitlines()
    assert header.split()[0] == "identity"
    assert rows
    listed = json.loads(headgate(noun, "list", "--json").out)
    assert all(row["identity"] for row in listed)
    missing = headgate(noun, "show", "c0")
    assert (missing.code, missing.out) == (Exit.NOT_FOUND, "")
    assert "'c0'" in missing.err


def test_alarms_are_set_listed_and_cleared(headgate):
    assert headgate("alarms", "set", "memory").out == "alarm memory is on\n"
    assert headgate("status").out.splitlines()[-1].split() == ["alarms", "memory"]
    shown = json.loads(headgate("alarms", "show", "memory", "--json").out)
    assert (shown["on"], shown["sources"]) == (True, ["by hand"])
    (row,) = [line for line in headgate("alarms", "list").out.splitlines() if line.startswith("memory")]
    assert row.split()[1:3] == ["alarm", "yes"]
    assert headgate("alarms", "clear", "memory").out == "alarm memory is cleared\n"
    assert json.loads(headgate("alarms", "show", "memory", "--json").out)["on"] is False
    unknown = headgate("alarms", "set", "boredom")
    assert unknown.code is Exit.REFUSED
    assert "there are disk and memory" in unknown.err


@pytest.mark.slow
def test_a_publisher_is_told_why_it_waits_and_an_operator_closes_a_consumer(headgate, broker_url):
    """Two more processes run: a consumer that gets no message, and a publisher that waits because of an alarm."""
    headgate("queues", "declare", "held")
    headgate("alarms", "set", "memory")
    consume = start(*HEADGATE, "consume", "/queues/held", url=broker_url)
    publish = start(*HEADGATE, "publish", "/queues/held", "hello", url=broker_url)
    try:
        assert publish.stderr.readline() == "headgate: waiting; the broker says why: memory\n"
        headgate("alarms", "clear", "memory")
        assert publish.communicate(timeout=10) == ("1 sent: 1 accepted\n", "")
        assert publish.returncode == Exit.DONE
        assert consume.stdout.readline() == "hello\n"

        links = json.loads(headgate("links", "list", "--json").out)
        (identity,) = {link["connection"] for link in links if link["address"] == "/queues/held"}
        shown = json.loads(headgate("connections", "show", identity, "--json").out)
        assert (shown["identity"], shown["user"]) == (identity, "guest")
        closing = headgate("connections", "close", identity, "--reason", "moving house")
        assert closing.out == f"connection {identity} is being closed\n"
        _, complaint = consume.communicate(timeout=10)
        assert consume.returncode == Exit.UNREACHABLE
        assert complaint == ("headgate: the broker closed the connection: moving house (amqp:connection:forced)\n")
        gone = headgate("connections", "close", "c0")
        assert gone.code is Exit.NOT_FOUND
    finally:
        for process in (consume, publish):
            process.kill()
            process.communicate()


def test_limits_and_lanes_are_tables(headgate):
    header, *rows = [line.split() for line in headgate("limits").out.splitlines()]
    assert (header, "queues" in [name for name, *_ in rows]) == (["name", "used", "max"], True)
    header, *rows = [line.split() for line in headgate("store", "status").out.splitlines()]
    assert header[:3] == ["name", "staged_bytes", "records_synced"]
    assert rows
    assert "sync_histogram" in headgate("store", "status", "--json").out


@pytest.mark.parametrize("words", [("overview",), ("flow-map",), ("timelines", "show", "queues", "q")])
def test_what_the_admin_server_records_needs_an_admin_server(words, headgate):
    ran = headgate(*words)
    assert (ran.code, ran.out, "admin.enabled" in ran.err) == (Exit.REFUSED, "", True)


def test_the_lines_of_the_log_are_a_table(headgate):
    (header, *lines) = headgate("log", "list", "--limit", "2").out.splitlines()
    assert header.split() == ["number", "time", "level", "event", "facts"]
    assert len(lines) == 2
    (row,) = json.loads(headgate("log", "list", "--limit", "1", "--json").out)
    assert row["level"] in ("debug", "info", "warning")
    audit = headgate("audit-log", "list")
    assert audit.out.splitlines()[0].split() == ["number", "time", "event", "action", "result", "user", "peer"]


def test_each_command_of_an_operation_that_lists_has_columns():
    lists = {operation.name for operation in OPERATIONS if operation.answer.form == "rows"}
    commands_of = {words: entry for words, entry in commands().items() if entry.get("request") in lists}
    assert {"log list", "audit-log list"} <= commands_of.keys()
    assert [words for words, entry in commands_of.items() if not entry.get("columns")] == []
