"""What the links of documents add: recall with links ignored and used, in vaults of notes.

Each passage of the shared samples is a note named by its title, and every mention of another note's
title in a text is a [[wiki-link]]. Texts and questions are the same in all rows. In the second
table no note has a heading: its title is its file's name, as in many note programs. In the third
its file's name is a number.

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
from hopsyncd.evaluation.run import DATABASE_NAME, build, kept_folder, measure
from hopsyncd.formats.readers import extract
from hopsyncd.index.links import Directory, Linked, Named, links_of
from hopsyncd.models.loading import Models, load_models
from hopsyncd.retrieve.hop import hop
from hopsyncd.retrieve.snapshot import Snapshot
from hopsyncd.retrieve.walk import WalkSettings
from store.records import Passage, to_grid
from store.sqlite.database import open_reader

DEFAULT = WalkSettings()
PARTS = (0.1, 0.2, 0.6, 0.8)
SHARPNESSES = (0.0, 2.0)
LONGEST_TITLE = 8
_WORD = re.compile(r"\w+")


def variants() -> dict[str, WalkSettings]:
    """The settings of each row."""
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


def linked(corpus: Mapping[str, Passage]) -> list[Linked]:
    """The links of the vault, read from its notes as those of a folder are."""
    shared = Counter(passage.heading[0] for passage in corpus.values())
    unique = {
        title for title, count in shared.items() if count == 1 and not set("[]|#/") & {*title}
    }
    notes = [
        Named(key, "vault", file, passage.heading)
        for key, (file, passage) in enumerate(zip(files(corpus), corpus.values(), strict=True))
    ]
    directory = Directory(notes)
    passages = list(corpus.values())
    found: list[Linked] = []
    for note, passage in zip(notes, passages, strict=True):
        text = "".join(_with_links(passage.text, unique - {passage.heading[0]}))
        for block in extract(text.encode(), "text/markdown"):
            for _, link in block.links:
                key, _ = directory.find(link.target, note)
                if key is not None:
                    found.append((passage.id, passages[key].id, link.shown))
    return found


def _with_links(text: str, titles: set[str]) -> Iterator[str]:
    """The text in pieces, with the longest title at each place in brackets."""
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
    """The name of each note's file: its title, with its line where others have the title too."""
    shared = Counter(passage.heading[0] for passage in corpus.values())
    titles = [
        passage.heading[0] if shared[passage.heading[0]] == 1 else f"{passage.heading[0]} ({line})"
        for line, passage in corpus.items()
    ]
    return [f"{title.replace('/', '___')}.md" for title in titles]


def bare(
    corpus: Mapping[str, Passage], questions: Sequence[GoldQuestion], names: Sequence[str]
) -> tuple[dict[str, Passage], list[GoldQuestion]]:
    """The notes without headings, in files of these names, and the questions about them."""
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
    """The name of each variant with its recalls."""
    vector_of = cache(lambda question: to_grid(models.encoder.encode([question]))[0])
    head: Snapshot = build(store, corpus, models.maker, 1.0)
    arranged = links_of(links, head.view.passage)
    degrees = np.bincount(arranged.start, minlength=len(head.view.passage))
    print(
        f"{len(corpus)} notes, {len(arranged.shown)} links between {np.count_nonzero(degrees)}",
        file=sys.stderr,
    )
    head = replace(head, view=replace(head.view, links=arranged))
    connection = open_reader(store / DATABASE_NAME)
    for name, settings in variants().items():
        engine = Ranking(connection, head, vector_of, partial(hop, settings=settings))
        scores = measure(engine, Search(), corpus, questions)  # type: ignore[arg-type]
        shown = (*(scores.recall[depth] for depth in (2, 5, 10)), scores.whole[5])
        yield name, [f"{share:.1f}" for share in shown]
    connection.close()


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
                store = kept_folder(given.keep or Path(temporary), corpus, models.maker, 1.0)
                for name, shares in rows(store, corpus, renamed, asked, models):
                    tables.setdefault(kind, {}).setdefault(name, [name]).extend(shares)
    columns = ["r@2", "r@5", "r@10", "all@5"]
    heads = [f"{data} {column}" for data in ("HotpotQA", "MuSiQue") for column in columns]
    for kind, shown in tables.items():
        table([kind, *heads], list(shown.values()))


if __name__ == "__main__":
    main()
