"""The ledger of LLM calls: daily limits that hold across threads, processes and kills."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from store.engines.sqlite.database import open_file
from store.exceptions import StoreError
from store.ledger import Ledger, Reservation, Spent

DAY = 20_000


def reserve(ledger: Ledger, tokens: int = 10, purpose: str = "questions") -> Reservation:
    reserved = ledger.reserve(DAY, purpose, "notes", tokens)
    assert reserved is not None
    return reserved


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "llm.db"


def test_spending_by_purpose_and_source_survives_a_restart(path: Path) -> None:
    ledger = Ledger(path)
    ledger.settle(reserve(ledger, 100), 40, 5)
    ledger.settle(reserve(ledger, 100), 2, 1)
    answer = ledger.reserve(DAY, "answers", "", 50)
    assert answer is not None
    ledger.settle(answer, 20, 10)
    ledger.close()
    assert Ledger(path).sum_spending(DAY) == [
        Spent("answers", "", 0, 1, 20, 10, 0),
        Spent("questions", "notes", 0, 2, 42, 6, 0),
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_daily_limit_covers_one_day(path: Path) -> None:
    ledger = Ledger(path, max_calls_per_day=2)
    assert [ledger.reserve(DAY, "answers", "", 1) is None for _ in range(3)] == [False, False, True]
    assert ledger.reserve(DAY + 1, "answers", "", 1) is not None
    assert [row.calls for row in ledger.sum_spending(DAY + 1)] == [1]


def test_tokens_under_way_count_against_the_limit_until_they_are_settled(path: Path) -> None:
    ledger = Ledger(path, max_tokens_per_day=100)
    first = reserve(ledger, 60)
    assert ledger.reserve(DAY, "answers", "", 60) is None
    ledger.settle(first, 30, 10)
    assert ledger.reserve(DAY, "answers", "", 60) is not None


def test_a_limit_holds_for_threads_of_two_ledgers_on_one_file(path: Path) -> None:
    ledgers = [Ledger(path, max_calls_per_day=30) for _ in range(2)]
    assert ledgers[0].sum_spending(DAY) == []
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(lambda n: ledgers[n % 2].reserve(DAY, "answers", "", 1), range(80))
        assert sum(reserved is not None for reserved in asked) == 30


def test_a_killed_process_has_counted_its_request(path: Path) -> None:
    """SIGKILL between the reservation and the reply."""
    script = (
        "import os, signal, sys; from pathlib import Path; from store.ledger import Ledger\n"
        f"Ledger(Path(sys.argv[1])).reserve({DAY}, 'questions', 'notes', 70)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", script, str(path)], cwd=root, check=False)
    assert killed.returncode == -9
    ledger = Ledger(path, max_tokens_per_day=100)
    assert ledger.sum_spending(DAY) == [Spent("questions", "notes", 0, 1, 0, 0, 70)]
    assert ledger.reserve(DAY, "questions", "notes", 31) is None


def test_a_version_takes_what_was_spent_for_it_and_leaves_what_is_under_way(path: Path) -> None:
    ledger = Ledger(path)
    ledger.settle(reserve(ledger), 4, 2)
    ledger.settle(reserve(ledger, purpose="answers"), 7, 7)
    late = reserve(ledger, 50)
    ledger.assign_version(9, "questions")
    ledger.settle(late, 1, 1)
    ledger.assign_version(10, "questions")
    ledger.assign_version(10, "questions")
    spent = {
        (row.purpose, row.version): (row.calls, row.tokens) for row in ledger.sum_spending(DAY)
    }
    assert spent == {("answers", 0): (1, 14), ("questions", 9): (2, 6), ("questions", 10): (0, 2)}


@pytest.mark.parametrize(
    "damage", [b"this is no database" * 500, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_refused_with_a_hint_and_replaced_once_it_is_gone(
    path: Path, damage: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(damage)
    ledger = Ledger(path)
    with pytest.raises(StoreError, match="Move the file away"):
        reserve(ledger)
    with pytest.raises(StoreError, match=r"llm\.db"):
        ledger.sum_spending(DAY)
    path.unlink()
    reserve(ledger)
    assert ledger.sum_spending(DAY)[0].calls == 1


def test_a_file_that_another_program_holds_is_refused_until_it_lets_go(path: Path) -> None:
    ledger = Ledger(path)
    reserve(ledger)
    other = open_file(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="Stop the other program"):
        reserve(ledger)
    other.execute("ROLLBACK")
    reserve(ledger)
    assert ledger.sum_spending(DAY)[0].calls == 2


def test_a_ledger_of_a_newer_program_is_left_alone(path: Path) -> None:
    ledger = Ledger(path)
    reserve(ledger)
    ledger.close()
    newer = open_file(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(StoreError, match="newer version of hopsyncd"):
        reserve(ledger)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(StoreError, match="File exists"):
        reserve(Ledger(tmp_path / "data" / "llm.db"))


def test_a_ledger_that_is_moved_away_is_replaced_by_a_new_ledger(
    path: Path,
) -> None:
    ledger = Ledger(path)
    reserve(ledger)
    path.rename(path.with_name("old.db"))
    reserve(ledger)
    ledger.close()
    assert Ledger(path).sum_spending(DAY)[0].calls == 1
