"""The container image, as far as it can be checked without building it: what goes into it, and that its commands
work."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from os import environ
from pathlib import Path
from typing import NamedTuple

import pytest

from amqp10.cli.exits import Exit
from tests.distributions.empty_environment import EmptyEnvironment
from tests.kit.broker_process import READY, STOP_SECONDS

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "config" / "Dockerfile"
IGNORED = ROOT / "config" / "Dockerfile.dockerignore"
CONFIGURATION = ROOT / "config" / "container.toml"
READY_WITHOUT_GUEST = re.compile(READY.pattern.replace("guest:guest@", ""))
SCRAM = (
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)
USERS = f'\n[[users]]\nname = "alice"\nscram = "{SCRAM}"\n'


class Instruction(NamedTuple):
    """One instruction of the file, with what belongs to it on one line."""

    name: str
    text: str


def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in lines if line.strip()]


def texts(name: str) -> list[str]:
    return [instruction.text for instruction in instructions() if instruction.name == name]


def environment() -> dict[str, str]:
    return dict(setting.split("=", 1) for text in texts("ENV") for setting in text.split())


def copied() -> list[str]:
    """The paths of the source tree that go into the image or into what builds it."""
    return [path for text in texts("COPY") if not text.startswith("--from") for path in text.split()[:-1]]


# --- its content ------------------------------------------------------------------------------------------------------


def test_the_base_is_one_and_the_same_release_in_both_stages():
    images = {text.split()[0] for text in texts("FROM")}
    assert len(texts("FROM")) == 2
    assert len(images) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", images.pop())


def test_nothing_is_fetched_but_by_pip_within_the_constraints():
    assert texts("ADD") == []
    assert "://" not in "".join(texts("RUN") + texts("COPY"))
    installs = [
        command for command in " && ".join(texts("RUN")).split(" && ") if " install " in command and "pip" in command
    ]
    assert [command.split()[1:] for command in installs] == [
        ["install", "--no-cache-dir", "--no-compile", "--constraint", "constraints.txt", '".[${EXTRAS}]"']
    ]


def test_what_runs_is_not_root():
    last = instructions()[[one.name for one in instructions()].index("USER") :]
    assert texts("USER") == ["10001:10001"]
    assert not {"RUN", "COPY", "FROM"} & {one.name for one in last}


def test_what_is_copied_exists_and_is_not_ignored():
    rules = [line for line in IGNORED.read_text().splitlines() if not line.startswith("#")]
    assert rules[0] == "*"
    for path in copied():
        assert (ROOT / path).exists()
        assert f"!{path}" in rules
    assert {rule for rule in rules if rule.startswith("!")} == {f"!{path}" for path in copied()}
    assert not any(fnmatch(path, rule) for path in copied() for rule in rules[1:])


def test_what_the_package_is_built_from_is_copied():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    files = [project["project"]["readme"], *project["project"]["license-files"]]
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*files, *wheel["packages"], Path(wheel["hooks"]["custom"]["path"]).parts[0]} <= set(copied())
    library = tomllib.loads((ROOT / "distributions" / "amqp10" / "pyproject.toml").read_text())
    included = library["tool"]["hatch"]["build"]["hooks"]["custom"]["files"]
    assert {Path(path).parts[0] for path in included} <= set(copied())


def test_folders_and_ports_are_those_of_the_configuration():
    configuration = tomllib.loads(CONFIGURATION.read_text())
    listening = [*configuration["server"]["listen"], *configuration["admin"]["listen"]]
    assert texts("EXPOSE")[0].split() == [address.rpartition(":")[2] for address in listening]
    assert texts("VOLUME") == texts("WORKDIR")[1:] == [environment()["HEADGATE_DATA"]]
    assert f"config/{CONFIGURATION.name} {environment()['HEADGATE_CONFIG']}" in texts("COPY")
    assert configuration["admin"]["listen"][0] in texts("HEALTHCHECK")[0]


@pytest.mark.slow
def test_the_steps_of_the_first_stage_make_the_same_broker_each_time(tmp_path: Path):
    """They run in a shell as they are, but for the folder. A folder of this environment's packages stands for the index
    of pip."""
    environment = EmptyEnvironment(tmp_path / "index", tmp_path)
    environment.offer([*library_and_broker_requirements(), "hatchling"])
    made = first_stage(tmp_path, environment.index)
    assert made == first_stage(tmp_path, environment.index)
    assert any(name.endswith(".pyc") for name in made)
    assert not any(name.startswith(("pip/", "setuptools/")) for name in made)


def library_and_broker_requirements() -> list[str]:
    """What the distributions in the image require from others."""
    broker, library = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        for folder in (".", "distributions/amqp10")
    )
    return [*broker["dependencies"], *broker["optional-dependencies"]["oauth2"], *library["dependencies"]]


def first_stage(folder: Path, index: Path) -> dict[str, bytes]:
    """Run the steps on a copy of what the Dockerfile copies; returns the files that they have installed."""
    source, target = folder / "source", folder / "headgate"
    for path in copied():
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, source / path, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        elif not path.startswith("config/"):
            source.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, source / path)
    step = texts("RUN")[0].replace("/opt/headgate", str(target))
    variables = {
        "PATH": f"{Path(sys.executable).parent}:{environ['PATH']}",
        "PYTHONPATH": str(index),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # in the environment, pip reads this as that there is to be none
        "EXTRAS": "oauth2",
    }
    done = subprocess.run(["sh", "-ec", step], cwd=source, env=environ | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    command = [target / "bin" / "headgate", "--version"]
    assert subprocess.run(command, env=environ | variables, check=True, capture_output=True).stdout
    [packages] = target.glob("lib/python*/site-packages")
    files = {str(path.relative_to(packages)): path.read_bytes() for path in packages.rglob("*") if path.is_file()}
    shutil.rmtree(target)
    shutil.rmtree(source)
    return {
        name: content
        for name, content in files.items()
        if not name.endswith(("RECORD", "direct_url.json", "REQUESTED"))
    }


# --- that it works ---------------------------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder with the sources that the image has, and no others."""
    for name in ("core", "amqp10"):
        assert name in copied()
        shutil.copytree(ROOT / name, tmp_path / "image" / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "image"


def started(image: Path, configuration: str, **more: str) -> subprocess.Popen[str]:
    """The image's entry point with its default arguments and environment. Folders and ports are the test's."""
    assert texts("ENTRYPOINT") == ['["headgate"]']
    arguments: list[str] = json.loads(texts("CMD")[0])
    (image / "broker.toml").write_text(configuration)
    ours = {"HEADGATE_CONFIG": str(image / "broker.toml"), "HEADGATE_DATA": str(image.parent / "data")}
    assert ours.keys() <= environment().keys()
    return subprocess.Popen(
        [sys.executable, "-m", "amqp10", *arguments],
        cwd=image,
        env=environ | ours | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_without_users_the_image_says_what_it_wants(image: Path):
    with started(image, CONFIGURATION.read_text()) as process:
        _, said = process.communicate(timeout=STOP_SECONDS)
    assert process.returncode == Exit.USAGE
    assert "add [[users]]" in said


@pytest.mark.slow
def test_the_entry_point_serves_and_the_health_check_sees_it(image: Path):
    configuration = CONFIGURATION.read_text().replace(":5672", ":0").replace(":15692", ":0")
    with started(image, configuration + USERS) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert READY_WITHOUT_GUEST.search(process.stdout.readline())
            assert (image.parent / "data").is_dir()
            lines = map(json.loads, process.stderr)
            check = health_check(next(line["addresses"] for line in lines if line["event"] == "admin-listening"))
            assert subprocess.run(check, timeout=STOP_SECONDS).returncode == 0
            process.terminate()
            assert process.wait(STOP_SECONDS) == 0
            assert subprocess.run(check, stderr=subprocess.DEVNULL, timeout=STOP_SECONDS).returncode != 0
        finally:
            process.kill()


def health_check(address: str) -> list[str]:
    """The image's health check, sent to this address."""
    image_asks = tomllib.loads(CONFIGURATION.read_text())["admin"]["listen"][0]
    program, *words = json.loads(texts("HEALTHCHECK")[0].partition("CMD ")[2].replace(image_asks, address))
    assert program == "python"
    return [sys.executable, *words]


@pytest.mark.slow
def test_the_environment_can_say_where_to_listen(image: Path):
    with started(image, "", HEADGATE_LISTEN="127.0.0.1:0 127.0.0.2:0") as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert re.findall(r"amqp://guest:guest@([^:]+):", ready) == ["127.0.0.1", "127.0.0.2"]
            process.terminate()
            assert process.wait(STOP_SECONDS) == 0
        finally:
            process.kill()
