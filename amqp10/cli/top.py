"""``headgate top``: shows the links of a broker in a terminal. It asks the HTTP API of the admin server."""

from pathlib import Path

from amqp10.cli.exits import CommandError, Exit
from amqp10.top.admin import Admin, AdminError


def watch(*, url: str, token_file: Path | None, vhost: str | None) -> None:
    """Show the links until q is pressed. Raises CommandError."""
    admin = Admin(url, None if token_file is None else _token(token_file), vhost)
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
