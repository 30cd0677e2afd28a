"""One broker process for all tests of the command line, and a way to run commands against it in this process."""

from collections.abc import Callable, Iterator

import pytest

from amqp10.cli.main import run
from tests.kit.broker_process import broker_process
from tests.kit.command_line import Ran


@pytest.fixture(scope="session")
def broker_url() -> Iterator[str]:
    """A running broker; that it starts with a ready line and stops orderly is part of every test."""
    with broker_process() as address:
        yield address.url()


@pytest.fixture
def headgate(broker_url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command against the broker, unless it brings a --url of its own."""

    def call(*words: str) -> Ran:
        where = () if "--url" in words else ("--url", broker_url)
        code = run([*words, *where])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    return call
