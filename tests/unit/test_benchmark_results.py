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
from hopsyncd.evaluation.measures import Share
rows = [["idle", 17.5], ["busy", Share.from_values([1.0] * 9)]]
write_result("clients", ["phase", "answers/s"], rows, Path(sys.stdin.read()))
"""


def test_the_benchmark_page_matches_the_results() -> None:
    assert page_of(results(RESULTS)) == PAGE.read_text(encoding="utf-8"), "scripts/benchmarks_doc"


def test_the_figures_of_the_readme_are_those_of_the_results() -> None:
    found = results(RESULTS)

    def cell(name: str, row: str, column: str) -> float:
        rows = {cells[0]: cells for cells in found[name]["rows"]}
        value = rows[row][found[name]["columns"].index(column)]
        return float(value[0] if isinstance(value, list) else value)

    real = [row[0] for row in found["real-documents"]["rows"] if row[0] != "hop"]
    plain = {
        column: max(cell("real-documents", strategy, column) for strategy in real)
        for column in ("one @5", "several @5")
    }
    assert _readme_table() == [
        [cell("real-documents", "hop", "one @5"), plain["one @5"]],
        [cell("real-documents", "hop", "several @5"), plain["several @5"]],
        [cell("held-back", f"all, `{name}`", "several @5") for name in ("hop", "hybrid")],
        [cell("2wiki-development", strategy, "recall@5") for strategy in ("hop", "hybrid")],
        [round(cell("scale", "edit to answer, p50, s", "10,000"), 2)],
        [round(cell("scale", "question, p50, ms", "10,000"))],
        [55.0],  # passages a second: 2,105 in 38 s
    ]
    wall_s = cell("indexing", "281 real files", "wall s")
    assert round(2105 / wall_s) == 55


def _readme_table() -> list[list[float]]:
    """The figures of the rows of the README's table, without their units."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = readme.partition("| measured |")[2].splitlines()[2:]
    rows = rows[: rows.index("")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")[1:]] for row in rows]
    return [[float(cell.split()[0].split("/")[0]) for cell in row if cell] for row in cells]


def test_the_readme_keeps_its_word_limit() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120 and len(text.split()) <= 900


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
    assert new["rows"] == [["idle", 17.5], ["busy", [100.0, 70.1, 100.0]]]
    assert new["columns"] == ["phase", "answers/s"]
    assert new["command"] == "python benchmarks/clients.py --clients 3"
    assert new["commit"] != old["commit"] and new["commit_note"] == ""
    assert [new[field] for field in ("title", "section", "order", "text")] == [
        old[field] for field in ("title", "section", "order", "text")
    ]
    page = page_of({"clients": {**new, "shown": True}})
    assert "|idle|17.5|" in page and "|busy|100.0 (70\u2013100)|" in page
    assert f"`python benchmarks/clients.py --clients 3`|{new['commit']}|{new['date']}|" in page
    assert f"measured on this one: {new['machine']}" in page


@pytest.mark.parametrize("change", [{"date": 3}, {"unknown": ""}, {"rows": [["idle"]]}])
def test_a_result_with_a_wrong_field_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    result = json.loads((RESULTS / "clients.json").read_text(encoding="utf-8")) | change
    (tmp_path / "clients.json").write_text(json.dumps(result), encoding="utf-8")
    with pytest.raises(ValueError, match=r"clients\.json"):
        results(tmp_path)
