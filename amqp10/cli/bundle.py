"""``headgate debug bundle``: one file with all that is needed to analyse a problem later, and no secret.

What goes in are the broker's own answers to the questions that the other commands ask: nothing with messages in it. The
broker leaves the keys of passwords out of its configuration; on the way into the file every text is looked through
once more, since a name or an argument may have been given a secret by its user.
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
from typing import Annotated
from urllib.error import URLError
from urllib.request import Request, urlopen

from cyclopts import App, Parameter

from amqp10.blocking.requests import BlockingManagement
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.listing import pages
from amqp10.cli.printing import AsJson, Row, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.cli.store import examined
from amqp10.client_core.errors import RequestRefused
from amqp10.wire.percent import percent_encode
from core.rows import KINDS
from core.version import headgate_version

SINGLES = ("status", "memory", "disk", "drain")
STALLS_EXPLAINED_MAX = 50
"""The walk of each costs the broker a look at every link: the longest stalls come first."""
ADMIN_SECONDS = 5.0
REDACTED = "(left out)"
SECRET_KEYS = re.compile(r"pass|secret|token|scram|credential|authorization|private.?key", re.IGNORECASE)
SECRET_VALUES = re.compile(r"SCRAM-SHA-[0-9]+\$[^\s\"]*|(?<=://)[^/@\s\"]*:[^/@\s\"]*(?=@)|(?<=Bearer )\S+")
"""Keys of passwords, the user and password of an URL, and what a request to the admin server brings."""

Parts = dict[str, str]
"""Texts by their names in the file."""

debug_app = App(name="debug", help="Gather what somebody needs who was not there.")


@debug_app.command
def bundle(
    file: Annotated[Path | None, Parameter(help="Where to write it. Without it: a name with the time, here.")] = None,
    /,
    *,
    data: Annotated[Path | None, Parameter(help="The data folder of a broker that is stopped, to be checked.")] = None,
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Write one zip file with the state of a broker: status, configuration, everything that can be listed, stalls and
    why, metrics if there is an admin server, versions.

    No messages, passwords or tokens are in it. Names of queues, clients and users are: look before you send it.

    For example:

        headgate debug bundle
        headgate debug bundle /tmp/bundle.zip
        headgate debug bundle --data /var/lib/headgate
    """
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
    """Without what looks like a secret."""
    return SECRET_VALUES.sub(REDACTED, text)


def _broker_parts(broker: BlockingManagement, problems: list[str]) -> Parts:
    """What the broker says of itself."""
    parts: Parts = {}
    for name in SINGLES:
        try:
            parts[f"{name}.json"] = _as_json(broker.request("GET", f"/headgate/{name}").body)
        except RequestRefused as refused:
            problems.append(f"{name}: {refused.text}")
    parts["configuration.toml"] = str(broker.request("GET", "/headgate/configuration").body)
    for kind in KINDS:
        rows = pages(broker, kind)
        parts[f"{kind}.json"] = _as_json(rows)
        if kind == "stalls":
            parts |= _whys(broker, rows)
    return parts


def _whys(broker: BlockingManagement, stalls: list[Row]) -> Parts:
    """What holds up those that stand still, the longest first."""
    parts: Parts = {}
    for stall in sorted(stalls, key=_seconds, reverse=True)[:STALLS_EXPLAINED_MAX]:
        identity = str(stall["identity"])
        kind = "links" if "/" in identity else "connections"
        try:
            answer = broker.request("GET", f"/headgate/{kind}/{percent_encode(identity)}/why")
        except RequestRefused:
            continue  # it moves again, or is gone
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
    """What the check of a data folder finds."""
    lines: list[str] = []
    try:
        summary = examined(data, tell=lambda line: lines.append(str(line)))
    except CommandError as error:
        problems.append(f"store: {error.text}")
        return {}
    return {"store.txt": "\n".join((*lines, str(summary))) + "\n"}


def _metrics(configuration: str, problems: list[str]) -> Parts:
    """What the admin server exposes, where the configuration says that there is one and its token can be read here."""
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
    """Plain values whose keys say that they are secrets are left out, however deep."""
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if SECRET_KEYS.search(str(key)) else _without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    return value


def _write(target: Path, parts: Parts) -> None:
    """For its owner only, and never over something that is there."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise CommandError(Exit.USAGE, f"{target}: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(parts.items()):
            archive.writestr(name, redacted(text))
