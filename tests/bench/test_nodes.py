"""The benchmark of several processes on one port."""

import pytest

from bench import nodes


def test_two_nodes_cost_what_was_measured_and_one_node_nothing_more_than_alone():
    assert nodes.of_nodes(1, 2.9, 7.3) == 2.9
    assert nodes.of_nodes(2, 2.9, 7.3) == pytest.approx(7.3)
    assert nodes.of_nodes(4, 2.9, 7.3) == pytest.approx(9.5)


@pytest.mark.slow
def test_it_measures_both_and_says_what_more_cores_would_do(capsys):
    assert nodes.main(["--queues", "2", "--messages", "2000", "--rounds", "1"]) == 0
    alone, together, *lines = capsys.readouterr().out.splitlines()
    assert alone.startswith("alone ")
    assert together.startswith("node 1 ")
    assert "node 2 " in together
    assert sum(line.startswith((" 16 nodes:", "  8 nodes:")) for line in lines) == 2
