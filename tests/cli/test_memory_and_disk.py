"""``headgate memory`` and ``headgate disk`` with a broker that measures its own memory and disk."""

import json
from collections.abc import Callable, Iterator

import pytest

from amqp10.cli.exits import Exit
from tests.kit.command_line import Ran

pytestmark = pytest.mark.slow

Headgate = Callable[..., Ran]


@pytest.fixture
def defaults_after(headgate: Headgate) -> Iterator[None]:
    yield
    assert headgate("memory", "set-watermark", "0.4").code is Exit.DONE
    assert headgate("disk", "set-free-limit", "50MB").code is Exit.DONE


def shown(headgate: Headgate, *words: str) -> dict[str, object]:
    ran = headgate(*words, "--json")
    assert ran.code is Exit.DONE
    return json.loads(ran.out)


def test_row_0_25_status_shows_the_four_figures_of_descriptors(headgate: Headgate):
    descriptors = shown(headgate, "status")["descriptors"]
    assert list(descriptors) == ["total_limit", "total_used", "sockets_limit", "sockets_used"]
    assert 0 < descriptors["sockets_used"] <= descriptors["total_used"] < descriptors["sockets_limit"]


def test_memory_status_has_figures(headgate: Headgate):
    memory = shown(headgate, "memory", "status")
    assert 10**6 < memory["used"] < memory["limit"] < memory["total"]
    assert memory["limit"] == memory["total"] * 4 // 10
    assert memory["paging_limit"] == memory["limit"] // 2
    assert (memory["on"], memory["watermark"], memory["unit_convention"]) == (False, "0.4", "binary")


def test_disk_status_has_figures(headgate: Headgate):
    disk = shown(headgate, "disk", "status")
    assert (disk["limit"], disk["free_limit"], disk["on"]) == (50_000_000, "50MB", False)
    assert disk["free"] > disk["limit"]


@pytest.mark.usefixtures("defaults_after")
def test_row_4_18_watermark_0_stops_publishers_until_there_is_another(headgate: Headgate):
    assert headgate("memory", "set-watermark", "0").out.startswith("memory watermark is 0: the limit is 0 bytes, ")
    assert shown(headgate, "alarms", "show", "memory")["on"] is True
    ran = headgate("memory", "set-watermark", "0.6")
    assert (ran.code, "more than 0.5 of all memory" in ran.err) == (Exit.DONE, True)
    assert shown(headgate, "alarms", "show", "memory")["on"] is False


@pytest.mark.usefixtures("defaults_after")
@pytest.mark.parametrize(
    ("words", "limit"), [(["absolute", "1GB"], 10**9), (["absolute", "1073741824"], 2**30), (["1024M"], 2**30)]
)
def test_row_4_19_absolute_watermarks(headgate: Headgate, words: list[str], limit: int):
    assert f"the limit is {limit} bytes" in headgate("memory", "set-watermark", *words).out
    assert shown(headgate, "memory", "status")["limit"] == limit


@pytest.mark.parametrize("command", [("memory", "set-watermark", "absolute"), ("disk", "set-free-limit")])
def test_row_4_20_a_wrong_unit_is_refused_with_the_convention(headgate: Headgate, command: tuple[str, ...]):
    ran = headgate(*command, "1Gi")
    assert (ran.code, ran.out) == (Exit.REFUSED, "")
    assert "unit convention binary: 1M is 1048576 bytes" in ran.err


def test_row_4_18_more_than_all_memory_is_refused(headgate: Headgate):
    ran = headgate("memory", "set-watermark", "1.5")
    assert (ran.code, "above 1.0" in ran.err) == (Exit.REFUSED, True)


@pytest.mark.usefixtures("defaults_after")
def test_row_4_27_disk_limits(headgate: Headgate):
    total = shown(headgate, "memory", "status")["total"]
    for words, limit in [(["1000000"], 10**6), (["1MB"], 10**6), (["mem_relative", "0.5"], round(total / 2))]:
        assert f": {limit} bytes, " in headgate("disk", "set-free-limit", *words).out
        assert shown(headgate, "disk", "status")["limit"] == limit
