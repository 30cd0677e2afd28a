"""``headgate stalls``: a stall is listed while it lasts, and is gone after it."""

import json
import time

import pytest

from amqp10.cli.exits import Exit
from tests.kit.command_line import HEADGATE, start


@pytest.mark.slow
def test_a_publisher_that_waits_is_listed_and_then_no_more(headgate, broker_url):
    assert json.loads(headgate("stalls", "list", "--json").out) == []
    headgate("queues", "declare", "held")
    headgate("alarms", "set", "disk")
    publish = start(*HEADGATE, "publish", "/queues/held", "hello", url=broker_url)
    try:
        assert publish.stderr.readline() == "headgate: waiting; the broker says why: disk\n"
        (row,) = json.loads(headgate("stalls", "list", "--json").out)
        assert (row["reason"], row["culprit"], row["address"]) == ("disk", "alarm disk", "/queues/held")
        assert 0.05 <= row["seconds"] <= time.time() - row["since"] + 1.0
        shown = json.loads(headgate("stalls", "show", row["identity"], "--json").out)
        assert shown["connection"] == row["connection"]
        headgate("alarms", "clear", "disk")
        assert publish.communicate(timeout=10) == ("1 sent: 1 accepted\n", "")
        assert headgate("stalls", "show", row["identity"]).code is Exit.NOT_FOUND
    finally:
        publish.kill()
        publish.communicate()
