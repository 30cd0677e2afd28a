"""``headgate debug bundle``: writes one file with the state of a broker, to analyse a problem later.

The file has the broker's answers to the requests of the other commands, and no messages. The broker leaves the keys of
passwords out of its configuration. The command also replaces everything that looks like a secret, because a user may
have put a secret into a name or an argument.
"""

import json as json_module
import os
import platform
import re
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import Row, tell
from amqp10.cli.remote import ask, pages, with_broker
from amqp10.cli.store import examined
from amqp10.client_core.errors import RequestRefused
from core.rows import KINDS
from core.version import headgate_version

SINGLES = {"status": "status", "memory": "memory.status", "disk": "disk.status", "drain": "drain.status"}
"""Operations by the names of the files with their answers."""
STALLS_EXPLAINED_MAX = 50
"""Stalls for which the command asks why. Each such request makes the broker look at every link. The longest stalls come
first."""
ADMIN_SECONDS = 5.0
REDACTED = "(left out)"
SECRET_KEYS = re.compile(r"pass|secret|token|scram|credential|authorization|private.?key", re.IGNORECASE)
SECRET_VALUES = re.compile(r"SCRAM-SHA-[0-9]+\$[^\s\"]*|(?<=://)[^/@\s\"]*:[^/@\s\"]*(?=@)|(?<=Bearer )\S+")
"""Matches keys of passwords, the user and password in a URL, and the token of a request to the admin server."""

Parts = dict[str, str]
"""Texts by the names of their files in the zip file."""


def bundle(file: Path | None, *, data: Path | None, json: bool, url: str) -> None:
    """Write the file, and say on standard error what is not in it."""
    now = datetime.now(UTC)
    target = file or Path(f"headgate-bundle-{now:%Y%m%dT%H%M%SZ}.zip")
    problems: list[str] = []
    parts: Parts = {"environment.json": _as_json(_environment(now))}
    try:
        parts |= with_broker(url, lambda broker: _broker_parts(broker, problems))
    except CommandError as error:
        if data is None:
            raise
        problems.append(f"broker: {error.text}")
    if data is not None:
        parts |= _store(data, problems)
    if "configuration.toml" in parts:
        parts |= _metrics(parts["configuration.toml"], problems)
    parts["problems.txt"] = "".join(f"{problem}\n" for problem in problems)
    _write(target, parts)
    for problem in problems:
        print(f"headgate: not in the bundle: {problem}", file=sys.stderr)
    text = f"{target} has {len(parts)} files; it names queues, clients and users"
    tell(text, {"file": str(target), "files": sorted(parts), "not_in_it": problems}, as_json=json)


def redacted(text: str) -> str:
    """The text without everything that looks like a secret."""
    return SECRET_VALUES.sub(REDACTED, text)


def _broker_parts(broker: BlockingManagement, problems: list[str]) -> Parts:
    """The broker's answers, by the names of their files."""
    parts: Parts = {}
    for name, operation in SINGLES.items():
        try:
            parts[f"{name}.json"] = _as_json(ask(broker, operation).body)
        except RequestRefused as refused:
            problems.append(f"{name}: {refused.text}")
    parts["configuration.toml"] = str(ask(broker, "configuration").body)
    for kind in KINDS:
        rows = pages(broker, kind)
        parts[f"{kind}.json"] = _as_json(rows)
        if kind == "stalls":
            parts |= _whys(broker, rows)
    return parts


def _whys(broker: BlockingManagement, stalls: list[Row]) -> Parts:
    """The answers of why for the longest stalls, by the names of their files."""
    parts: Parts = {}
    for stall in sorted(stalls, key=_seconds, reverse=True)[:STALLS_EXPLAINED_MAX]:
        identity = str(stall["identity"])
        kind = "links" if "/" in identity else "connections"
        try:
            answer = ask(broker, "why", kind=kind, identity=identity)
        except RequestRefused:
            continue  # the link does not wait any more, or is gone
        parts[f"why/{identity.replace('/', '-')}.json"] = _as_json(answer.body)
    return parts


def _seconds(stall: Row) -> float:
    seconds = stall.get("seconds")
    return seconds if isinstance(seconds, float) else 0.0


def _environment(now: datetime) -> Mapping[str, object]:
    return {
        "headgate": headgate_version(),
        "at": now.isoformat(timespec="seconds"),
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": {found.name: found.version for found in distributions()},
    }


def _store(data: Path, problems: list[str]) -> Parts:
    """The result of checking a data folder."""
    lines: list[str] = []
    try:
        summary = examined(data, tell=lambda line: lines.append(str(line)))
    except CommandError as error:
        problems.append(f"store: {error.text}")
        return {}
    return {"store.txt": "\n".join((*lines, str(summary))) + "\n"}


def _metrics(configuration: str, problems: list[str]) -> Parts:
    """The metrics of the admin server, if the configuration has one and this process can read its token."""
    admin = tomllib.loads(configuration).get("admin", {})
    if not admin.get("enabled"):
        return {}
    try:
        token = Path(admin["token_file"]).read_text(encoding="utf-8").strip() if "token_file" in admin else None
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        request = Request(f"http://{admin['listen'][0]}/metrics", headers=headers)
        with urlopen(request, timeout=ADMIN_SECONDS) as answer:
            return {"metrics.txt": answer.read().decode("utf-8", "backslashreplace")}
    except (OSError, URLError, ValueError) as error:
        problems.append(f"metrics: {error}")
        return {}


def _as_json(value: object) -> str:
    return json_module.dumps(_without_secrets(value), indent=2, default=str, ensure_ascii=False) + "\n"


def _without_secrets(value: object) -> object:
    """The value with each secret replaced. A key with a name like password marks a secret."""
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if SECRET_KEYS.search(str(key)) else _without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value


def _write(target: Path, parts: Parts) -> None:
    """Write a new file that only its owner may read. Raises CommandError when the file exists."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{target}: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(parts.items()):
            archive.writestr(name, redacted(text))
