"""One daemon a socket, its owner's alone, and never at the cost of what is there already."""

import socket
import stat

import pytest

from tests.e2e.daemon import Place


def test_too_long_a_path_is_refused_with_the_limit(place: Place) -> None:
    place.configure(f'[daemon]\nsocket = "{place.base}/{"x" * 108}/s.sock"\n')
    ran = place.run("serve")
    assert ran.returncode == 1
    assert "longer than 107 bytes" in ran.stderr
    assert "daemon.socket" in ran.stderr


def test_a_file_that_is_no_socket_is_left_alone(place: Place) -> None:
    place.socket.parent.mkdir(parents=True, mode=0o700)
    place.socket.write_text("precious")
    ran = place.run("serve")
    assert ran.returncode == 1
    assert "not a socket" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert place.socket.read_text() == "precious"


def test_a_folder_that_others_may_enter_is_refused(place: Place) -> None:
    place.socket.parent.mkdir(parents=True)
    place.socket.parent.chmod(0o755)
    ran = place.run("serve")
    assert ran.returncode == 1
    assert "0755" in ran.stderr
    assert "chmod 700" in ran.stderr


@pytest.mark.models
def test_only_the_owner_can_use_the_socket(daemon: Place) -> None:
    assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(daemon.socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((daemon.notes / "own").stat().st_mode) == 0o700
    assert stat.S_IMODE((daemon.notes / "own/hopsyncd.db").stat().st_mode) == 0o600


@pytest.mark.models
def test_a_second_daemon_is_refused_and_the_first_does_not_notice(daemon: Place) -> None:
    before = daemon.status()["pid"]
    ran = daemon.run("serve")
    assert ran.returncode == 1
    assert "another hopsyncd daemon already listens on this socket" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert daemon.status()["pid"] == before
    assert daemon.query("Bergen", k=1)


@pytest.mark.models
def test_a_second_daemon_on_the_same_data_is_refused(daemon: Place) -> None:
    other = daemon.base / "other.toml"
    other.write_text(
        f'[daemon]\ndata_dir = "{daemon.notes}/own"\nsocket = "{daemon.home}/run/other.sock"\n'
    )
    ran = daemon.run("--config", str(other), "serve")
    assert ran.returncode == 1
    assert "another hopsyncd process is writing to the database" in ran.stderr
    assert not (daemon.home / "run/other.sock").exists()


@pytest.mark.models
def test_a_stale_socket_is_taken_over_and_removed_at_the_end(place: Place) -> None:
    place.socket.parent.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(place.socket))
    place.start()
    assert place.get("/v1/health")["status"] == "ok"
    assert place.stop()[0] == 0
    assert not place.socket.exists()
