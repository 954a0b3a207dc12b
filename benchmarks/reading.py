"""How much of real files is read: words, their order, and the cells of tables.

The files come from other projects' tests, each with a reference: the texts in it, and its tables
with their headers. They are read as the daemon reads them, by a confined worker.

The table has a row for each format, with the number of files, and how many were read, were refused,
or gave no text although the reference has text; the mean and the worst share of the reference's
words that were read; the median share of the words read that the reference lacks; the number of
files with nine of ten cells under their header, of the files with header tables; and the cells by
their place (see fidelity.py).

Some references lack text that the file has, so no reader can match them. References made by
sheetjs and pandoc name no header below a title: all 67 cells that count as invented stand under a
header, 45 of them under a filled one in bold (vodafone.xlsx), 18 under Team, Location and Stanley
Cups. Only a rule that never reads a row below a title as a header would avoid them. In 424 other
workbooks, this rule would lose the column names of 35 tables. Mail quoted in a later
message of the same mailbox is left out on purpose (complex.mbox). Numbers and dates are read as
displayed, or in ISO form (5.0 as 5, 9/20/18 as 2018-09-20). Two tables consist of headers alone.

python benchmarks/reading.py [--format html]
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import JSON, arguments, table, write_result
from fidelity import JUDGEMENTS, Fidelity, Judgement, judge

from connectors.media_type import guess_media_type
from hopsyncd.config.configuration import Config
from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.chunking import split_into_passages
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess

COLUMNS = (
    "format", "files", "read", "refused", "silent", "recall mean", "worst", "extra", "tables",
    *JUDGEMENTS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """The result for one file: the format, the reason if the file was refused, whether it gave
    text, and the fidelity."""

    kind: str
    refused: str
    has_text: bool
    fidelity: Fidelity


def main() -> None:
    given = arguments(
        __doc__ or "",
        JSON,
        ("--format", {"help": "Only files of this format."}),
        ("--files", {"action": "store_true", "help": "Print a line for each file too."}),
    )
    folder = given.data / "reading"
    if not (folder / "split.json").is_file():
        print(f"{folder} is absent: nothing is measured")
        return
    items = json.loads((folder / "split.json").read_text())["files"]
    wanted = [item for item in items if given.format in (None, item["format"])]
    judged: list[Judged] = []
    for item, one in read_all(folder, wanted):
        judged.append(one)
        if given.files:
            print(_line(item, one))
    rows = [*_rows(judged)]
    table(COLUMNS, rows)
    if given.json:
        write_result("reading", COLUMNS, rows)


def read_all(
    folder: Path, items: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], Judged]]:
    """Read each file, and compare it with its reference."""
    tokens = Config().index.passage_tokens
    with closing(ExtractionProcess()) as process:
        for item in items:
            file = folder / "files" / _file_name(item)
            reference = json.loads((folder / item["reference"]).read_text(encoding="utf-8"))
            refused, passages = "", list[tuple[tuple[str, ...], str]]()
            try:
                blocks = process.extract(file.read_bytes(), guess_media_type(file.name))
                passages = [
                    (unit.heading, unit.text) for unit in split_into_passages(blocks, tokens)
                ]
            except DocumentUnreadable as problem:
                refused = problem.why
            fidelity = judge(reference, passages)
            yield item, Judged(item["format"], refused, bool(passages), fidelity)


def _file_name(item: Mapping[str, Any]) -> str:
    base = re.sub(r"[^\w.-]+", "_", Path(item["path"]).name)
    if not base.lower().endswith(f".{item['format']}"):
        base += f".{item['format']}"
    return f"{item['format']}/{item['id'][:8]}-{base}"


def _rows(judged: Sequence[Judged]) -> Iterator[list[object]]:
    kinds = sorted({one.kind for one in judged})
    for kind in [*kinds, "all"] if len(kinds) > 1 else kinds:
        yield _row(kind, [one for one in judged if kind in (one.kind, "all")])


def _row(kind: str, judged: Sequence[Judged]) -> list[object]:
    read = [outcome.fidelity for outcome in judged if outcome.has_text]
    recall = [one.recall * 100 for one in read if one.recall is not None]
    labelled = [outcome.fidelity for outcome in judged if outcome.fidelity.has_headers]
    cells: Counter[Judgement] = Counter()
    for outcome in judged:
        cells.update(outcome.fidelity.cells)
    silent = sum(
        not outcome.has_text and not outcome.refused and outcome.fidelity.words > 0
        for outcome in judged
    )
    return [
        kind,
        len(judged),
        len(read),
        sum(bool(one.refused) for one in judged),
        silent,
        statistics.mean(recall) if recall else "",
        min(recall, default=""),
        statistics.median(one.extra * 100 for one in read) if read else "",
        f"{sum(one.is_well_labelled for one in labelled)} of {len(labelled)}",
        *(cells[judgement] for judgement in JUDGEMENTS),
    ]


def _line(item: Mapping[str, Any], judged: Judged) -> str:
    fidelity = judged.fidelity
    recall = "" if fidelity.recall is None else f"{fidelity.recall * 100:.1f}"
    cells = ", ".join(f"{count} {kind}" for kind, count in fidelity.cells.items())
    parts = [_file_name(item), recall, f"{fidelity.extra * 100:.1f}", cells, judged.refused]
    return " | ".join(parts)


if __name__ == "__main__":
    main()
