"""The script of amqplib, in JavaScript."""

from tests.recorded.clients.other_languages import INTEROP, NPM_CI, package_version, run_script

PACKAGES = INTEROP / "amqp091" / "amqplib"


def version() -> str:
    """The client and its version."""
    return f"amqplib {package_version(PACKAGES, 'amqplib')}"


def converse(url: str) -> None:
    """Run the script."""
    run_script("amqplib", url, NPM_CI, ["node", "conversation.js"], packages=PACKAGES)
