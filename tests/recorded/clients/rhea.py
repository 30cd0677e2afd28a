"""The script of rhea, in JavaScript."""

from tests.recorded.clients.other_languages import INTEROP, NPM_CI, package_version, run_script

PACKAGES = INTEROP / "rhea"


def version() -> str:
    """The client and its version."""
    return f"rhea {package_version(PACKAGES, 'rhea')}"


def converse(url: str) -> None:
    """Run the script."""
    run_script("rhea", url, NPM_CI, ["node", "conversation.js"], packages=PACKAGES)
