"""The ledger of calls in a database on a server: its limits hold for all daemons together."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hopsyncd.config.configuration import LlmConfig
from hopsyncd.models.loading import open_endpoint
from store.engines.postgres import session
from store.exceptions import OlderSchema
from store.ledger import Ledger, Spent
from store.open_database import open_reader, open_writer
from store.transactions import transaction

DAY = 20_000
TABLE = "llm_spent"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(on_server: str) -> str:
    with closing(open_writer(on_server)):
        return on_server


def test_a_limit_holds_for_the_daemons_together(url: str) -> None:
    ledgers = [Ledger(url, 30, table=TABLE) for _ in range(3)]
    with ThreadPoolExecutor(9) as pool:
        asked = list(pool.map(lambda n: ledgers[n % 3].reserve(DAY, "answers", "", 5), range(80)))
    reserved = [one for one in asked if one is not None]
    assert len(reserved) == 30
    ledgers[1].settle(reserved[0], 3, 1)
    ledgers[2].assign_version(7, "questions")  # these are another purpose's
    assert ledgers[0].sum_spending(DAY) == [Spent("answers", "", 0, 30, 3, 1, 29 * 5)]
    assert ledgers[0].reserve(DAY + 1, "answers", "", 5) is not None
    for ledger in ledgers:
        ledger.close()


def test_llm_calls_are_attributed_to_versions(url: str) -> None:
    ledger = Ledger(url, table=TABLE)
    for version in (3, 4):
        reserved = ledger.reserve(DAY, "questions", "notes", 10)
        assert reserved is not None
        ledger.settle(reserved, 6, version)
        ledger.assign_version(version, "questions")
    assert ledger.sum_spending(0) == [
        Spent("questions", "notes", 3, 1, 6, 3, 0),
        Spent("questions", "notes", 4, 1, 6, 4, 0),
    ]
    ledger.close()


def test_a_killed_process_has_counted_its_request(url: str) -> None:
    script = (
        "import os, signal, sys; from store.ledger import Ledger\n"
        f"Ledger(sys.argv[1], table='{TABLE}').reserve({DAY}, 'answers', '', 70)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, url], cwd=ROOT, check=False)
    assert killed.returncode == -9
    ledger = Ledger(url, max_tokens_per_day=100, table=TABLE)
    assert ledger.reserve(DAY, "answers", "", 31) is None
    assert ledger.reserve(DAY, "answers", "", 30) is not None
    ledger.close()


def test_a_process_that_was_stopped_while_it_counts_does_not_stop_the_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LEASE_S", 1)
    script = (
        "import os, signal, sys\n"
        "from store.engines.postgres import session\n"
        "from store.open_database import open_reader\n"
        "from store.transactions import transaction\n"
        "session.LEASE_S = 1\n"
        "connection = open_reader(sys.argv[1])\n"
        "with transaction(connection):\n"
        f"    connection.server.lock_table('{TABLE}')\n"
        "    print('locked', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    arguments = [sys.executable, "-c", script, url]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE) as stopped:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == b"locked\n"
        ledger = Ledger(url, table=TABLE)
        # The server frees the lock after a second; under load the first call may give up before.
        end_s = time.monotonic() + 60
        while ledger.reserve(DAY, "answers", "", 1) is None:
            assert time.monotonic() < end_s
        os.kill(stopped.pid, signal.SIGKILL)
    ledger.close()


def test_a_follower_records_calls_once_the_writer_has_created_the_table(on_server: str) -> None:
    ledger = Ledger(on_server, table=TABLE)
    with pytest.raises(OlderSchema):
        ledger.reserve(DAY, "answers", "", 1)
    with closing(open_writer(on_server)):
        assert ledger.reserve(DAY, "answers", "", 1) is not None
    ledger.close()


def test_the_endpoints_of_a_record_on_a_server_count_there(url: str, tmp_path: Path) -> None:
    config = LlmConfig(base_url="http://127.0.0.1:9/v1", model="fake")
    llm = open_endpoint(config, tmp_path, url)
    assert llm.ledger.reserve(DAY, "answers", "", 1) is not None
    with closing(open_reader(url)) as connection, transaction(connection):
        (calls,) = connection.execute(f"SELECT sum(calls) FROM {TABLE}").fetchone()
    assert calls == 1
    assert not list(tmp_path.iterdir())
    llm.close()
