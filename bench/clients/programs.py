"""The clients of the load processes: which there are, which plans each can carry out, and how its process is started.

*own* is `amqp10.load`, which shows the broker's limits because it uses less CPU than any broker. The others are other
projects' libraries, used as their documents advise; they show what an application gets. Each decides itself how many
frames it passes to one system call and how it tops up link credit, so a plan with the shape *bulk* is refused.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from amqp10.load.checks import latency_histogram
from amqp10.load.endpoint import queue_address
from amqp10.load.plan import Plan, PlannedTraffic, Protocol, routing_key
from amqp10.load.publisher import exchange_address

ROOT = Path(__file__).parents[2]
GO_SOURCES = Path(__file__).parent / "go"
GO_PROGRAM = ROOT / "build/bench-clients/load"
RHEA_SOURCES = Path(__file__).parent / "rhea"
RHEA_PROGRAM = ROOT / "build/bench-clients/rhea/load.js"

Client = Literal["own", "go-amqp", "amqp091-go", "proton", "pika", "rhea"]
Language = Literal["go", "javascript"]
"""Of clients that have to be built."""

NPM_OPTIONS = ["--ignore-scripts", "--no-audit", "--no-fund"]

PROTOCOLS: dict[Client, tuple[Protocol, ...]] = {
    "own": ("1.0", "0.9.1"),
    "go-amqp": ("1.0",),
    "amqp091-go": ("0.9.1",),
    "proton": ("1.0",),
    "pika": ("0.9.1",),
    "rhea": ("1.0",),
}
GO_CLIENTS = ("go-amqp", "amqp091-go")
MODULES: dict[Client, str] = {
    "own": "amqp10.load",
    "proton": "bench.clients.load_with_proton",
    "pika": "bench.clients.load_with_pika",
}
PACKAGES: dict[Client, str] = {"proton": "python-qpid-proton", "pika": "pika"}


class ClientError(Exception):
    """A client that is not there, or cannot carry out a plan; the text says why and how to get it."""


def refusal(client: Client, protocol: Protocol, traffic: PlannedTraffic) -> str:
    """Why a client cannot carry out plans with this traffic; empty when it can."""
    if protocol not in PROTOCOLS[client]:
        return f"the client {client} speaks AMQP {PROTOCOLS[client][0]}, not {protocol}"
    if client != "own" and traffic.shape == "bulk":
        return (
            f"the client {client} decides itself how many frames it passes to one system call: its scenarios have the "
            "shape unbatched, not bulk"
        )
    if client == "rhea" and (traffic.settled or traffic.rate or traffic.content != "alike"):
        return "the client rhea sends messages that are alike, as fast as it can, and waits for their outcomes"
    return ""


def missing(client: Client) -> str:
    """How to get a client that is not there; empty when it is there."""
    if client in GO_CLIENTS:
        return program_missing(client, GO_PROGRAM, GO_SOURCES, "python -m bench.clients build")
    if client == "rhea":
        return program_missing(client, RHEA_PROGRAM, RHEA_SOURCES, "python -m bench.clients build javascript")
    if client != "own" and importlib.util.find_spec(client) is None:
        return f"the client {client} is not installed; pip install {PACKAGES.get(client, client)}, or make setup"
    return ""


def program_missing(client: str, program: Path, sources: Path, build: str) -> str:
    """How to get a client's program when it has not been built, or is older than its sources."""
    if not program.exists():
        return f"the client {client} is not built; {build} does it, with Go 1.25 or Node.js 20, or newer"
    if max(path.stat().st_mtime for path in sources.iterdir()) > program.stat().st_mtime:
        return f"the program of the client {client} is older than its sources; {build}"
    return ""


def command(client: Client) -> list[str]:
    """The command of its load process. Raises ClientError when the client is not there."""
    if reason := missing(client):
        raise ClientError(reason)
    if client == "rhea":
        return ["node", str(RHEA_PROGRAM)]
    return [str(GO_PROGRAM)] if client in GO_CLIENTS else [sys.executable, "-m", MODULES[client]]


@dataclass(frozen=True, slots=True)
class ToldPlan:
    """A plan as a load process is told it. A process in Go or JavaScript also gets the parts that Python derives from
    the plan.

    Raises ClientError for a plan that the client cannot carry out.
    """

    plan: Plan
    client: Client

    def __post_init__(self) -> None:
        if self.client == "own":
            return
        if len(self.plan.applications) != 1:
            raise ClientError(f"a process of the client {self.client} has one application")
        [application] = self.plan.applications
        if application.batch:
            raise ClientError(f"the client {self.client} does not wait for the outcomes of batches")
        if reason := refusal(self.client, application.protocol, self.plan.traffic):
            raise ClientError(reason)
        if self.client == "rhea" and application.exchange:
            raise ClientError("the client rhea publishes to queues, not through exchanges")

    def to_json(self) -> str:
        """One line."""
        if self.client not in (*GO_CLIENTS, "rhea"):
            return self.plan.to_json()
        own: dict[str, object] = (
            {"no_latency": latency_histogram().encode().decode()}
            if self.client == "rhea"
            else {"client": self.client, "lead_ns": self.plan.traffic.lead_ns(self.plan.applications[0].publisher)}
        )
        derived = own | {
            "paddings": [base64.b64encode(one).decode() for one in paddings(self.plan.traffic)],
            "destinations": [asdict(one) for one in destinations(self.plan)],
        }
        return json.dumps(asdict(self.plan) | derived)


def paddings(traffic: PlannedTraffic) -> list[bytes]:
    """The bytes that fill the bodies behind their numbers: message i has item i modulo their number."""
    return [traffic.padding(number) for number in range(len(traffic.sizes_in_turn))]


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination of messages: its address in AMQP 1.0, exchange and routing key in AMQP 0.9.1."""

    address: str
    exchange: str
    routing_key: str


def destinations(plan: Plan) -> list[Destination]:
    """The destinations of the plan's one publisher: message i goes to item i modulo their number."""
    application = plan.applications[0]
    if not (exchange := application.exchange):
        return [Destination(queue_address(application.publish_to), "", application.publish_to)]
    keys = [routing_key(number) for number in range(plan.traffic.keys)]
    return [Destination(exchange_address(exchange, key), exchange, key) for key in keys]


def build(language: Language = "go", program: str = "") -> Path:
    """Build the program of the clients in a language, and return where it is. Raises ClientError when what builds it is
    not there, or fails. ``program`` is what builds it, go or npm without."""
    return _build_go(program or "go") if language == "go" else _build_javascript(program or "npm")


def _build_go(go: str) -> Path:
    if (found := shutil.which(go) or shutil.which(f"/usr/local/go/bin/{go}")) is None:
        raise ClientError(f"there is no command {go}; install Go 1.25 or newer, and put it on the PATH")
    GO_PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    made = GO_PROGRAM.with_suffix(f".{os.getpid()}")  # another process may be running the one that there is
    if (status := subprocess.run([found, "build", "-o", str(made), "."], cwd=GO_SOURCES).returncode) != 0:
        raise ClientError(f"go build ended with {status}; its reason is above")
    made.replace(GO_PROGRAM)
    return GO_PROGRAM


def _build_javascript(npm: str) -> Path:
    if (found := shutil.which(npm)) is None:
        raise ClientError(f"there is no command {npm}; install Node.js 20 or newer, and put it on the PATH")
    folder = RHEA_PROGRAM.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(RHEA_SOURCES / name, folder / name)
    if (status := subprocess.run([found, "ci", *NPM_OPTIONS], cwd=folder).returncode) != 0:
        raise ClientError(f"npm ci ended with {status}; its reason is above")
    shutil.copyfile(RHEA_SOURCES / RHEA_PROGRAM.name, RHEA_PROGRAM)
    return RHEA_PROGRAM
