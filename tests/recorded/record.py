"""``python -m tests.recorded.record``: a real client talks to a broker, and what both say is recorded.

The client talks through a loopback proxy that makes both take turns. What was recorded is replayed a few times against
fresh brokers, and only a conversation that gives the same bytes each time is kept.

For example:

    python -m tests.recorded.record proton                    record with the broker of this tree
    python -m tests.recorded.record proton pika --check       replay what is kept, and record nothing
    python -m tests.recorded.record all --tree ../older       record with the broker of another checkout
    python -m tests.recorded.record proton --show             print what is kept, frame by frame
    python -m tests.recorded.record all --compare             print where today differs from the first broker

A checkout needs its own environment in .venv. Scripts in JavaScript need npm and node, those in Go need go. A
recording of the commit eae35cd, the first broker, is kept in a folder of its own; one of any other commit is the
recording of today, and is kept only where it differs from the first.
"""

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.kit.broker_process import ROOT, BrokerAddress, broker_process
from tests.recorded.comparison import Comparison, ConversationDiffers, described
from tests.recorded.conversation import CONVERSATIONS, FIRST_BROKER, Conversation, path_of
from tests.recorded.differences import differences
from tests.recorded.pacer import Pacer
from tests.recorded.replay import replay
from tests.recorded.taking_turns import taking_turns

CLIENTS = (
    "proton", "rabbitmq_client", "rhea", "go_amqp", "trio_client", "blocking_client",
    "pika", "aio_pika", "amqplib", "amqp091_go", "both_protocols",
)  # fmt: skip
"""The modules of ``tests.recorded.clients``. Each has a function ``converse``, which runs the script of one client, and
a function ``version``."""
CONFIGURATION = Path(__file__).parent / "broker.toml"
REPLAYS = 3


def commit_of(tree: Path) -> str:
    """The commit of a checkout, seven digits."""
    command = ["git", "-C", str(tree), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def paced_broker(tree: Path = ROOT) -> Iterator[tuple[BrokerAddress, Pacer]]:
    """A fresh broker of this checkout, and the pacer that is connected to it.

    A broker imports its operations for the first request that needs them, in several rounds of its event loop. A pacer
    does not wait for these, so a request comes first.
    """
    with broker_process("--config", str(CONFIGURATION), tree=tree) as broker:
        command = [sys.executable, "-m", "amqp10", "status", "--url", broker.url()]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        with Pacer(broker.host, broker.port) as pacer:
            yield broker, pacer


def record(client: str, tree: Path) -> Conversation:
    """Run a client's script against a fresh broker of this checkout."""
    script = importlib.import_module(f"tests.recorded.clients.{client}")
    with paced_broker(tree) as (broker, pacer):
        with taking_turns(broker.host, broker.port, pacer.pace) as proxy:
            script.converse(f"amqp://guest:guest@127.0.0.1:{proxy.port}")
        return Conversation(script.version(), commit_of(tree), proxy.connections)


def check(conversation: Conversation, tree: Path) -> None:
    """Replay a conversation against a fresh broker of this checkout."""
    with paced_broker(tree) as (broker, pacer):
        replay(conversation, broker.host, broker.port, pacer.pace)


def keep(client: str, conversation: Conversation) -> str:
    """Write the file; returns what was done. A recording of today that says what the first says is not kept."""
    is_first = conversation.broker == FIRST_BROKER
    of_first, of_today = path_of(client, first=True), CONVERSATIONS / f"{client}.xz"
    conversation.save(of_first if is_first else of_today)
    both = [Conversation.load(path) for path in (of_first, of_today) if path.exists()]
    if len(both) == 2 and not any(differences(*both)):
        of_today.unlink()
        return f"today's broker says what the first says: {of_first.relative_to(ROOT)}"
    return f"written: {(of_first if is_first else of_today).relative_to(ROOT)}"


def figures(conversation: Conversation) -> str:
    """How long a conversation is."""
    steps = [step for connection in conversation.connections for step in connection.steps]
    sent, answered = sum(len(step.client) for step in steps), sum(len(step.broker) for step in steps)
    return f"{len(steps)} steps, {sent:,} bytes of the client, {answered:,} of the broker"


def show(conversation: Conversation) -> None:
    """Print each frame."""
    print(f"{conversation.client} with {conversation.broker}")
    for number, connection in enumerate(conversation.connections):
        comparison = Comparison(connection.steps[0].client, {})
        rests = {"client": b"", "broker": b""}
        for step_number, step in enumerate(connection.steps):
            for side, data in (("client", step.client), ("broker", step.broker)):
                frames, rests[side] = comparison.frames(rests[side] + data)
                for frame in frames:
                    print(f"{number}.{step_number} {side}: {described(frame)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 1 when a replay differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="+", choices=(*CLIENTS, "all"), metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument(
        "--tree", type=Path, default=ROOT, help="the checkout whose broker is used; this one by default"
    )
    parser.add_argument("--check", action="store_true", help="only replay what is kept")
    parser.add_argument("--show", action="store_true", help="only print what is kept")
    parser.add_argument("--compare", action="store_true", help="only print where today differs from the first broker")
    options = parser.parse_args(arguments)
    tree = options.tree.resolve()
    clients = CLIENTS if "all" in options.clients else options.clients
    if tree != ROOT and not (tree / ".venv" / "bin" / "python").exists():
        parser.error(f"--tree {tree} has no .venv/bin/python; run make setup there")
    if options.show or options.compare or options.check:
        for client in clients:
            if not path_of(client).exists():
                parser.error(f"nothing of {client} is recorded; run python -m tests.recorded.record {client}")
    status = 0
    for client in clients:
        if options.show:
            show(Conversation.load(path_of(client)))
            continue
        if options.compare:
            for line in differences(Conversation.load(path_of(client, first=True)), Conversation.load(path_of(client))):
                print(f"{client} {line}")
            continue
        print(f"{client}: {'replaying' if options.check else 'recording'} with the broker of {tree}", flush=True)
        conversation = Conversation.load(path_of(client)) if options.check else record(client, tree)
        print(f"{client}: {figures(conversation)}")
        try:
            for _ in range(1 if options.check else REPLAYS):
                check(conversation, tree)
        except ConversationDiffers as difference:
            print(f"{client}: a replay differs: {difference}", file=sys.stderr)
            status = 1
            continue
        print(f"{client}: as recorded" if options.check else f"{client}: {keep(client, conversation)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
