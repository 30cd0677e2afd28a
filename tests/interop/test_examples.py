"""The examples of the README, run as a newcomer runs them."""

import sys

import pytest

from tests.kit.command_line import run_here, run_process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


@pytest.mark.slow
def test_ten_thousand_messages_on_one_connection(broker):
    """The example itself checks the order. The broker shows that everything is settled."""
    url = broker.url()
    without_queue = run_process(sys.executable, "examples/one_connection.py", url=url)
    assert without_queue.code == 1
    assert without_queue.err == "one_connection: there is no queue 'numbers'\n"

    assert run_here("queues", "declare", "numbers", url=url).code == 0
    ran = run_process(sys.executable, "examples/one_connection.py", url=url)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "sent 10000, confirmed 10000, received 10000, all in order\n"

    (row,) = [
        line.split() for line in run_here("queues", "list", url=url).out.splitlines() if line.startswith("numbers")
    ]
    assert row[1:7] == ["classic", "0", "0", "0", "-", "0"]
