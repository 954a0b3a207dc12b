"""How an import is cut into versions: soon a first one, then few."""

from pathlib import Path

from hopsyncd.ingest.read import Pace
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack


def batches(passages: int, each_s: float, version_s: float = 0.0) -> list[int]:
    """The batches of an import whose passages, and whose versions, cost so much."""
    pace, made = Pace(), list[int]()
    while passages > 0:
        now = min(pace.passages, passages)
        pace.adjust(now, version_s + now * each_s)
        made.append(now)
        passages -= now
    return made


class TestBatches:
    def test_passages_that_are_quick_to_make_share_large_versions(self) -> None:
        assert batches(20_000, 0.0001) == [32, *[4096] * 4, 3584]

    def test_the_second_version_takes_about_ten_seconds(self) -> None:
        made = batches(10_000, 0.0125)
        assert made[0] == 32
        assert 9 < made[1] * 0.0125 <= 10
        assert made[2] == 2 * made[1]

    def test_slow_models_have_a_version_a_minute(self) -> None:
        made = batches(5_000, 1 / 8)
        assert made[:4] == [32, 80, 160, 320]
        assert 400 < max(made) <= 480

    def test_a_passage_that_takes_minutes_still_makes_no_batch_of_one(self) -> None:
        assert set(batches(100, 100.0)) == {32, 4}

    def test_a_high_cost_of_each_version_makes_larger_versions(self) -> None:
        assert len(batches(20_000, 0.0, 3.0)) <= 12


def test_an_import_that_is_quick_is_two_versions(tmp_path: Path) -> None:
    files = {f"{n}.md": f"Caesar met Brutus{n} in Rome.".encode() for n in range(200)}
    stack = Stack(tmp_path / "s.db", MemoryConnector(files), batch_documents=1000)
    stack.sync()
    assert [version.passages for version in stack.versions] == [32, 200]


def test_moved_documents_are_one_version_however_many_passages_they_have(tmp_path: Path) -> None:
    connector = MemoryConnector({f"a/{n}.md": f"Rome has {n}.".encode() for n in range(100)})
    stack = Stack(tmp_path / "s.db", connector, batch_documents=1000)
    stack.sync()
    before = stack.head.id
    for path, data in list(connector.files.items()):
        connector.put(path.replace("a/", "b/"), data)
        connector.remove(path)
    stack.sync()
    assert stack.head.id == before + 1


def test_long_documents_come_after_the_others(tmp_path: Path) -> None:
    long = b"\n\n".join(f"Caesar crossed the river {n} near Rome.".encode() for n in range(3000))
    connector = MemoryConnector({"a.md": long, "b.md": b"Nero burnt Rome."})
    stack = Stack(tmp_path / "s.db", connector)
    stack.sync()
    assert connector.fetched == ["b.md", "a.md"]
