"""Evaluates a folder of real documents, with quotes as evidence."""

import hashlib
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hopsyncd.config.configuration import Config
from hopsyncd.config.source_kinds import FolderSource
from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.corpus import GoldQuestion, read_lines
from hopsyncd.evaluation.measures import find_missing
from hopsyncd.evaluation.recordings import VectorCache
from hopsyncd.evaluation.run import (
    DATABASE_NAME,
    Evaluation,
    Experiment,
    OnProgress,
    ask_all_ways,
)
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.ingest.connector_setup import (
    create_folder_connector,
    create_tesseract,
    digest_settings,
    with_pictures,
)
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.read import identify_rules
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.questions import BuiltinMaker, QuestionMaker
from store.content import build_full_text, read_passages
from store.contract import Connection
from store.open_database import open_reader, open_writer
from store.reads import read_places, read_word_counts
from store.records import Passage, PassageId
from store.sources import register_source
from store.transactions import snapshot
from store.versions import read_head

KINDS = ("single", "multi", "none")
_SHOWN_CHARACTERS = 60
_WORD = re.compile(r"[^\W_]+")  # Readers remove the underscores of markup.


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation from a document; any white space counts as a single blank."""

    document: str
    text: str

    @property
    def name(self) -> str:
        """The document and the beginning of the quote, for display."""
        text = " ".join(self.text.split())
        cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS].rstrip()}..."
        return f"{self.document}: {cut}"


@dataclass(frozen=True, slots=True)
class QuotedQuestion:
    """A question, and for each passage that its answer needs, a list of quotes that identify the
    passage.
    """

    id: str
    kind: str
    question: str
    answers: tuple[str, ...]
    evidence: tuple[tuple[Quote, ...], ...]

    @property
    def gold(self) -> GoldQuestion:
        """The question, with each passage named by its first quote."""
        names = frozenset(quotes[0].name for quotes in self.evidence)
        return GoldQuestion(self.id, self.question, self.answers, names, self.kind)


def read_quoted(path: Path) -> list[QuotedQuestion]:
    """Read questions from lines {id, kind, question, answers, evidence: [[{document, quote}]]}.

    Raises BadRequest.
    """
    questions = []
    for number, line in read_lines(path):
        try:
            question = QuotedQuestion(
                str(line["id"]),
                str(line["kind"]),
                str(line["question"]),
                tuple(str(answer) for answer in line["answers"]),
                tuple(
                    tuple(Quote(str(quote["document"]), str(quote["quote"])) for quote in quotes)
                    for quotes in line["evidence"]
                ),
            )
        except (KeyError, TypeError) as error:
            raise _bad_line_error(
                path, number, f"the key {error} is missing or has the wrong type"
            ) from error
        if question.kind not in KINDS:
            raise _bad_line_error(
                path, number, f"the kind {question.kind!r} is not one of {', '.join(KINDS)}"
            )
        if bool(question.evidence) == (question.kind == "none") or not all(question.evidence):
            raise _bad_line_error(
                path,
                number,
                f"the kind {question.kind} does not fit `evidence`: only questions of the kind "
                "`none` have no evidence",
            )
        questions.append(question)
    if not any(question.evidence for question in questions):
        raise _bad_line_error(path, 1, "no question has an answer")
    return questions


def find_gold_passages(
    connection: Connection, version: int, questions: Sequence[QuotedQuestion]
) -> dict[str, frozenset[PassageId]]:
    """Find the passages that contain the quotes. Maps the name of each gold passage to its
    passages, which may be none."""
    pages = _list_passages(connection, version)
    return {
        quotes[0].name: frozenset(
            passage
            for quote in quotes
            for passage in _find_holders(quote, pages.get(quote.document, ()))
        )
        for question in questions
        for quotes in question.evidence
    }


def _list_passages(connection: Connection, version: int) -> Mapping[str, Sequence[Passage]]:
    """Return the passages of each document, in order."""
    ids = [PassageId(row_id) for row_id in read_word_counts(connection, version)[0].tolist()]
    passages = read_passages(connection, ids)
    placed = defaultdict(list)
    for id_, places in read_places(connection, version, ids).items():
        for place in places:
            placed[place.document].append((place.first_line, place.last_line, id_))
    return {
        path: [passages[place[-1]] for place in sorted(places)] for path, places in placed.items()
    }


def _find_holders(quote: Quote, page: Sequence[Passage]) -> Iterator[PassageId]:
    """Find the passages whose text has the quote. If there are no such passages, find the passages
    whose headings or context have the quote.

    If the quote spans two neighbours, the passage with the larger part is returned. Only words are
    compared, because readers remove most markup.
    """
    words = _normalise_words(quote.text)
    for get_text in (lambda passage: passage.text, build_full_text):
        holders = [passage.id for passage in page if words in _normalise_words(get_text(passage))]
        if holders:
            yield from holders
            return
    for first, second in pairwise(page):
        left, right = _normalise_words(first.text), _normalise_words(second.text)
        if words in left.rstrip() + right:
            yield (first if _find_shared(left, words) >= len(words) / 2 else second).id


def _normalise_words(text: str) -> str:
    """Return the words of a text, each between blanks, so that a search only finds whole words."""
    return f" {' '.join(_WORD.findall(text))} "


def _find_shared(left: str, right: str) -> int:
    """Return how many leading characters of `right` are at the end of `left`."""
    return next((n for n in range(len(right), 0, -1) if left.endswith(right[:n])), 0)


def _bad_line_error(path: Path, number: int, why: str) -> BadRequest:
    return BadRequest(
        f"Cannot use {path}:{number}",
        why,
        "Lines are {id, kind, question, answers, evidence: [[{document, quote}, ...], ...]};"
        " with the kind none, evidence is empty",
    )


def make_source(folder: Path, ignore: Sequence[str] = ()) -> FolderSource:
    """Configure the folder as a source, without the files that match `ignore`."""
    fields = {"name": "documents", "path": str(folder.resolve()), "ignore": list(ignore)}
    return FolderSource.model_validate(fields)


def choose_index_folder(keep: Path, source: FolderSource, maker: QuestionMaker) -> Path:
    """Return the database's folder in `keep` for this folder, these settings and this program.

    `maker` determines the generation settings.
    """
    identity = f"{source.path}\0{maker.generation.name}\0{Path(__file__).parent}"
    return keep / hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()


def index_folder(
    place: Path,
    source: FolderSource,
    config: Config,
    maker: QuestionMaker,
    on_passages: OnProgress = lambda done, total: None,
) -> Snapshot:
    """Update the database in `place` from the folder. Every document is read again.

    Question sets and vectors of known passages are reused. Raises BadRequest if the folder has no
    documents.
    """
    place.mkdir(parents=True, exist_ok=True)
    whole = with_pictures(source, config)
    assert isinstance(whole, FolderSource)
    connection = open_writer(place / DATABASE_NAME)
    index = config.index
    tesseract = create_tesseract(config)
    extraction = ExtractionProcess(tesseract=tesseract)
    try:
        writer = VersionWriter(
            connection,
            maker,
            rules=identify_rules(index.passage_tokens, tesseract),
            budget_factor=index.edge_budget_factor,
            now_ms=lambda: 0,
        )
        row = register_source(
            connection, source.name, source.kind, source.location, digest_settings(source)
        )
        sync = SourceSync(
            connection=connection,
            writer=writer,
            passage_tokens=index.passage_tokens,
            batch_documents=index.batch_documents,
            now_ms=lambda: 0,
            on_version=lambda version: None,
            yield_to_edits=lambda: on_passages(
                sync.progress.passages_done, sync.progress.passages_total
            ),
            extract=extraction.extract,
        )
        scope = Scope(afresh=True, accept_empty=True)
        outcome = sync.sync(Source(row, source.name, create_folder_connector(whole, config)), scope)
        newest = read_head(connection)
        if outcome.problem or newest is None:
            raise BadRequest(
                f"Cannot index {source.path}",
                outcome.problem or "the folder has no documents",
                "Correct this problem, or name another folder with --folder"
                if outcome.problem
                else "Name a folder of documents with --folder",
            )
        return writer.make_snapshot(writer.renew() or newest)
    finally:
        extraction.close()
        connection.close()


def measure_folder(
    keep: Path,
    source: FolderSource,
    questions: Sequence[QuotedQuestion],
    config: Config,
    experiment: Experiment,
) -> Evaluation:
    """Index the folder and ask the questions. Raises BadRequest.

    The database and a cache of vectors are in `keep`.
    """
    began_s = time.perf_counter()
    models = experiment.models
    # Never uses the configured LLM: indexing with it is expensive.
    maker = BuiltinMaker(models.language, VectorCache(models.encoder, keep))
    place = choose_index_folder(keep, source, maker)
    served = index_folder(place, source, config, maker, experiment.on_passages)
    index_s = time.perf_counter() - began_s
    database = place / DATABASE_NAME
    with closing(open_reader(database)) as connection, snapshot(connection):
        gold = find_gold_passages(connection, served.version.id, questions)
    gold_questions = [question.gold for question in questions]
    return Evaluation(
        ask_all_ways(database, served, gold, gold_questions, experiment),
        index_s,
        served.version.passages,
        len(served.list_edges()),
        tuple(name for name, passages in gold.items() if not passages),
        find_missing(database, served, gold, gold_questions, models.encoder, experiment.walk),
    )
