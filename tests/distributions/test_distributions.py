"""The three distributions: which file is in which wheel, and that each wheel works where nothing else is installed."""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from shutil import copytree

import pytest
from packaging.utils import canonicalize_name

from amqp10.cli.exits import Exit
from amqp10.cli.main import run as headgate
from tests.distributions.empty_environment import EmptyEnvironment
from tests.distributions.wheels import NAMES, Wheel
from tests.kit.broker_process import READY, ROOT, BrokerAddress, broker_process
from tests.pyspark_amqp10.spark_fixtures import JAVA_OPTIONS

pytestmark = pytest.mark.slow

PACKAGES = ("amqp10", "core", "pipeline", "pyspark_amqp10")
LIBRARY = (
    "amqp10/blocking",
    "amqp10/client",
    "amqp10/client_core",
    "amqp10/flow",
    "amqp10/protocol",
    "amqp10/services",
    "amqp10/wire",
)
PROJECT = Path(__file__).with_name("project")
"""A user's project, with packages of its own that have the names of this tree's."""


@pytest.fixture(scope="module")
def wheels(folder: Path) -> dict[str, Wheel]:
    """The wheels by name."""
    return {wheel.name: wheel for wheel in map(Wheel, folder.glob("*.whl"))}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerAddress]:
    """A running broker from this tree."""
    with broker_process() as address:
        yield address


# --- the content of the wheels ---------------------------------------------------------------------------------------


def test_every_module_is_in_one_wheel_and_no_file_is_in_two(wheels: dict[str, Wheel]):
    assert wheels.keys() == NAMES
    inside = [name for wheel in wheels.values() for name in wheel.files if ".dist-info/" not in name]
    assert len(inside) == len(set(inside))
    tree = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert set(inside) == tree


def test_the_library_is_what_the_contract_says_that_needs_nothing_of_the_broker(wheels: dict[str, Wheel]):
    rooms = {"/".join(name.split("/")[:2]) for name in wheels["amqp10"].files if ".dist-info/" not in name}
    assert rooms == {*LIBRARY, "amqp10/__init__.py", "amqp10/errors.py", "amqp10/py.typed"}
    assert {name.partition("/")[0] for name in wheels["pyspark-amqp10"].files if ".dist-info/" not in name} == {
        "pyspark_amqp10"
    }


def test_they_are_one_version_and_require_one_another_by_it(wheels: dict[str, Wheel]):
    [version] = {wheel.version for wheel in wheels.values()}
    pinned = {
        wheel.name: {str(one) for one in wheel.requirements if canonicalize_name(one.name) in NAMES}
        for wheel in wheels.values()
    }
    assert pinned == {
        "amqp10": set(),
        "headgate": {f"amqp10=={version}", f'pyspark-amqp10=={version}; extra == "pipeline"'},
        "pyspark-amqp10": {f"amqp10=={version}"},
    }


@pytest.mark.parametrize("name", sorted(NAMES))
def test_none_requires_what_it_does_not_import(wheels: dict[str, Wheel], name: str):
    wheel = wheels[name]
    projects = packages_distributions()
    imported = {project for module in wheel.imported() for project in projects.get(module, [module])}
    assert wheel.always() - NAMES - set(map(canonicalize_name, imported)) == set()


# --- wheels in an empty environment ----------------------------------------------------------------------------------


def run_in(folder: Path, *command: object, **variables: str) -> str:
    """Run a program in this folder, with nothing of this tree on its path; returns its output."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ran = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment | variables, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_library_works_alone_in_a_project_with_packages_of_the_same_names(
    folder: Path, wheels: dict[str, Wheel], broker: BrokerAddress, tmp_path: Path
):
    environment = EmptyEnvironment(tmp_path / "environment", folder)
    environment.offer(wheels["amqp10"].of_others())
    environment.install("amqp10")
    project = copytree(PROJECT, tmp_path / "project")
    printed = run_in(project, environment.python, "use_client.py", broker.url())
    assert printed.splitlines() == [
        "the user's core, the user's pipeline, the user's tests",
        "one, two, three",
        "Service is there too",
        "not there: addresses cli compaction conversion frontend management serve top",
    ]


@pytest.mark.spark
def test_the_connector_works_in_a_project_with_packages_of_the_same_names(
    folder: Path, wheels: dict[str, Wheel], broker: BrokerAddress, tmp_path: Path
):
    environment = EmptyEnvironment(tmp_path / "environment", folder)
    environment.offer(wheels["amqp10"].of_others() + wheels["pyspark-amqp10"].of_others("spark"))
    environment.install("pyspark-amqp10[spark]")
    project = copytree(PROJECT, tmp_path / "project")
    assert headgate(["queues", "declare", "of-the-connector", "--url", broker.url()]) is Exit.DONE
    printed = run_in(
        project,
        environment.python,
        "use_spark.py",
        f"amqp://{broker.host}:{broker.port}",
        AMQP10_PASSWORD="guest",
        SPARK_LOCAL_IP="127.0.0.1",
        JAVA_TOOL_OPTIONS=JAVA_OPTIONS,
        PYSPARK_PYTHON=str(environment.python),
        PYTHONPATH=str(project),
    )
    assert printed.splitlines() == [
        f"the user's core, the user's pipeline, the user's tests, row {number}" for number in range(3)
    ]


def test_the_broker_and_its_commands_work_with_the_library(folder: Path, wheels: dict[str, Wheel], tmp_path: Path):
    environment = EmptyEnvironment(tmp_path / "environment", folder)
    environment.offer(wheels["amqp10"].of_others() + wheels["headgate"].of_others())
    environment.install("headgate")
    command = environment.bin / "headgate"
    assert run_in(tmp_path, command, "--version").split()[-1] == wheels["headgate"].version
    serve = [command, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", tmp_path / "data"]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = READY.search(process.stdout.readline())
            assert ready is not None
            url = ["--url", BrokerAddress(ready["host"], int(ready["port"]), process.pid).url()]
            run_in(tmp_path, command, "queues", "declare", "orders", *url)
            run_in(tmp_path, command, "publish", "/queues/orders", "hello", *url)
            assert "hello" in run_in(tmp_path, command, "consume", "/queues/orders", "--drain", *url)
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_checkout_is_installed_with_the_library_that_is_in_it(wheels: dict[str, Wheel], tmp_path: Path):
    environment = EmptyEnvironment(tmp_path / "environment", tmp_path)
    environment.offer(["hatchling", *wheels["amqp10"].of_others(), *wheels["headgate"].of_others()])
    environment.install(str(ROOT))
    installed = {re.sub(r"-.*", "", path.name) for path in environment.packages.glob("*.dist-info")}
    assert installed == {"amqp10", "headgate"}
    assert run_in(tmp_path, environment.bin / "headgate", "--version").split()[-1] == wheels["headgate"].version


# --- source distributions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_source_distribution_makes_the_same_wheel(folder: Path, wheels: dict[str, Wheel], tmp_path: Path, name: str):
    [archive] = folder.glob(f"{name.replace('-', '_')}-*.tar.gz")
    with tarfile.open(archive) as opened:
        assert not [member.name for member in opened if not (member.isfile() or member.issym())]
        opened.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    assert all(link.exists() for link in source.rglob("*") if link.is_symlink())

    run_in(source, sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path / "again")

    [again] = map(Wheel, (tmp_path / "again").glob("*.whl"))
    assert again.in_any_order() == wheels[name].in_any_order()


def test_the_same_tree_makes_the_same_bytes(folder: Path, tmp_path: Path):
    subprocess.run(
        [sys.executable, "distributions/build.py", tmp_path], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in tmp_path.iterdir()
    }


def test_each_project_has_the_licence():
    for project in ("amqp10", "pyspark-amqp10"):
        assert (ROOT / "distributions" / project / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
