"""Writes a formula for Homebrew: ``python distributions/homebrew.py DISTRIBUTIONS URL FILE``.

DISTRIBUTIONS is the folder that ``distributions/build.py`` has filled, URL the address below which its source
distributions are published. The formula installs the broker into an environment of its own. What it requires from
others is added by Homebrew itself: ``brew update-python-resources FILE``.
"""

import sys
import tomllib
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "python@3.13"

FORMULA = """class Headgate < Formula
  include Language::Python::Virtualenv

  desc "{description}"
  homepage "{url}"
  url "{url}/{archive}"
  sha256 "{digest}"
  license "{licence}"

  depends_on "rust" => :build # cryptography and pydantic-core
  depends_on "re2" # google-re2
  depends_on "{python}"

  resource "amqp10" do
    url "{url}/{library}"
    sha256 "{library_digest}"
  end

  def install
    virtualenv_install_with_resources
    pkgetc.install "config/broker.toml"
  end

  service do
    run [opt_bin/"headgate", "serve", "--config", etc/"headgate/broker.toml", "--data", var/"lib/headgate"]
    keep_alive successful_exit: false
    log_path var/"log/headgate.log"
    error_log_path var/"log/headgate.log"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/headgate --version")
  end
end
"""


def formula(distributions: Path, url: str) -> str:
    """Return the formula for the source distributions in this folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    archive, library = (f"{name}-{project['version']}.tar.gz" for name in ("headgate", "amqp10"))
    return FORMULA.format(
        description=project["description"].removeprefix("An "),
        url=url.rstrip("/"),
        archive=archive,
        digest=sha256((distributions / archive).read_bytes()).hexdigest(),
        licence=project["license"],
        library=library,
        library_digest=sha256((distributions / library).read_bytes()).hexdigest(),
        python=PYTHON,
    )


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    Path(sys.argv[3]).write_text(formula(Path(sys.argv[1]), sys.argv[2]), encoding="utf-8")
