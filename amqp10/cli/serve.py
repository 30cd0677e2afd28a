"""``headgate serve``: the command. What it does is in :mod:`amqp10.cli.serving`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def serve_command(
    *,
    config: Annotated[
        Path | None, Parameter(env_var="HEADGATE_CONFIG", help="The configuration, a TOML file. Default: none.")
    ] = None,
    listen: Annotated[
        tuple[str, ...],
        Parameter(
            env_var="HEADGATE_LISTEN",
            help="HOST:PORT to listen on. Can be given several times. Port 0 means any free port.",
        ),
    ] = (),
    data: Annotated[Path | None, Parameter(env_var="HEADGATE_DATA", help="The data folder.")] = None,
    admin: Annotated[
        str | None,
        Parameter(
            env_var="HEADGATE_ADMIN",
            help="HOST:PORT of the admin server with the console and the metrics (default 127.0.0.1:15692), or off.",
        ),
    ] = None,
) -> None:
    """Run the broker until it is interrupted or terminated.

    When the broker accepts connections, it prints a line with its addresses and the URL of the console. The log goes
    to standard error. An option overrides its environment variable, which overrides the configuration. After SIGHUP the
    broker reads the configuration again.

    For example:

        headgate serve
        headgate serve --config broker.toml
        headgate serve --listen 127.0.0.1:0 --data /tmp/headgate
        headgate serve --admin 127.0.0.1:8080
        headgate serve --admin off
    """
    from amqp10.cli.serving import run_broker  # here and not above: help needs no broker

    run_broker(config, listen=listen, data=data, admin=admin)
