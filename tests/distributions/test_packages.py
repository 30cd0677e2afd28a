"""The list of what a broker consists of, the package for Debian, and the formula for Homebrew."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from core.version import headgate_version
from tests.distributions.empty_environment import EmptyEnvironment
from tests.distributions.wheels import Wheel
from tests.kit.broker_process import READY, ROOT

pytestmark = pytest.mark.slow


def script(name: str, function: str) -> Callable[..., Any]:
    """A function of a script in ``distributions``. The script is loaded as it runs: with its folder on the path."""
    sys.path.insert(0, str(ROOT / "distributions"))
    try:
        return runpy.run_path(str(ROOT / "distributions" / f"{name}.py"))[function]
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def installed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EmptyEnvironment:
    """An environment with the broker and what it requires."""
    environment = EmptyEnvironment(tmp_path_factory.mktemp("installed") / "environment", folder)
    requirements = {wheel.name: wheel.of_others() for wheel in map(Wheel, folder.glob("*.whl"))}
    environment.offer(requirements["amqp10"] + requirements["headgate"])
    environment.install("headgate")
    return environment


# --- the list of what a broker consists of ---------------------------------------------------------------------------


def test_the_list_names_each_package_with_its_version_and_is_the_same_each_time(
    installed: EmptyEnvironment, tmp_path: Path
):
    write_sbom = script("sbom", "write_sbom")
    for name in ("one.json", "two.json"):
        write_sbom(installed.python, tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    listed = json.loads((tmp_path / "one.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    broker = listed["metadata"]["component"]
    assert (broker["name"], broker["type"]) == ("headgate", "application")
    assert "Apache-2.0" in json.dumps(broker["licenses"])
    packages = {one["name"]: one for one in listed["components"]}
    assert {"amqp10", "trio", "pydantic", "cryptography", "starlette"} <= packages.keys()
    assert not {"pytest", "pip", "mypy"} & packages.keys()
    assert all(
        one["version"] and one["purl"].startswith("pkg:pypi/") for one in packages.values() if one["name"] != "amqp10"
    )
    assert packages["trio"]["licenses"]
    [of_broker] = [one["dependsOn"] for one in listed["dependencies"] if one["ref"] == broker["bom-ref"]]
    assert len(of_broker) > 10


# --- the package for Debian ------------------------------------------------------------------------------------------

debian = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="only Debian and its relatives have dpkg-deb")


@pytest.fixture(scope="module")
def packages(installed: EmptyEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed in that environment, as files and not as links."""
    packages = tmp_path_factory.mktemp("packages") / "site-packages"
    for source in (installed.packages, installed.index):
        shutil.copytree(source, packages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.pth"))
    return packages


@pytest.fixture(scope="module")
def package(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, for the Python of these tests."""
    folder = tmp_path_factory.mktemp("debian")
    return made(packages, folder)


def made(packages: Path, folder: Path) -> Path:
    python = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    return script("debian", "make_package")(packages, folder, python=str(python), compression="none")


def dpkg(*words: object) -> str:
    return subprocess.run(["dpkg-deb", *map(str, words)], check=True, capture_output=True, text=True).stdout


@debian
def test_what_the_package_says_of_itself(package: Path):
    said = dict(re.findall(r"^(\S+): (.*)$", dpkg("--field", package), re.MULTILINE))
    assert said["Package"] == "headgate"
    assert said["Version"] == headgate_version()
    assert said["Depends"] == f"python{sys.version_info.major}.{sys.version_info.minor}, adduser"
    assert int(said["Installed-Size"]) > 1000
    assert package.name == f"headgate_{said['Version']}_{said['Architecture']}.deb"


@debian
def test_the_same_files_make_the_same_package(package: Path, packages: Path, tmp_path: Path):
    assert made(packages, tmp_path).read_bytes() == package.read_bytes()


@debian
def test_everything_in_the_package_belongs_to_root_and_nobody_else_may_change_it(package: Path):
    for line in dpkg("--contents", package).splitlines():
        rights, owner = line.split()[:2]
        assert owner == "root/root", line
        assert rights[0] == "l" or rights[5] == rights[8] == "-", line


@debian
def test_the_scripts_of_the_package_are_understood_by_the_shell(package: Path, tmp_path: Path):
    dpkg("--control", package, tmp_path)
    for name in ("postinst", "prerm"):
        assert (tmp_path / name).stat().st_mode & 0o111
        subprocess.run(["sh", "-n", tmp_path / name], check=True)
    assert (tmp_path / "conffiles").read_text() == "/etc/headgate/broker.toml\n"


@debian
def test_the_unpacked_package_serves(package: Path, tmp_path: Path):
    root = tmp_path / "root"
    dpkg("--extract", package, root)
    assert (root / "usr/bin/headgate").readlink() == Path("/opt/headgate/bin/headgate")
    command = (root / "opt/headgate/bin/headgate").read_text()
    assert command.startswith("#!/opt/headgate/bin/python\n")
    service = (root / "usr/lib/systemd/system/headgate.service").read_text()
    started = re.findall(r"^ExecStart=(\S+) serve --config (\S+) ", service, re.MULTILINE)
    assert started == [("/opt/headgate/bin/headgate", "/etc/headgate/broker.toml")]
    serve = [root / "opt/headgate/bin/python", root / "opt/headgate/bin/headgate", "serve"]
    options = ["--config", root / "etc/headgate/broker.toml", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with subprocess.Popen(
        [*serve, *options, "--admin", "off"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert READY.search(process.stdout.readline())
        finally:
            process.terminate()
    assert process.returncode == 0


# --- the formula for Homebrew ----------------------------------------------------------------------------------------


def test_the_formula_names_the_source_distributions_with_their_sums(folder: Path):
    text = script("homebrew", "formula")(folder, "https://example.org/releases/")
    named = re.findall(r'url "https://example.org/releases/(\S+)"\n +sha256 "(\w+)"', text)
    archives = [f"{name}-{headgate_version()}.tar.gz" for name in ("headgate", "amqp10")]
    assert named == [(name, sha256((folder / name).read_bytes()).hexdigest()) for name in archives]
    assert re.search(r'desc "(.*)"', text)[1][:1].isupper()
    assert len(re.search(r'desc "(.*)"', text)[1]) < 80
    assert text.count(" do\n") + len(re.findall(r"^ *(?:class|def) ", text, re.MULTILINE)) == len(
        re.findall(r"^ *end$", text, re.MULTILINE)
    )
