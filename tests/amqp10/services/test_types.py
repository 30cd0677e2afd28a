"""Type checks of programs that use the kit: the example passes, and mistakes in it are found."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WRONG = """\
from amqp10.services import CallResult, Commands, Service, ServiceOptions, ServiceRequest

async def wrong(service: Service, request: ServiceRequest) -> None:
    number: int = await service.call("REPO", "load")
    await service.call(5, "load")
    await service.cast("REPO", "load", timeout=5)
    service.call_back("REPO", "load", callback=lambda: None)
    request.fail("no text")
    CallResult(None).get().upper()
    ServiceOptions(unroutable="drop")
    Commands().add("load", 5)
"""
FIRST_WRONG, LAST_WRONG = 4, 11


@pytest.mark.slow
def test_mypy_strict_for_users_of_the_api(tmp_path):
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "examples/12_services.py",
        "examples/14_shop.py",
        str(wrong),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    errors = [line.partition(": ")[0] for line in done.stdout.splitlines() if ": error: " in line]
    # By name, because mypy's cache repeats the errors of the run before with the path that the file had then.
    found = {
        place.rpartition("/")[2] for place in errors if f"/{wrong.name}:" in place or place.startswith("examples/")
    }
    assert found == {f"{wrong.name}:{line}" for line in range(FIRST_WRONG, LAST_WRONG + 1)}, done.stdout + done.stderr


def test_the_package_says_that_it_has_types():
    assert all((ROOT / package / "py.typed").exists() for package in ("amqp10", "core", "pyspark_amqp10"))
