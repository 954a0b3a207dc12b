"""Measure recall with and without links between documents, in vaults of notes.

Each passage of the shared samples is a note named by its title, and every mention of another note's
title in a text is a [[wiki-link]]. Texts and questions are the same in all rows. In the second
table, notes have no heading, and the file's name is the title, as in many note programs. In the
third table, the file's name is a number.

python benchmarks/links.py --keep /tmp/hopsyncd-indexes
"""

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from ablation import Ranking
from common import arguments, dataset, table

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.measures import compute_scores
from hopsyncd.evaluation.run import DATABASE_NAME, ask_all, build, choose_kept_folder, map_gold
from hopsyncd.formats.readers import extract
from hopsyncd.index.documents import NewDocument, change_documents
from hopsyncd.index.links import find_file_title
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.models.keywords import normalise_document_names
from hopsyncd.models.loading import Models, load_models
from hopsyncd.retrieve.strategies.hop import search_by_walk
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.open_database import open_reader
from store.records import Link, Passage, PassageId, to_grid

DEFAULT = WalkSettings()
PARTS = (0.1, 0.2, 0.6, 0.8)
SHARPNESSES = (0.0, 2.0)
LONGEST_TITLE = 8
_WORD = re.compile(r"\w+")


def variants() -> dict[str, WalkSettings]:
    """The settings of the walk for each row."""
    chosen = f"links used (part {DEFAULT.by_links}, sharpness {DEFAULT.link_sharpness})"
    return {
        "links ignored": replace(DEFAULT, by_links=0.0),
        chosen: DEFAULT,
        **{f"part {part}": replace(DEFAULT, by_links=part) for part in PARTS},
        **{
            f"sharpness {sharpness}": replace(DEFAULT, link_sharpness=sharpness)
            for sharpness in SHARPNESSES
        },
    }


Linked = tuple[PassageId, PassageId, str]
"""A link from one passage to another, and the text it shows."""


def linked(corpus: Mapping[str, Passage]) -> list[Linked]:
    """The links of the collection, read from its notes like the links of a folder."""
    shared = Counter(passage.heading[0] for passage in corpus.values())
    unique = {
        title for title, count in shared.items() if count == 1 and not set("[]|#/") & {*title}
    }
    index, passages = LiveIndex(1), list(corpus.values())
    notes = []
    for key, (file, passage) in enumerate(zip(files(corpus), passages, strict=True)):
        text = "".join(_with_links(passage.text, unique - {passage.heading[0]}))
        written = [
            Link(link.target, link.text)
            for block in extract(text.encode(), "text/markdown")
            for _, link in block.links
        ]
        placed = ((passage.id, tuple(written)),)
        notes.append(NewDocument(key, "vault", file, passage.heading, (), placed))
    change_documents(index, 1, (), notes)
    ways, ids = index.link_edges, index.passage_numbers.keys
    return [
        (PassageId(int(ids[source])), PassageId(int(ids[target])), index.link_texts[link])
        for source, target, link in zip(
            ways.source_passage, ways.target_passage, ways.link_row.tolist(), strict=True
        )
    ]


def _with_links(text: str, titles: set[str]) -> Iterator[str]:
    """Yield the text in pieces, with the longest title at each place in brackets."""
    words = list(_WORD.finditer(text))
    at = start = 0
    while at < len(words):
        for length in range(min(LONGEST_TITLE, len(words) - at), 0, -1):
            begin, end = words[at].start(), words[at + length - 1].end()
            if text[begin:end] in titles:
                yield f"{text[start:begin]}[[{text[begin:end]}]]"
                start = end
                at += length
                break
        else:
            at += 1
    yield text[start:]


def files(corpus: Mapping[str, Passage]) -> list[str]:
    """The file name of each note: its title, with its line number if other notes have the same
    title."""
    shared = Counter(passage.heading[0] for passage in corpus.values())
    titles = [
        passage.heading[0] if shared[passage.heading[0]] == 1 else f"{passage.heading[0]} ({line})"
        for line, passage in corpus.items()
    ]
    return [f"{title.replace('/', '___')}.md" for title in titles]


def bare(
    corpus: Mapping[str, Passage], questions: Sequence[GoldQuestion], names: Sequence[str]
) -> tuple[dict[str, Passage], list[GoldQuestion]]:
    """The notes without headings, in files with these names, and the questions about them."""
    file_of = dict(zip(corpus, names, strict=True))
    notes = {file_of[line]: Passage((), passage.text) for line, passage in corpus.items()}
    return notes, [
        replace(question, gold=frozenset(file_of[line] for line in question.gold))
        for question in questions
    ]


def rows(
    store: Path,
    corpus: Mapping[str, Passage],
    links: list[Linked],
    questions: Sequence[GoldQuestion],
    models: Models,
) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the recalls of each variant."""
    vector_of = cache(lambda question: to_grid(models.encoder.encode([question]))[0])
    head = with_links(build(store, corpus, models.maker, 1.0), corpus, links)
    ways = head.find_links(head.passage_rows)
    print(
        f"{len(corpus)} notes, {np.count_nonzero(~ways.is_backward)} links between"
        f" {len(np.unique(ways.start))}",
        file=sys.stderr,
    )
    reader = open_reader(store / DATABASE_NAME)
    gold = map_gold(corpus)
    for name, settings in variants().items():
        engine = Ranking(reader, head, vector_of, partial(search_by_walk, settings=settings))
        scores = compute_scores(ask_all(engine, Search(), gold, questions))  # type: ignore[arg-type]
        shown = (*(scores.recall[depth] for depth in (2, 5, 10)), scores.whole[5])
        yield name, [f"{share:.1f}" for share in shown]


def with_links(head: Snapshot, corpus: Mapping[str, Passage], links: Sequence[Linked]) -> Snapshot:
    """The head as if its notes had these links; each note is replaced by one with links."""
    index, version = head.index, head.version.id
    lines = {passage.id: line for line, passage in corpus.items()}
    written: dict[PassageId, list[Link]] = {id_: [] for id_ in lines}
    for source, target, shown in links:
        written[source].append(Link(lines[target], shown))
    called = {line: normalise_document_names((find_file_title(line),)) for line in corpus}
    notes = [
        NewDocument(
            -key,
            "corpus",
            line,
            (),
            tuple(sorted(called[line])),
            ((passage.id, tuple(written[passage.id])),),
        )
        for key, (line, passage) in enumerate(corpus.items(), 1)
    ]
    change_documents(index, version, [*index.document_row_of_id], notes)
    return replace(head, statistics=Statistics.count(index, version))


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--keep", {"type": Path, "help": "Keep the indexes in this folder, and use those there."}),
    )
    models = load_models(Config())
    tables: dict[str, dict[str, list[str]]] = {}
    for data in ("hotpotqa", "musique"):
        folder = dataset(given.data, data)
        titled = read_corpus(folder / "corpus.jsonl")
        questions = read_questions(folder / "questions.jsonl", titled)
        links = linked(titled)
        for kind, (corpus, asked) in (
            ("title as heading", (titled, questions)),
            ("title as file name", bare(titled, questions, files(titled))),
            ("no title", bare(titled, questions, list(titled))),
        ):
            ids = {
                was.id: passage.id
                for was, passage in zip(titled.values(), corpus.values(), strict=True)
            }
            renamed = [(ids[source], ids[target], shown) for source, target, shown in links]
            with tempfile.TemporaryDirectory() as temporary:
                store = choose_kept_folder(given.keep or Path(temporary), corpus, models.maker, 1.0)
                for name, shares in rows(store, corpus, renamed, asked, models):
                    tables.setdefault(kind, {}).setdefault(name, [name]).extend(shares)
    columns = ["r@2", "r@5", "r@10", "all@5"]
    heads = [f"{data} {column}" for data in ("HotpotQA", "MuSiQue") for column in columns]
    for kind, shown in tables.items():
        table([kind, *heads], list(shown.values()))


if __name__ == "__main__":
    main()
