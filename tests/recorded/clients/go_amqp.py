"""The script of go-amqp, in Go."""

from tests.recorded.clients.other_languages import module_version, run_script


def version() -> str:
    """The client and its version."""
    return f"go-amqp {module_version('github.com/Azure/go-amqp')}"


def converse(url: str) -> None:
    """Run the script."""
    run_script("go", url, ["go", "run", "./amqp10"])
