"""Loads the live index from the store or its saved file, and brings it up to a version.

`follow` applies the intervals that began and ended in the store. `SavedIndex` keeps the index on
disk: mapped vectors, and the other columns as of one version.

The saved index is derived data. It is used only if every digest in the manifest matches and the
store gives the same stamp as when it was saved. Otherwise the index is built from the store. The
manifest is removed before any other file changes, and written last. So after a kill at any step, an
incomplete index is never used.

Vectors are in files that only grow; rows behind the saved ones are ignored. The other columns are
in one file that never changes, with spare room behind each column. Processes map these files, and
share all pages that they do not write to.
"""

import hashlib
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from hopsyncd.config.schedule import date_ms
from hopsyncd.index.arrays import Column, Integers
from hopsyncd.index.documents import NewDocument, change_documents
from hopsyncd.index.filters import type_words
from hopsyncd.index.links import file_title, heading_key
from hopsyncd.index.live_index import DEAD, NO_DATE, LiveIndex
from hopsyncd.index.passage_content import NewPassage, add_passages
from hopsyncd.index.postings import Postings
from hopsyncd.index.snapshot import Snapshot
from hopsyncd.index.statistics import Statistics
from hopsyncd.index.vectors import grow_in_memory
from hopsyncd.models.keywords import document_names
from hopsyncd.text.abbreviations import form_terms
from hopsyncd.text.dates import DAY_IN_NAME, date_terms, find_days_in_name
from hopsyncd.text.words import spellings, term_counts
from store.changes import Changes, DocumentBegun, Stamp, changes, document_changes, stamp
from store.content import full_text, get_generation, known_passages, sets_by_id, sets_of_encoder
from store.contract import Connection
from store.exceptions import NoSuchVersion
from store.records import ALIVE, GenerationConfig, Passage, QuestionSet, SetId, Version, count_words

_AT_ONCE = 1000  # question sets


def follow(connection: Connection, index: LiveIndex, encoder: str, after: int, until: int) -> None:
    """Bring the index, which is as of the version `after`, up to another. Call it in a snapshot.

    Question sets with vectors of other encoders are left out.
    """
    new = changes(connection, after, until)
    _add_content(connection, index, encoder, new)
    ended = new.passages_ended
    known = [
        at for at, passage in enumerate(ended.key.tolist()) if passage in index.interval_of_passage
    ]
    index.end_passages(ended.key[known].tolist(), ended.died[known])
    begun = new.passages_begun
    entries = np.array(
        [index.row_of_question_set.get(one, -1) for one in begun.question_set.tolist()], np.int64
    )
    ours = entries >= 0
    index.begin_passages(entries[ours], begun.born[ours], _end_versions(begun.died[ours]))
    _follow_matches(index, new)
    _follow_documents(index, new.documents_ended.key, new.documents_ended.died, new.documents_begun)
    index.settle(until)


def load_index(connection: Connection, generation: GenerationConfig, until: int) -> LiveIndex:
    """The index as of a version (0: before the first), in memory, from the store alone."""
    index = LiveIndex(generation.dimensions)
    if until:
        follow(connection, index, generation.encoder, 0, until)
    return index


def load_snapshot(connection: Connection, version: Version) -> Snapshot:
    """One version, from the store alone. Call it in a snapshot."""
    index = load_index(connection, get_generation(connection, version.generation), version.id)
    return Snapshot(index, version, Statistics.count(index, version.id))


def follow_documents(connection: Connection, index: LiveIndex, after: int, until: int) -> None:
    """Apply only the documents, if passages and matches are up to date already."""
    ended, begun = document_changes(connection, after, until)
    _follow_documents(index, ended.key, ended.died, begun)
    index.settle(until)


def new_passages(connection: Connection, sets: Sequence[QuestionSet]) -> list[NewPassage]:
    """Read the content of stored passages, for new rows of the index."""
    passages = known_passages(connection, [one.passage for one in sets])
    texts = [full_text(passages[one.passage]) for one in sets]
    return [
        NewPassage(
            one,
            count_words(text),
            terms | date_terms(text) | dict.fromkeys(_form_terms(passages[one.passage]), 1),
            [heading_key(heading) for heading in passages[one.passage].heading],
            spellings(text),
        )
        for one, text, terms in zip(sets, texts, term_counts(texts), strict=True)
    ]


def _form_terms(passage: Passage) -> set[str]:
    return form_terms(passage.heading, passage.text)


def _add_content(connection: Connection, index: LiveIndex, encoder: str, new_rows: Changes) -> None:
    new = [
        SetId(one)
        for one in np.unique(new_rows.passages_begun.question_set).tolist()
        if one not in index.row_of_question_set
    ]
    ours = sets_of_encoder(connection, new, encoder)
    for start in range(0, len(ours), _AT_ONCE):
        sets = list(sets_by_id(connection, ours[start : start + _AT_ONCE]))
        add_passages(index, new_passages(connection, sets))


def _follow_matches(index: LiveIndex, new: Changes) -> None:
    outgoing, incoming = index.postings.outgoing_by_id, index.postings.incoming_by_id
    out = _find_questions(outgoing, new.matches_ended.key)
    ours = out >= 0
    index.end_matches(out[ours], new.matches_ended.died[ours])
    begun = new.matches_begun
    out, into = _find_questions(outgoing, begun.question), _find_questions(incoming, begun.target)
    ours = (out >= 0) & (into >= 0)
    index.begin_matches(
        out[ours],
        into[ours],
        begun.similarity[ours],
        begun.born[ours],
        _end_versions(begun.died[ours]),
    )


def _find_questions(questions: Postings, ids: Integers) -> Integers:
    """The row of each question id; -1 if the index does not have it."""
    found = np.full(len(ids), -1, dtype=np.int64)
    rows, of = questions.find_all(ids)
    found[of] = rows
    return found


def _end_versions(died: Integers) -> Integers:
    return np.where(died == ALIVE, DEAD, died)


def _follow_documents(
    index: LiveIndex, ended: Integers, died: Integers, begun: Iterable[DocumentBegun]
) -> None:
    """Apply documents version by version: the target of a link depends on all documents then."""
    gone: dict[int, list[int]] = defaultdict(list)
    came: dict[int, list[DocumentBegun]] = defaultdict(list)
    for id_, version in zip(ended.tolist(), died.tolist(), strict=True):
        gone[version].append(id_)
    for one in begun:
        came[one.born].append(one)
        if one.died != ALIVE:
            gone[one.died].append(one.id)
    for version in sorted(gone.keys() | came.keys()):
        new = [_new_document(one) for one in came[version]]
        change_documents(index, version, gone[version], new)


def _new_document(one: DocumentBegun) -> NewDocument:
    called = document_names((file_title(one.path), *one.names))
    values = dict(one.properties)
    dates = values.get("modified") or one.origin.get("date", ""), values.get("created", "")
    modified_ms, created_ms = (NO_DATE if ms is None else ms for ms in map(date_ms, dates))
    author = [("author", text) for name, text in one.origin.items() if name == "author"]
    properties = [pair for pair in one.properties if pair[0] not in ("modified", "created")]
    kind = ("type", type_words(one.path, one.media_type))
    days = [(DAY_IN_NAME, day) for day in find_days_in_name(one.path)]
    return NewDocument(
        one.id,
        one.source,
        one.path,
        one.names,
        tuple(sorted(called)),
        one.occurrences,
        modified_ms,
        created_ms,
        (*dict.fromkeys([*properties, *author, kind, *days]),),
    )


log = structlog.get_logger(__name__)

_FORMAT = 14
_MANIFEST, _COLUMNS, _TEXTS = "manifest.json", "columns.bin", "texts.json"
_VECTORS = {"exact": np.int16, "codes": np.int8, "passage_codes": np.int8}
_MORE = 1.25  # growth after which the index is saved again, plus 2,000 rows.
_FEWEST = 2000
_ROOM, _FEWEST_ROWS = 1.5, 4096  # spare room of a column: a factor and a minimum of rows.
_ALIGNED = 64  # bytes

Layout = Mapping[str, tuple[str, int, int, int]]
"""Of each column its type, where it begins in the file, its rows, and for how many is room."""

Parts = dict[str, Sequence[NDArray[np.generic]]]
"""The content of each digest."""


class SavedIndex:
    """The folder of a database's live index. Only the writer changes files in it."""

    def __init__(self, folder: Path, *, is_owned: bool = True) -> None:
        self.folder = folder
        self._is_owned = is_owned
        self._entries = 0  # rows at the last save
        self._is_mapped = False
        self._is_kept = True  # all vectors are in its files

    def load(self, connection: Connection, generation: GenerationConfig, until: int) -> LiveIndex:
        """Load the index as of a version: the saved index brought up to date, or from the store.

        Call it in a snapshot.
        """
        index = self._load_saved(connection, generation)
        if index is not None:
            try:
                if index.version < until:
                    follow(connection, index, generation.encoder, index.version, until)
            except NoSuchVersion:
                log.info("the saved index is too old to follow", version=index.version)
            else:
                return index
        if self._is_owned:
            self.forget()
        self._is_kept = True
        index = LiveIndex(generation.dimensions, self._grow)
        if until:
            follow(connection, index, generation.encoder, 0, until)
        return index

    def save(self, connection: Connection, index: LiveIndex, encoder: str) -> None:
        """Save the index, which then uses the new file of columns. A failure is logged."""
        if not self._is_kept:
            return
        self._entries = len(index.passages)  # whether or not there is room for them
        try:
            self._save(connection, index, encoder)
        except OSError as error:
            log.warning("the index was not saved", why=str(error))
            (self.folder / _MANIFEST).unlink(missing_ok=True)

    def _save(self, connection: Connection, index: LiveIndex, encoder: str) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        (self.folder / _MANIFEST).unlink(missing_ok=True)
        columns = index.columns()
        layout = self._write(columns)
        texts = [
            index.name_texts,
            [*index.vocabulary],
            index.sources,
            index.document_paths,
            index.link_texts,
            index.properties,
        ]
        (self.folder / _TEXTS).write_text(json.dumps(texts), encoding="utf-8")
        rows = len(index.vectors)
        parts: Parts = {
            "exact": [index.vectors.exact],
            "codes": [index.vectors.codes],
            "passage_codes": [index.vectors.passage_codes],
            _COLUMNS: [*columns.values()],
            _TEXTS: [np.fromfile(self.folder / _TEXTS, dtype=np.uint8)],
        }
        manifest = {
            "format": _FORMAT,
            "encoder": encoder,
            "dimensions": index.vectors.dimensions,
            "rows": rows,
            "stamp": asdict(stamp(connection, index.version)),
            "columns": layout,
            "digests": _digests(parts),
        }
        new = self.folder / f"{_MANIFEST}.new"
        new.write_text(json.dumps(manifest), encoding="utf-8")
        new.replace(self.folder / _MANIFEST)
        index.replace_columns(self._columns(layout), _lengths(layout))

    def _write(self, columns: Mapping[str, Column]) -> Layout:
        """Write the columns into a new file. Processes that map the old file keep it."""
        new, layout, at = self.folder / f"{_COLUMNS}.new", {}, 0
        with new.open("wb") as file:
            for name, column in columns.items():
                room = int(_ROOM * len(column)) + _FEWEST_ROWS
                layout[name] = (column.dtype.str, at, len(column), room)
                file.seek(at)
                file.write(np.ascontiguousarray(column).data)
                at += -(-room * column.itemsize // _ALIGNED) * _ALIGNED
            file.truncate(at)
        new.replace(self.folder / _COLUMNS)
        return layout

    def is_due(self, index: LiveIndex) -> bool:
        """Whether the index has grown enough to save it again."""
        return len(index.passages) > _MORE * self._entries + _FEWEST

    def forget(self) -> None:
        """Delete the saved index from disk."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._entries = 0

    def _load_saved(self, connection: Connection, generation: GenerationConfig) -> LiveIndex | None:
        """The saved index; None if there is none, or its digests do not match."""
        try:
            manifest = json.loads((self.folder / _MANIFEST).read_text("utf-8"))
            made = Stamp(**manifest["stamp"])
            wanted = [_FORMAT, generation.encoder, generation.dimensions]
            if [manifest[name] for name in ("format", "encoder", "dimensions")] != wanted:
                return None
            if stamp(connection, made.version) != made:
                return None
            index = self._read_columns(manifest, generation.dimensions)
            index.version = made.version
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the saved index is damaged and will be rebuilt", why=str(error))
            return None
        self._entries = len(index.passages)
        return index

    def _read_columns(self, manifest: Mapping[str, Any], dimensions: int) -> LiveIndex:
        """Raises ValueError if a digest does not match."""
        rows, digests = int(manifest["rows"]), manifest["digests"]
        # Each is opened once: a writer may replace them while a query worker starts.
        text = (self.folder / _TEXTS).read_bytes()
        columns = self._columns(manifest["columns"])
        lengths = _lengths(manifest["columns"])
        vectors = {name: self._map_file(name, dimensions) for name in _VECTORS}
        self._is_mapped = True
        wholes = lengths["passages.passage_id"]
        used = {"exact": rows, "codes": rows, "passage_codes": wholes}
        parts: Parts = {name: [mapped[: used[name]]] for name, mapped in vectors.items()}
        parts[_COLUMNS] = [one[: lengths[name]] for name, one in columns.items()]
        parts[_TEXTS] = [np.frombuffer(text, dtype=np.uint8)]
        found = _digests(parts)
        if found != digests:
            raise ValueError("its digests do not match its files")
        index = LiveIndex(dimensions, self._grow)
        *names, properties = json.loads(text)
        index.name_texts, words, index.sources, index.document_paths, index.link_texts = names
        index.vocabulary = dict.fromkeys(words)
        index.properties = [(name, value) for name, value in properties]
        index.vectors.replace(
            vectors["exact"], vectors["codes"], rows, vectors["passage_codes"], wholes
        )
        index.replace_columns(columns, lengths)
        return index

    def _columns(self, layout: Layout) -> dict[str, Column]:
        """Map the columns with spare room. Changes stay in memory."""
        data = np.asarray(np.memmap(self.folder / _COLUMNS, np.uint8, "c"))
        return {
            name: data[at : at + room * np.dtype(kind).itemsize].view(kind)
            for name, (kind, at, _, room) in layout.items()
        }

    def _map_file(self, name: str, dimensions: int) -> NDArray[np.generic]:
        path = self.folder / f"{name}.bin"
        if not self._is_owned:
            return np.memmap(path, _VECTORS[name], "c").reshape(-1, dimensions)
        if self._is_mapped:  # readers keep the file that an index before this one went on with
            shutil.copyfile(path, new := self.folder / f"{name}.new")
            new.replace(path)
        return np.memmap(path, _VECTORS[name], "r+").reshape(-1, dimensions)

    def _grow(self, name: str, old: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
        """Replace the file by a larger one. Processes that map the old file keep it.

        Grows in memory instead if the disk is full, because the mapped file could not be written.
        """
        if not self._is_owned:
            return grow_in_memory(name, old, rows)
        new = self.folder / f"{name}.new"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with new.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, rows * old.shape[1] * old.itemsize)
        except OSError as error:
            log.warning("the index stays in memory", why=str(error))
            self.forget()
            self._is_kept = False
            return grow_in_memory(name, old, rows)
        self._is_mapped = True
        grown = np.memmap(new, old.dtype, "r+", shape=(rows, old.shape[1]))
        grown[: len(old)] = old
        new.replace(self.folder / f"{name}.bin")
        return grown


def _lengths(layout: Layout) -> dict[str, int]:
    return {name: length for name, (_, _, length, _) in layout.items()}


def _digests(parts: Parts) -> dict[str, str]:
    """The digest of each name's arrays, computed by two threads."""

    def digest(arrays: Sequence[NDArray[np.generic]]) -> str:
        made = hashlib.blake2b(digest_size=16)
        for array in arrays:
            made.update(np.ascontiguousarray(array).view(np.uint8).data)
        return made.hexdigest()

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(parts, pool.map(digest, parts.values()), strict=True))
