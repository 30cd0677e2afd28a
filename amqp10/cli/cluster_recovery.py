"""``headgate cluster copies`` and ``recover``: a new cluster from one node's copies, when etcd has lost its data.

Both read the data folder of a stopped broker. Only ``recover`` changes it, in one step.
"""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from amqp10.cli.config import read_settings
from amqp10.cli.exits import CommandError, Exit, complain
from amqp10.cli.printing import Row, print_json, print_rows
from amqp10.cli.store import explained
from core.store.folder import offline

if TYPE_CHECKING:
    from core.config.cluster import ClusterSettings
    from core.server.cluster_copies import FolderCopies, GroupCopyFound, QueueCopy
    from core.server.cluster_recovery import RecoveryPlan

ASK_S = 2.0
"""How long each member of etcd may take to say which cluster it has."""
IDENTITY_BYTES = 16
COMPARE = (
    "What a majority of etcd had accepted behind these ends is lost. Compare them with those of the other nodes:\n"
    "headgate cluster copies --data FOLDER"
)


def copies(*, data: Path, json: bool) -> None:
    """Print how far the copies of a stopped node go. Raises CommandError."""
    from core.server.cluster_copies import found_copies, used  # here and not above: they import the engine

    with explained(), offline(data):
        found = found_copies(data)
    if json:
        print_json(_facts(data, found))
        return
    print(f"{data} is of cluster {found.identity or 'none'}; the nodes are {_names(found) or 'not known'}")
    _print_groups([_row(one) for one in used(found.groups).values()])
    _print_queues(found.groups)
    for problem in found.problems:
        complain(problem)


def recover(
    *, data: Path | None, config: Path | None, node: str | None, dry_run: bool, force: bool, json: bool
) -> None:
    """Have the next start of a stopped node begin a new cluster with its copies. Raises CommandError."""
    from core.server.cluster_copies import found_copies
    from core.server.cluster_recovery import RECOVERY_FILE, planned, write_recovery

    settings = None if config is None else read_settings(config)
    folder = data or (settings.data.folder if settings is not None else None)
    if folder is None:
        raise CommandError(Exit.USAGE, "give the data folder of the stopped broker with --data, or with --config FILE")
    if settings is not None and not settings.cluster.members:
        raise CommandError(Exit.USAGE, f"{config} has no [cluster] with members: its broker is no node of a cluster")
    with explained(), offline(folder):
        if (folder / RECOVERY_FILE).exists():
            before = _before(folder)
            _tell_again(folder, before, json=json)
            return
        found = found_copies(folder)
        if not found.identity:
            raise CommandError(
                Exit.USAGE, f"{folder} was never in a cluster: there is nothing to recover; start its broker"
            )
        name = _node(found, node, settings.cluster if settings is not None else None)
        plan = planned(found, name)
        _check(folder, found, plan, name, force=force)
        if settings is not None and not force:
            _check_lost(settings.cluster, found)
        recovery = plan.recovery(secrets.token_hex(IDENTITY_BYTES))
        if not dry_run:
            write_recovery(folder, recovery)
    if json:
        facts = _facts(folder, found, plan)
        print_json({**facts, "new_identity": None if dry_run else recovery.identity, "dry_run": dry_run})
        return
    _print_groups([_row(one, plan) for one in found.groups if one.end or one.queues or one.trouble])
    _print_queues(found.groups)
    print(COMPARE)
    if dry_run:
        print("Nothing was changed.")
        return
    _tell_done(folder, recovery.identity)
    if settings is None:
        complain("without --config it was not checked whether etcd still has the cluster; then start no broker here")


def _tell_done(folder: Path, identity: str) -> None:
    from core.server.cluster_recovery import RECOVERY_FILE

    print(f"\nThe next start of the broker on {folder} begins cluster {identity} with these copies.")
    print("1. See that etcd has no data. One that the broker starts begins anew by itself.")
    print("2. Start this broker, and wait until headgate cluster status shows its groups led.")
    print("3. Start the other nodes with empty data folders; keep the old ones until all is well.")
    print(f"To take it back before the start, remove {folder / RECOVERY_FILE}.")


def _tell_again(folder: Path, identity: str, *, json: bool) -> None:
    """The command was given before."""
    if json:
        print_json({"data": str(folder), "new_identity": identity, "dry_run": False})
    else:
        print(f"{folder} is to begin cluster {identity} already: start its broker")


def _before(folder: Path) -> str:
    """The identity of the new cluster that the next start of the folder's broker begins already."""
    from core.errors import Invalid
    from core.server.cluster_recovery import read_recovery

    try:
        before = read_recovery(folder)
    except Invalid as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    assert before is not None, "the folder is locked, and the file was there"
    return before.identity


def _node(found: "FolderCopies", node: str | None, cluster: "ClusterSettings | None") -> str:
    """The name of the node whose folder this is; "" if it is not needed."""
    if cluster is not None and node is not None and node != cluster.node:
        raise CommandError(Exit.USAGE, f"--node {node}: the configuration is that of node {cluster.node}")
    name = cluster.node if cluster is not None else node or ""
    listed = found.members
    if listed is None:
        return name
    if name and listed.find(name) is None:
        raise CommandError(
            Exit.USAGE, f"node {name} is none of the nodes that this folder knows, which are {', '.join(listed.names)}"
        )
    if not name and listed.groups:
        raise CommandError(
            Exit.USAGE,
            f"not every node keeps every group here; say which of the nodes {', '.join(listed.names)} this is, "
            "with --config FILE or --node NAME",
        )
    return name


def _check(folder: Path, found: "FolderCopies", plan: "RecoveryPlan", name: str, *, force: bool) -> None:
    """Raises CommandError if messages would be lost that other nodes may have, unless ``force`` is set."""
    from core.cluster.member_list import MemberState

    if found.problems:
        raise CommandError(Exit.DAMAGED, f"{folder}: {found.problems[0]}; see headgate store check")
    if force:
        return
    member = None if found.members is None else found.members.find(name)
    if member is not None and member.state is MemberState.JOINING:
        raise CommandError(
            Exit.REFUSED, f"node {name} was joining, and may not have all definitions; choose another, or use --force"
        )
    if not plan.lost:
        return
    reasons = [_why(one, plan, name) for one in plan.lost]
    raise CommandError(
        Exit.REFUSED,
        "\n  ".join(("the queues of these groups would begin empty; choose another node, or use --force:", *reasons)),
    )


def _why(group: "GroupCopyFound", plan: "RecoveryPlan", name: str) -> str:
    queues = ", ".join(f"'{one.name}'" for one in group.queues[:3]) + (" and more" if len(group.queues) > 3 else "")
    if group in plan.elsewhere:
        return f"group {group.number} with {queues}: nodes {', '.join(group.members)} keep it, and {name} does not"
    return f"group {group.number} with {queues}: {group.trouble}"


def _check_lost(cluster: "ClusterSettings", found: "FolderCopies") -> None:
    """Raises CommandError if etcd answers and still has the cluster: nothing is lost then."""
    from core.errors import Invalid
    from core.server.cluster_task import identity_in_etcd  # here and not above: it needs grpc

    endpoints = [one.etcd for one in found.members.members if one.etcd] if found.members is not None else []
    there = ""
    with suppress(Invalid):  # without the packages for etcd no broker can be started either, and that tells why
        there = identity_in_etcd(cluster, endpoints or cluster.etcd, timeout_s=ASK_S)
    if there:
        what = "still has this cluster, so nothing is lost: start the broker"
        if there != found.identity:
            what = f"has cluster {there} already: a new one needs an etcd without data, or another cluster.name"
        raise CommandError(Exit.REFUSED, f"etcd answers, and {what}; or use --force")


# --- what is shown ------------------------------------------------------------------------------------------------


def _facts(data: Path, found: "FolderCopies", plan: "RecoveryPlan | None" = None) -> dict[str, object]:
    groups = [
        {**_row(one, plan), "queues": [_queue(queue) for queue in one.queues], "members": list(one.members)}
        for one in found.groups
    ]
    return {"data": str(data), "identity": found.identity, "nodes": _list(found), "groups": groups}


def _list(found: "FolderCopies") -> list[str]:
    return [] if found.members is None else found.members.names


def _names(found: "FolderCopies") -> str:
    return ", ".join(_list(found))


def _row(group: "GroupCopyFound", plan: "RecoveryPlan | None" = None) -> dict[str, object]:
    row: dict[str, object] = {"group": group.number, "end": group.end, "epoch": group.epoch}
    row |= {"messages": sum(one.messages for one in group.queues), "trouble": group.trouble or None}
    if plan is not None:
        row["taken_over"] = group in plan.taken
    return row


def _queue(queue: "QueueCopy") -> dict[str, object]:
    return {
        "queue": queue.name,
        "vhost": queue.virtual_host,
        "type": queue.kind,
        "messages": queue.messages,
        "next_offset": queue.next_offset,
    }


def _print_groups(rows: Sequence[Row]) -> None:
    if not rows:
        print("no group has a batch or a queue")
        return
    columns = ["group", "end", "epoch", "messages", *(["taken_over"] if "taken_over" in rows[0] else []), "trouble"]
    print_rows(rows, columns, as_json=False)


def _print_queues(groups: Sequence["GroupCopyFound"]) -> None:
    rows = [{"group": one.number, **_queue(queue)} for one in groups for queue in one.queues]
    if rows:
        print()
        print_rows(rows, ("queue", "vhost", "type", "group", "messages", "next_offset"), as_json=False)
        print()
