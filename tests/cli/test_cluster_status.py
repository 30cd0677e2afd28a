"""``headgate cluster status``: what it prints of an answer."""

import pytest

from amqp10.cli.cluster import progress_of, tell_status


def node(name: str, state: str, *, here: bool = True, **more: object) -> dict[str, object]:
    return {"node": name, "state": state, "here": here, "addresses": [f"{name}:5672"], "leads": [1], **more}


def progress(copied: int, groups: int, came: int, seconds: float, *waits_for: str) -> dict[str, object]:
    return {"copied": copied, "groups": groups, "bytes": came, "seconds": seconds, "waits_for": list(waits_for)}


def test_a_node_that_joins_has_a_sentence_below_the_nodes(capsys: pytest.CaptureFixture[str]):
    joining = progress(3, 16, 13_002_342, 8.2, "copies")
    nodes = [node("a", "member", progress=None), node("d", "joining", progress=joining)]
    group = {"group": 1, "leader": "a", "members": ["a"], "end": 7, "lag": {"a": 0}, "trouble": ""}
    tell_status({"name": "demo", "node": "a", "joined": True, "trouble": "", "engine": {"own": None}, "nodes": nodes,
                 "groups": [group]})  # fmt: skip
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "cluster demo, as node a sees it",
        "node  state    here  addresses  leads",
        "a     member   yes   a:5672     1",
        "d     joining  yes   d:5672     1",
        "node d is joining: 3 of 16 groups copied, 12.4 MiB in 8 s",
        "group  leader  members  end  lag",
        "1      a       a        7    a:0",
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (node("a", "member", progress=None), ""),
        (node("a", "member"), ""),
        (node("a", "leaving", progress=None), ""),
        (node("d", "joining"), "node d is joining"),
        (node("d", "joining", here=False, progress=None), "node d is joining: it is away"),
        (
            node("d", "joining", progress=progress(0, 0, 0, 0.0, "definitions", "batches")),
            "node d is joining: it waits for definitions and batches",
        ),
        (
            node("d", "joining", progress=progress(16, 16, 5 << 30, 1300.4, "the vote of its etcd")),
            "node d is joining: 16 of 16 groups copied, 5.0 GiB in 1300 s; it waits for the vote of its etcd",
        ),
        (
            node("b", "member", progress=progress(1, 2, 512, 0.0, "copies")),
            "node b is copying: 1 of 2 groups copied, 512 B in 0 s",
        ),
    ],
)
def test_what_is_said_of_a_node(row: dict[str, object], said: str):
    assert progress_of(row) == said
