"""A tied program ends with its starter, also when the starter is killed."""

import os
import select
import signal
import subprocess
import sys

import pytest

from core.tied_process import tied
from tests.kit.broker_process import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do this")]

SECONDS_MAX = 20.0
STARTER = """
import subprocess, sys
from core.tied_process import tied
child = subprocess.Popen(tied([sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_when_its_starter_is_killed():
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    assert starter.stdin is not None
    child = os.pidfd_open(int(starter.stdout.readline()))
    try:
        assert select.select([child], [], [], 0)[0] == [], "it lives as long as its starter"
        starter.kill()
        starter.wait()
        assert select.select([child], [], [], SECONDS_MAX)[0] == [child]
    finally:
        os.close(child)
        starter.stdin.close()
        starter.stdout.close()


def test_it_does_not_begin_when_its_starter_has_ended():
    words = tied(["/bin/echo", "begun"])
    words[words.index(str(os.getpid()))] = "1"  # the number of a process that is not the starter
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.stdout == ""


def test_its_end_is_that_of_the_program():
    words = tied(["/bin/sh", "-c", "kill -TERM $$"])
    assert subprocess.run(words, timeout=SECONDS_MAX, check=False).returncode == -signal.SIGTERM
