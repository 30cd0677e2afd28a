"""What the demo says of its nodes, and what it does around them."""

import fcntl
import os

import pytest

from amqp10.cli.demo import console_in, planned_nodes, remove_left
from amqp10.cli.demo_story import DemoNode, Story


@pytest.fixture
def story() -> Story:
    """Three nodes, each of which leads a group; the queue is in that of b."""
    nodes = {name: DemoNode(name, f"amqp://{name}", pid=100 + number) for number, name in enumerate("abc", 1)}
    for node in nodes.values():
        node.here = node.ready = True
    story = Story(nodes, 3, "orders", group=2)
    for group, name in enumerate("abc", 1):
        assert list(story.logged(name, "group-led", {"group": group}, 1.0))
    assert story.led
    return story


def test_the_time_from_an_end_to_the_next_leader_is_said(story: Story):
    assert list(story.ended("b", -9, 10.0)) == ["has ended (kill -9); it led group 2"]
    assert not story.led
    assert list(story.logged("c", "group-led", {"group": 2}, 12.94)) == [
        "leads group 2 with queue orders now, 2.9 s after b has ended",
        "publish and consume there: --url amqp://c",
    ]
    assert story.led


def test_without_a_majority_it_says_so(story: Story):
    assert "no majority" not in " ".join(story.ended("a", 0, 1.0))
    *_, last = story.ended("b", -15, 2.0)
    assert last == "only 1 of 3 nodes are left: no majority, so nothing is accepted or delivered"


def test_several_groups_are_named(story: Story):
    list(story.ended("a", -9, 1.0))
    list(story.logged("b", "group-led", {"group": 1}, 3.0))
    assert next(iter(story.ended("b", 3, 4.0))) == "has ended (exit code 3); it led groups 1 and 2"


def test_a_leader_that_gives_up_is_followed_without_a_time(story: Story):
    assert list(story.logged("a", "group-not-led", {"group": 1, "why": "no answer"}, 2.0)) == [
        "leads group 1 no more: no answer"
    ]
    assert list(story.logged("c", "group-led", {"group": 1}, 9.0)) == ["leads group 1 now"]
    assert list(story.logged("a", "group-not-led", {"group": 1}, 9.1)) == ["leads group 1 no more"]
    assert story.leaders[1] == "c"


def test_a_node_that_led_nothing_and_an_etcd_that_ended(story: Story):
    list(story.logged("b", "group-led", {"group": 1}, 3.0))
    assert list(story.ended("a", -9, 1.0)) == ["has ended (kill -9); it led no group"]
    facts = {"again_s": 0.5, "said": "disk full"}
    assert list(story.logged("b", "etcd-ended", facts, 1.0)) == [
        "its etcd has ended, and starts again in 0.5 s: disk full"
    ]
    assert list(story.logged("b", "etcd-started", {"starts": 1, "etcd_pid": 7}, 1.0)) == ["its etcd runs as process 7"]
    [again] = story.logged("b", "etcd-started", {"starts": 2, "etcd_pid": 8}, 1.0)
    assert again == "its etcd runs again as process 8"
    assert list(story.logged("b", "cluster-refused", {"why": "another cluster"}, 1.0)) == [
        "cluster-refused: another cluster"
    ]
    assert list(story.logged("b", "connection-open", {}, 1.0)) == []


def test_the_instructions_name_what_to_do_where(story: Story):
    text = "\n".join(story.instructions(4.23))
    assert "ready after 4.2 s. b leads group 2, which has the queue orders." in text
    assert "headgate publish /queues/orders hello --count 1000 --url amqp://b\n" in text
    assert "kill -9 102   # b, the leader\n" in text
    assert "headgate cluster status --url amqp://a\n" in text


def test_ports_are_in_rows():
    assert [(*node[2:], console) for node, console in planned_nodes(5700)] == [
        (5701, 5711, 5721, 5731),
        (5702, 5712, 5722, 5732),
        (5703, 5713, 5723, 5733),
    ]
    assert len({port for node, console in planned_nodes(0) for port in (*node[2:], console)}) == 12


def test_where_the_console_is_is_taken_from_the_line_of_the_broker():
    assert console_in("x is ready at amqp://h:1 (pid 7), console at http://h:2/") == ", console http://h:2/"
    assert console_in("x is ready at amqp://h:1 (pid 7), no console: in use") == ""


def test_the_folder_of_a_demo_that_was_killed_is_removed_and_no_other(tmp_path):
    for name in ("headgate-demo-left", "headgate-demo-in-use", "headgate-other"):
        (tmp_path / name / "a").mkdir(parents=True)
    (tmp_path / "headgate-demo-link").symlink_to(tmp_path / "headgate-other")
    lock = os.open(tmp_path / "headgate-demo-in-use", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_left(tmp_path)
    finally:
        os.close(lock)
    assert {path.name for path in tmp_path.iterdir()} == {
        "headgate-demo-in-use",
        "headgate-demo-link",
        "headgate-other",
    }
