"""The script of RabbitMQ's client of AMQP 0.9.1 in Go."""

from tests.recorded.clients.other_languages import module_version, run_script


def version() -> str:
    """The client and its version."""
    return f"amqp091-go {module_version('github.com/rabbitmq/amqp091-go')}"


def converse(url: str) -> None:
    """Run the script."""
    run_script("go", url, ["go", "run", "./amqp091"])
