"""Question sets made on a Ray cluster of two nodes are those that are made here, whoever dies."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.config.configuration import ModelsConfig
from hopsyncd.models.cluster import ClusterMaker
from hopsyncd.models.questions import BuiltinMaker
from store.records import Passage, PassageId, QuestionSet
from tests.fakes.dump import graph_at
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import OTHER_MODELS, FakeEncoder, FakeLanguage, maker_on_worker
from tests.fakes.port import free_port
from tests.fakes.stack import Stack

ray = pytest.importorskip("ray", reason="no Ray here: pip install 'hopsyncd[ray]'")
SMALL: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}
CLIENT_PORT = free_port()
PASSAGES = [
    Passage((f"City {n}",), f"Caesar{n} met Brutus in Rome. Nero{n} saw Paris.") for n in range(120)
]
Sets = dict[PassageId, tuple[object, ...]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    head = {**SMALL, "include_dashboard": False, "ray_client_server_port": CLIENT_PORT}
    made: Any = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(**SMALL)
    yield made
    ray.shutdown()
    made.shutdown()


def description(made: QuestionSet) -> tuple[object, ...]:
    return made.id, made.questions, made.vectors.tobytes(), made.provisional


def sets_of(maker: BuiltinMaker, at: Callable[[int], None] = lambda done: None) -> Sets:
    """What is made of PASSAGES; `at` is told how many are done."""
    found: Sets = {}
    for made in maker.make_each(PASSAGES):
        for passage, got in made:
            assert isinstance(got, QuestionSet) and passage.id not in found
            found[passage.id] = description(got)
        at(len(found))
    return found


def new_maker(address: str) -> ClusterMaker:
    return ClusterMaker(FakeLanguage(), FakeEncoder(), ModelsConfig(), address, maker_on_worker)


def joined(cluster: Any) -> ClusterMaker:
    maker = new_maker(cluster.address)
    until(maker, "joined")
    return maker


def until(maker: ClusterMaker, description: str) -> None:
    """Import until the cluster is as told."""
    end_s = time.monotonic() + 120
    while description not in maker.description:
        assert time.monotonic() < end_s, maker.description
        assert sets_of(maker) == EXPECTED
        time.sleep(0.2)


EXPECTED = sets_of(BuiltinMaker(FakeLanguage(), FakeEncoder()))


def workers() -> list[int]:
    """The processes of our cluster that make sets now: their nodes are children of this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        pid = int(path.parent.name)
        with suppress(OSError):  # it has ended since it was listed
            makes = path.read_bytes().startswith(b"ray::make_on_worker")
            if makes and parent_of(parent_of(pid)) == os.getpid():
                found.append(pid)
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_an_import_gives_the_same_rows(cluster: Any, tmp_path: Path) -> None:
    files = {f"{n}.md": f"# City{n}\n\nCaesar{n} met Nero{n % 7}.\n".encode() for n in range(90)}
    rows = []
    for name, maker in (("there", joined(cluster)), ("here", None)):
        stack = Stack(tmp_path / name, MemoryConnector(files), maker)
        assert stack.sync().problem is None
        rows.append(graph_at(stack.connection, stack.head.id))
    assert rows[0] == rows[1]


def test_the_tasks_of_a_killed_worker_are_done_by_another_worker(cluster: Any) -> None:
    maker = joined(cluster)
    killed: list[int] = []

    def kill(done: int) -> None:
        if not killed and done > 20 and (there := workers()):
            os.kill(there[0], signal.SIGKILL)
            killed.append(there[0])

    assert sets_of(maker, kill) == EXPECTED
    assert killed and "joined" in maker.description


def test_the_tasks_of_a_lost_node_are_done_by_another_node(cluster: Any) -> None:
    node, maker = cluster.add_node(**SMALL), joined(cluster)

    def lose(done: int) -> None:
        if done > 20 and node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)

    assert sets_of(maker, lose) == EXPECTED
    assert "joined" in maker.description


def test_a_machine_with_other_models_is_refused_in_words(cluster: Any) -> None:
    maker = joined(cluster)
    node = cluster.add_node(**{**SMALL, "num_cpus": 4}, env_vars={OTHER_MODELS: "1"})
    try:
        until(maker, "has a different encoder and a different result of the same passage")
    finally:
        cluster.remove_node(node)
    assert sets_of(maker) == EXPECTED


class GoneAtOnce:
    """A cluster whose connection is lost as the first tasks are handed over."""

    exceptions = ray.exceptions

    def __init__(self) -> None:
        self.taken = 0

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4}

    def remote(self, *given: object, **options: object) -> Any:
        """Serves as the decorator, the task and its hand-over."""
        if options:
            return lambda function: self
        if self.taken == 2:
            raise ConnectionError("gone")
        self.taken += 1
        return self.taken


def test_tasks_that_the_cluster_cannot_take_are_done_on_this_machine() -> None:
    maker = new_maker("ray://127.0.0.1:1")
    maker._ray = GoneAtOnce()
    assert sets_of(maker) == EXPECTED
    assert "gone" in maker.description


@pytest.mark.nightly
def test_a_cluster_elsewhere_is_asked_by_its_client_port(cluster: Any) -> None:
    maker = new_maker(f"ray://127.0.0.1:{CLIENT_PORT}")
    until(maker, "joined")
    assert sets_of(maker) == EXPECTED
    assert "joined" in maker.description


@pytest.mark.parametrize("owner", [None, 65534])
def test_auto_joins_no_missing_cluster_and_none_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int | None
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    if owner is not None:
        if os.geteuid() != 0:
            pytest.skip("only root can give a file to another user")
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray/ray_current_cluster").write_text("127.0.0.1:1")
        os.chown(tmp_path / "ray/ray_current_cluster", owner, owner)
    until(new_maker("auto"), "no cluster runs on this machine" if owner is None else "another user")


def test_a_small_edit_asks_no_cluster() -> None:
    maker = new_maker("ray://127.0.0.1:1")
    assert [len(made) for made in maker.make_each(PASSAGES[:3])] == [1, 1, 1]
    assert "not asked yet" in maker.description
