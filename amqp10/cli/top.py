"""``headgate top``: shows the links of a broker in a terminal. It asks the HTTP API of the admin server."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.exits import CommandError, Exit
from amqp10.top.admin import Admin, AdminError

DEFAULT_ADMIN_URL = "http://127.0.0.1:15692"

AdminUrl = Annotated[
    str, Parameter(name="--url", env_var="HEADGATE_ADMIN_URL", help="The admin server, as http://HOST:PORT.")
]
TokenFile = Annotated[
    Path | None,
    Parameter(name="--token-file", env_var="HEADGATE_TOKEN_FILE", help="A file with the admin server's token."),
]


def top_command(*, url: AdminUrl = DEFAULT_ADMIN_URL, token_file: TokenFile = None) -> None:
    """Show the links of a broker every second until q is pressed. Links that wait come first, with the reason.

    The broker needs its admin server, which is on unless admin.enabled is false. For example:

        headgate top
        headgate top --url http://broker.example.org:15692 --token-file token
    """
    admin = Admin(url, None if token_file is None else _token(token_file))
    try:
        from amqp10.top.app import TopApp  # textual takes a third of a second to import, and need not be installed
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise CommandError(
            Exit.USAGE, "top needs textual, which is not installed; install it with: pip install 'textual>=1.0'"
        ) from error
    try:
        admin.get("status")
    except AdminError as error:
        code = Exit.NOT_LET_IN if error.status in (401, 403) else Exit.UNREACHABLE
        hint = "; is its admin server on (admin.enabled)?" if error.status == 0 else ""
        raise CommandError(code, f"{error}{hint}") from error
    TopApp(admin).run()


def _token(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(Exit.USAGE, f"cannot read the token in {path}: {error}") from error
