"""What one message costs the broker: the summary of strace is read rightly, and Python calls belong to messages."""

from dataclasses import replace

import pytest

from bench.broker import BrokerError
from bench.run import HEADGATE
from bench.work_per_message import chosen, counted_system_calls, main, python_calls

SUMMARY = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 52.57    0.004567           2      2001           sendto
 30.00    0.002606           1      1999        12 recvfrom
  9.18    0.000798           0      1500           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.008687           1      5500        12 total
"""


def test_a_summary_gives_the_calls_by_name_with_and_without_errors() -> None:
    assert counted_system_calls(SUMMARY) == {"sendto": 2001, "recvfrom": 1999, "epoll_wait": 1500}


def test_python_calls_are_those_of_messages_and_not_of_the_start() -> None:
    (scenario,) = chosen(["lone-500"], 1.0)
    calls = python_calls(HEADGATE, replace(scenario, traffic=replace(scenario.traffic, rate=200.0)))
    # A start makes hundreds of thousands of calls, a message of its own some hundred, measured with 670.
    assert 100 < calls < 3000


def test_a_start_command_without_the_module_is_refused() -> None:
    with pytest.raises(BrokerError, match="-m amqp10"):
        python_calls("headgate serve", chosen(["lone-500"], 1.0)[0])


@pytest.mark.parametrize(("name", "words"), [("lone-501", "no scenario"), ("memory-idle", "measures memory")])
def test_names_of_other_scenarios_are_refused(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert words in capsys.readouterr().err
