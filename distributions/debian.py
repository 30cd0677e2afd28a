"""Makes a package for Debian and its relatives: ``python distributions/debian.py FOLDER``.

The package has the broker with everything that it needs in ``/opt/headgate``, for the Python of the distribution on
which it is made, the service of systemd, and a configuration. It needs ``dpkg-deb``. ``make deb`` names ``dist``.

    dpkg --install dist/headgate_0.1.0_amd64.deb
    systemctl enable --now headgate
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from hashlib import md5
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from tempfile import TemporaryDirectory

from build import main as build
from environments import ROOT, make_environment, site_packages

EXTRAS = "oauth2,cluster"
EPOCH = 1_580_601_600
"""When files were changed, in seconds, without SOURCE_DATE_EPOCH: hatchling's own, so that the same files make the same
bytes."""
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PREFIX = Path("opt/headgate")
CONFIGURATION = Path("etc/headgate/broker.toml")
SERVICE = Path("usr/lib/systemd/system/headgate.service")

COMMAND = f"""#!/{PREFIX}/bin/python
import sys

from amqp10.cli.main import main

sys.exit(main())
"""
CONTROL = """Package: headgate
Version: {version}
Architecture: {architecture}
Maintainer: The Headgate project <headgate@localhost>
Depends: python{python}, adduser
Installed-Size: {kibibytes}
Section: net
Priority: optional
Description: {description}
 Headgate is a message broker for AMQP 1.0 and AMQP 0.9.1 with exact, visible
 flow control: it tells each client why it has to wait.
"""
AFTER_INSTALLATION = f"""#!/bin/sh
set -e
if [ "$1" = configure ]; then
    adduser --quiet --system --group --no-create-home --home /var/lib/headgate headgate
    chown root:headgate /etc/headgate /{CONFIGURATION}
    chmod 0750 /etc/headgate
    chmod 0640 /{CONFIGURATION}
    /{PREFIX}/bin/python -m compileall -q -j 0 /{PREFIX}/lib
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
    fi
fi
"""
BEFORE_REMOVAL = f"""#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now headgate
fi
find /{PREFIX} -name __pycache__ -prune -exec rm -r {{}} +
"""


def main(folder: Path) -> None:
    """Build the wheels, install them, and make the package of what is installed."""
    with TemporaryDirectory() as temporary:
        wheels = Path(temporary) / "wheels"
        build(wheels)
        python = make_environment(Path(temporary) / "environment", wheels, EXTRAS)
        make_package(site_packages(python), folder, python=f"/usr/bin/python{VERSION}")


def make_package(packages: Path, folder: Path, *, python: str, compression: str = "xz") -> Path:
    """Make the package of these installed packages, to be run by ``python``; returns its file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
    architecture = asked.stdout.strip()
    file = folder / f"headgate_{project['version']}_{architecture}.deb"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        root = Path(temporary) / "root"
        _lay_out(root, packages, python)
        size = sum(path.stat().st_size for path in _files(root))
        control = CONTROL.format(
            version=project["version"],
            architecture=architecture,
            python=VERSION,
            kibibytes=-(-size // 1024),
            description=project["description"].removeprefix("An "),  # as its rules want it
        )
        _describe(root, control)
        _date(root)
        options = ["--root-owner-group", f"-Z{compression}"]
        subprocess.run(["dpkg-deb", *options, "--build", root, file], check=True, stdout=subprocess.DEVNULL)
    return file


def _lay_out(root: Path, packages: Path, python: str) -> None:
    """Put all files where they will be."""
    environment = root / PREFIX
    copytree(
        packages, environment / "lib" / f"python{VERSION}" / "site-packages", ignore=ignore_patterns("__pycache__")
    )
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(python)
    settings = f"home = {Path(python).parent}\ninclude-system-site-packages = false\nversion = {VERSION}\n"
    (environment / "pyvenv.cfg").write_text(settings, encoding="utf-8")
    _write(environment / "bin" / "headgate", COMMAND, 0o755)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/headgate").symlink_to(f"/{PREFIX}/bin/headgate")
    documents = root / "usr/share/doc/headgate"
    for source, target in (
        (ROOT / "config" / "broker.toml", root / CONFIGURATION),
        (ROOT / "config" / "headgate.service", root / SERVICE),
        (ROOT / "LICENSE", documents / "copyright"),
        (ROOT / "CHANGELOG.md", documents / "CHANGELOG.md"),
    ):
        target.parent.mkdir(parents=True, exist_ok=True)
        copy(source, target)
        target.chmod(0o644)


def _describe(root: Path, control: str) -> None:
    """Add what dpkg reads."""
    sums = "".join(
        f"{md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in _files(root)
    )
    _write(root / "DEBIAN" / "control", control)
    _write(root / "DEBIAN" / "conffiles", f"/{CONFIGURATION}\n")
    _write(root / "DEBIAN" / "md5sums", sums)
    _write(root / "DEBIAN" / "postinst", AFTER_INSTALLATION, 0o755)
    _write(root / "DEBIAN" / "prerm", BEFORE_REMOVAL, 0o755)


def _files(root: Path) -> Iterable[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _date(root: Path) -> None:
    """Give all files one date, and all folders the same rights."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH))
    os.environ["SOURCE_DATE_EPOCH"] = str(seconds)  # for the archive that dpkg-deb makes
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
        os.utime(path, (seconds, seconds), follow_symlinks=False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
