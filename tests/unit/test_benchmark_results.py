"""docs/benchmarks.md is what the results in benchmarks/results say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.benchmarks_doc import PAGE, RESULTS, page_of, results

ROOT = Path(__file__).parents[2]
WRITE = """
import sys
from pathlib import Path
sys.argv = ["benchmarks/clients.py", "--json", "--clients", "3"]
from common import write_result
write_result("clients", ["phase", "answers/s"], [["idle", 17.5]], Path(sys.stdin.read()))
"""


def test_the_page_is_made_from_the_results_as_they_are() -> None:
    assert page_of(results(RESULTS)) == PAGE.read_text(encoding="utf-8"), "scripts/benchmarks_doc"


def test_a_run_replaces_the_figures_and_keeps_the_texts(tmp_path: Path) -> None:
    old = json.loads((RESULTS / "clients.json").read_text(encoding="utf-8"))
    (tmp_path / "clients.json").write_text(json.dumps(old), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", WRITE],
        input=str(tmp_path),
        env={"PYTHONPATH": f"{ROOT / 'benchmarks'}", "PATH": "/usr/bin:/bin"},
        cwd=ROOT,
        text=True,
        check=True,
        timeout=60,
    )
    new = results(tmp_path)["clients"]
    assert new["rows"] == [["idle", 17.5]] and new["columns"] == ["phase", "answers/s"]
    assert new["command"] == "python benchmarks/clients.py --clients 3"
    assert new["commit"] != old["commit"] and new["commit_note"] == ""
    assert [new[field] for field in ("title", "section", "order", "text")] == [
        old[field] for field in ("title", "section", "order", "text")
    ]
    assert "| idle | 17.5 |" in page_of({"clients": new})


@pytest.mark.parametrize("change", [{"date": 3}, {"unknown": ""}, {"rows": [["idle"]]}])
def test_a_result_with_a_wrong_field_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    result = json.loads((RESULTS / "clients.json").read_text(encoding="utf-8")) | change
    (tmp_path / "clients.json").write_text(json.dumps(result), encoding="utf-8")
    with pytest.raises(ValueError, match=r"clients\.json"):
        results(tmp_path)
