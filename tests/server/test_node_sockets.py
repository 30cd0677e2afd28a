"""Unix sockets between processes of one user."""

import socket

from core.server.node_sockets import PATH_BYTES_MAX, address_of, connect_to, is_same_user, listen_at


def test_a_path_of_any_length_is_reached(tmp_path):
    folder = tmp_path / ("a" * 200)
    folder.mkdir()
    for path in (tmp_path / "s", folder / "node.socket"):
        with listen_at(path, 1) as listening, connect_to(path) as connected:
            accepted, address = listening.accept()
            with accepted:
                assert is_same_user(accepted)
                assert is_same_user(connected)
                assert address_of(address) == ("127.0.0.1", 0)
                assert path.stat().st_mode & 0o777 == 0o600
    assert len(bytes(folder / "node.socket")) > PATH_BYTES_MAX


def test_a_socket_that_an_earlier_process_has_left_is_replaced(tmp_path):
    path = tmp_path / "s"
    listen_at(path, 1).close()
    assert path.exists()
    with listen_at(path, 1), connect_to(path):
        pass


def test_the_ends_of_another_socket_have_host_and_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        host, port = address_of(one.getsockname())
    assert host == "127.0.0.1"
    assert port > 0
