"""The live index on disk: mapped vectors, and the other columns as of one version.

All of this is derived data. It is used only if every digest in the manifest matches and the store
gives the same stamp as when it was saved. Otherwise the index is built from the store. The manifest
is removed before any other file changes, and written last. So after a kill at any step, an
incomplete index is never used.

Vectors are in files that only grow; rows behind the saved ones are ignored. The other columns are
in one file that never changes, with spare room behind each column. Processes map these files, and
share all pages that they do not write to.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from hopsyncd.index.arrays import Column
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.vectors import grow_in_memory
from hopsyncd.ingest.follow import follow
from store.changes import Stamp, stamp
from store.contract import Connection
from store.exceptions import NoSuchVersion
from store.records import GenerationConfig

log = structlog.get_logger(__name__)

_FORMAT = 13
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
        whole = np.asarray(np.memmap(self.folder / _COLUMNS, np.uint8, "c"))
        return {
            name: whole[at : at + room * np.dtype(kind).itemsize].view(kind)
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

        In memory if the disk has no room: a hole in a mapped file could not be written to.
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
