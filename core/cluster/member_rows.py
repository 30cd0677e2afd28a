"""What a node of a cluster knows of groups and of other nodes, as rows of plain values."""

from core.cluster.beats import node_number
from core.cluster.member import Member


def group_rows(member: Member) -> list[dict[str, object]]:
    """What this node knows of each group that has members."""
    rows: list[dict[str, object]] = []
    problems = member.problems()
    for group in member.used_groups:
        owner, synced = member.owners.get(group.number, group.shared.owner), member.beats.synced(group.number)
        furthest = max(member.beats.furthest(group.number), group.shared.ends_at)
        names = member.beats.members_of(group.number)
        rows.append(
            {
                "group": group.number,
                "leader": member.leader(group),
                "epoch": owner.epoch,
                "end": furthest,
                "members": list(names),
                "lag": {name: max(0, furthest - synced[node_number(name)]) for name in names},
                "leads_here": group.queues.leads,
                "trouble": problems.get(group.number, ""),
            }
        )
    return rows


def node_rows(member: Member) -> list[dict[str, object]]:
    """What this node knows of each node. ``progress``: see :class:`core.cluster.beats.Progress`; None for a node that
    is away, whose last beat says how far it was."""
    rows: list[dict[str, object]] = []
    for name in member.beats.members:
        beat, listed = member.beats.beat(name), member.changes.listed.named(name)
        is_here = member.beats.is_here(name) if beat is not None or name == member.beats.node else False
        progress = beat.progress if beat is not None and is_here else None
        rows.append(
            {
                "node": name,
                "state": listed.state.value,
                "etcd": listed.etcd,
                "etcd_peer": listed.peer,
                "here": is_here,
                "progress": None if progress is None else {**progress._asdict(), "waits_for": list(progress.waits_for)},
                "addresses": [] if beat is None else [*beat.addresses, *beat.tls_addresses],
                "version": "" if beat is None else beat.version,
                "leads": [group for group, owner in member.owners.items() if owner.node == node_number(name)],
                "set_aside": beat is not None and beat.set_aside,
                "problems": {} if beat is None else {str(key): why for key, why in beat.problems.items()},
            }
        )
    return rows
