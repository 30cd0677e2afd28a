"""``headgate cluster status``: the nodes of a cluster, who leads which group, and how far each copy lags behind."""

from collections.abc import Sequence

from amqp10.cli.printing import Row, print_json, print_rows
from amqp10.cli.remote import ask_once, row_of


def print_cluster(*, json: bool, url: str) -> None:
    """Print the cluster as a node sees it."""
    status = row_of(ask_once(url, "cluster.status"))
    if json:
        print_json(status)
    else:
        tell_status(status)


def tell_status(status: Row) -> None:
    """Print a status for people."""
    if status["name"] is None:
        print("this broker is in no cluster")
        return
    print(f"cluster {status['name']}, as node {status['node']} sees it")
    if trouble := status["trouble"] or ("" if status["joined"] else "etcd has not answered yet"):
        print(f"trouble: {trouble}")
    engine = status["engine"]
    if isinstance(engine, dict) and (own := engine.get("own")):
        runs = f"runs as process {own['pid']}" if own["running"] else "does not run"
        print(f"etcd {own['version']} of this node {runs}, started {own['starts']} times")
    print_rows(
        [_node(one) for one in _rows(status["nodes"])], ("node", "state", "here", "addresses", "leads"), as_json=False
    )
    for one in _rows(status["nodes"]):
        if said := progress_of(one):
            print(said)
    columns = ("group", "leader", "members", "end", "lag")
    print_rows([_group(one) for one in _rows(status["groups"])], columns, as_json=False)


def print_leaders(*, json: bool, url: str) -> None:
    """Print the quorum queues and streams of a cluster with the nodes that lead them."""
    body = ask_once(url, "queues.leaders").body
    rows = [row for row in body if isinstance(row, dict)] if isinstance(body, list) else []
    shown = rows if json else [{**row, "members": _names(row.get("members"))} for row in rows]
    print_rows(shown, ("queue", "vhost", "group", "leader", "members"), as_json=json)


def _rows(value: object) -> Sequence[Row]:
    return value if isinstance(value, list) else []


def progress_of(row: Row) -> str:
    """What a node that joins, or that copies groups, has got, and what it waits for; "" for another node. ``row``: one
    of the nodes of a status, which a broker of an earlier version gives without ``progress``."""
    progress, joins = row.get("progress"), row["state"] == "joining"
    if not (joins or progress):
        return ""
    parts = [] if row["here"] else ["it is away"]
    if isinstance(progress, dict):
        groups, waits_for = progress["groups"], progress["waits_for"]
        if groups:
            copied, seconds = progress["copied"], progress["seconds"]
            parts.append(f"{copied} of {groups} groups copied, {_size(progress['bytes'])} in {seconds:.0f} s")
        waits_for = [one for one in waits_for if one != "copies" or not groups]
        parts += ["it waits for " + " and ".join(map(str, waits_for))] if waits_for else []
    head = f"node {row['node']} is {'joining' if joins else 'copying'}"
    return f"{head}: {'; '.join(parts)}" if parts else head


def _size(count: float) -> str:
    """Bytes in the largest unit of which there is one, at most GiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.{0 if unit == 'B' else 1}f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _names(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else ""


def _node(row: Row) -> Row:
    leads, addresses = row["leads"], row["addresses"]
    assert isinstance(leads, list)
    assert isinstance(addresses, list)
    return {
        "node": row["node"],
        "state": row["state"],
        "here": "yes" if row["here"] else "no",
        "addresses": " ".join(map(str, addresses)),
        "leads": len(leads),
    }


def _group(row: Row) -> Row:
    lag = row["lag"]
    assert isinstance(lag, dict)
    return {
        "group": row["group"],
        "leader": row["leader"] or "none",
        "members": _names(row.get("members")),
        "end": row["end"],
        "lag": row["trouble"] or " ".join(f"{node}:{batches}" for node, batches in lag.items()),
    }
