"""Questions on scanned pages: text of real documents drawn as pictures, and read by tesseract.

python benchmarks/scans.py

For each of the first ten questions that need one passage, the text around this passage is drawn as
a page. Thirty more pages come from other documents. The 40 pages have 200 dots an inch, are turned
a little and have specks. A second index has the same pages as text files.
"""

import random
import re
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from common import arguments, real_documents, table
from PIL import Image, ImageDraw, ImageFont

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search, Strategy
from hopsyncd.evaluation.real_folder import QuotedQuestion, index_folder, make_source, read_quoted
from hopsyncd.evaluation.run import DATABASE_NAME
from hopsyncd.models.loading import Models, load_models
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.walk_settings import WalkSettings

_QUESTIONS, _OTHERS = 10, 30
_COLUMNS, _LINES = 88, 52
_SIZE = (1654, 2339)  # A4 at 200 dots an inch
_MARGIN, _LINE, _LETTER = 120, 40, 30
_TURN = 0.6  # degrees
_SPECKS = 3000
_STRATEGIES: tuple[Strategy, ...] = ("hop", "bm25", "dense", "hybrid")


def main() -> None:
    given = arguments(__doc__ or "")
    folder = real_documents(given.data)
    if not which("tesseract"):
        print("skipped: tesseract is not installed")
        sys.exit(0)
    draw = random.Random(1)
    single = [
        question
        for question in read_quoted(folder / "questions.jsonl")
        if question.kind == "single"
    ]
    asked = [one for one in single if _quoted_page(folder, one)][:_QUESTIONS]
    pages = {question.id: _quoted_page(folder, question) for question in asked}
    files = sorted(one for one in folder.rglob("*") if one.suffix in (".md", ".rst", ".txt"))
    for file in draw.sample(files, _OTHERS):
        lines = _lines(file)
        first = draw.randrange(max(len(lines) - _LINES, 1))
        pages[f"other-{len(pages)}"] = lines[first : first + _LINES]
    models = load_models(Config())
    rows = []
    for kind, write in (("scans", _scan), ("text", _text)):
        rows += _measured(kind, pages, asked, write, models, random.Random(2))
    table(["pages", "strategy", "all@5 of 10", "all@1", "indexed in s"], rows)


def _quoted_page(folder: Path, question: QuotedQuestion) -> list[str]:
    """The lines around the first quote; empty if the text has the quote in another form."""
    quote = question.evidence[0][0]
    lines = _lines(folder / quote.document)
    text = "\n".join(lines)
    found = re.search(r"\s+".join(map(re.escape, quote.text.split())), text)
    if not found:
        return []
    at = text[: found.start()].count("\n")
    first = max(at - _LINES // 2, 0)
    return lines[first : first + _LINES]


def _lines(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8", errors="replace")
    return [part for line in text.splitlines() for part in textwrap.wrap(line, _COLUMNS) or [""]]


def _text(file: Path, lines: Sequence[str], _: random.Random) -> None:
    file.with_suffix(".txt").write_text("\n".join(lines), encoding="utf-8")


def _scan(file: Path, lines: Sequence[str], draw: random.Random) -> None:
    page = Image.new("L", _SIZE, 255)
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(_LETTER)
    for number, line in enumerate(lines):
        pen.text((_MARGIN, _MARGIN + number * _LINE), line, fill=0, font=font)
    page = page.rotate(draw.uniform(-_TURN, _TURN), Image.Resampling.BICUBIC, fillcolor=255)
    for _ in range(_SPECKS):
        at = draw.randrange(_SIZE[0]), draw.randrange(_SIZE[1])
        page.putpixel(at, draw.randrange(256))
    page.save(file.with_suffix(".png"), dpi=(200, 200))


def _measured(
    kind: str,
    pages: Mapping[str, Sequence[str]],
    asked: Sequence[QuotedQuestion],
    write: Callable[[Path, Sequence[str], random.Random], None],
    models: Models,
    draw: random.Random,
) -> list[list[object]]:
    with TemporaryDirectory() as scratch:
        folder, place = Path(scratch) / "pages", Path(scratch) / "index"
        folder.mkdir()
        for name, lines in pages.items():
            write(folder / name, lines, draw)
        began_s = time.perf_counter()
        served = index_folder(place, make_source(folder), Config(), models.maker)
        took_s = time.perf_counter() - began_s
        engine = Engine(place / DATABASE_NAME, models.encoder, WalkSettings())
        engine.publish(served)
        rows: list[list[object]] = []
        for strategy in _STRATEGIES:
            ranks = [_rank(engine, one, strategy) for one in asked]
            within = [sum(rank <= depth for rank in ranks) for depth in (5, 1)]
            rows.append([kind, strategy, *within, took_s])
        return rows


def _rank(engine: Engine, question: QuotedQuestion, strategy: Strategy) -> int:
    """The rank of the first page that is needed; 6 if it is not among the first five."""
    answer = engine.query(question.question, 5, Search(strategy))
    assert answer is not None
    found = [Path(answer.places[hit.passage][0].document).stem for hit in answer.ranked]
    return found.index(question.id) + 1 if question.id in found else 6


if __name__ == "__main__":
    main()
