"""Saves the live index on disk, so that a start need not rebuild it.

The saved index is derived data. The daemon uses it only if every digest matches the manifest, and
the database has the same stamp for the index's version as when the index was saved. Otherwise the
index is built from the database. A query worker does not check the digests of files that the daemon
checked or wrote in the last hour. A save deletes the manifest before it replaces any other file,
and writes the new manifest last. So after a crash at any step, an incomplete index is never used.

The vectors are in memory-mapped files, to which the owner of the index writes. Rows after the saved
number of rows are ignored. The other columns and the texts, as of a version, are in two files that
are never modified in place: a save replaces them. Each column and each file of vectors ends with
spare capacity, most of it sparse, so that a process can add rows to its mapping. Other processes
than the owner copy the pages to which they write.

A thread saves the index of a version while the writer continues. The thread pauses while queries
run.
"""

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from hopsyncd.index.arrays import Column
from hopsyncd.index.frozen_index import (
    FrozenIndex,
    MovedColumns,
    freeze,
    read_outliers,
    thaw,
    use_columns,
)
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.throttle import ProcessEnds, throttle, yielding_to_queries
from hopsyncd.index.vectors import grow_in_memory, split_slices
from hopsyncd.ingest.index_loading import follow
from store.changes import Stamp, stamp
from store.contract import Connection
from store.exceptions import NoSuchVersion
from store.records import GenerationConfig

log = structlog.get_logger(__name__)

_FORMAT = 18
_MANIFEST, _COLUMNS, _TEXTS = "manifest.json", "columns.bin", "texts.json"
_DIGEST = "digest"  # the key of the digest of the rest of the manifest
_VECTORS = {"codes": np.int8, "remainders": np.uint8, "passage_codes": np.int8}
_MORE = 1.25  # While sources are synced: save again after growth by this factor and _FEWEST rows.
_FEWEST = 2000
_FEW_ROWS, _FEW_VERSIONS = 500, 50  # A saved index that lacks at most this much is recent enough.
# While no source is synced: save again after growth by this factor and _FEW_ROWS.
_MORE_AT_REST = 1.02
# The capacity of a column or vector file: a factor for its rows, and the rows that are added.
_ROOM, _FEWEST_ROWS = 1.5, 4096
_ALIGNED = 64  # bytes
# The part of a vector file's capacity that takes space on disk, as a factor for its rows.
_MORE_VECTORS = 1.02
_FEWEST_VECTORS = 4096
_PAUSE_FACTOR = 2.0  # Pause for queries for at most this multiple of the saving time.
_ROWS_AT_ONCE = 1 << 14  # Rows of an array that are read at once for a digest.
_TRUSTED_S = 3600.0  # For this long, query workers that load the files do not check them.
_TEXTS_AT_ONCE = 1 << 12  # Other threads wait while this number of texts is encoded as JSON.

Layout = Mapping[str, tuple[str, int, int, int]]
"""By column: its dtype, its offset in the file (bytes), its rows, and its capacity in rows."""

Parts = dict[str, Sequence[NDArray[np.generic]]]
"""The arrays that each digest covers, by the name of the digest."""


class SavedIndex:
    """The folder with the saved index of a database. Only the process with `is_owned` changes the
    files; all other processes read them.

    Another process that has the value of `checked` as `trusted` does not compute the digests of
    these files. So it does not notice damage to them within an hour after a check or a save.
    """

    def __init__(self, folder: Path, *, is_owned: bool = True, trusted: str = "") -> None:
        self.folder = folder
        self._is_owned = is_owned
        self.trusted = trusted
        self._checked, self._checked_s = "", 0.0
        self.version = 0  # the version of the saved files; 0 if there are none
        self._entries = 0  # the number of rows at the last save
        self._is_mapped = False
        self._is_kept = True  # whether all vectors are in the files
        self._files: dict[str, int] = {}  # by name: the inodes of the mapped vector files
        self._saving: tuple[_Saving, Future[MovedColumns | None]] | None = None

    @property
    def checked(self) -> str:
        """The digest of the manifest of the files that this process has checked or written in the
        last hour, or an empty string."""
        return self._checked if time.monotonic() < self._checked_s + _TRUSTED_S else ""

    def load(self, connection: Connection, generation: GenerationConfig, until: int) -> LiveIndex:
        """Return the index at version `until`: the saved index, updated to that version, or a new
        index built from the database.

        Call this method in a snapshot.
        """
        self._cancel_saving()
        index = self._load_saved(connection, generation)
        if index is not None:
            try:
                if index.version < until:
                    follow(connection, index, generation.encoder, index.version, until)
            except NoSuchVersion:
                log.info(
                    "the saved index is too old to update, so it is rebuilt", version=index.version
                )
            else:
                return index
        if self._is_owned:
            self.forget()
        self._is_kept = True
        index = LiveIndex(generation.dimensions, self._grow)
        if until:
            log.info("building the index from the database", version=until)
            follow(connection, index, generation.encoder, 0, until)
        return index

    def save(self, made: Stamp, index: LiveIndex, encoder: str) -> None:
        """Save the index, and map its columns from the new file. A failure is logged and not
        raised."""
        self.start_saving(made, index, encoder)
        self.finish_saving()

    def start_saving(self, made: Stamp, index: LiveIndex, encoder: str) -> None:
        """Start a thread that saves the index. Call `finish_saving` afterwards.

        `made` is the stamp of the index's version.
        """
        self.finish_saving()
        if not self._is_kept:
            return
        # Set the number even if the save fails for lack of space, so that it is not retried at
        # once.
        self._entries = len(index.passages)
        saving = _Saving(index, freeze(index), encoder, made)
        executor = ThreadPoolExecutor(1, "save index")
        self._saving = saving, executor.submit(self._try_to_save, saving)
        executor.shutdown(wait=False)

    @property
    def is_saving(self) -> bool:
        return self._saving is not None and not self._saving[1].done()

    @property
    def is_unfinished(self) -> bool:
        """Whether a save was started for which `finish_saving` has not been called yet."""
        return self._saving is not None

    def finish_saving(self) -> None:
        """If a save was started, wait for its end, and map the index's columns from the new file.
        Call this method only on the writer's thread."""
        if self._saving is None:
            return
        (saving, result), self._saving = self._saving, None
        moved = None if result.exception() else result.result()
        self.version = saving.frozen.version if moved else 0
        if moved:
            use_columns(saving.index, moved)
        else:
            thaw(saving.index)
        result.result()  # Raises the error that ended the thread, if any.

    def _cancel_saving(self) -> None:
        if self._saving:
            self._saving[0].cancelled.set()
            self.finish_saving()

    def _try_to_save(self, saving: "_Saving") -> MovedColumns | None:
        """Save the index. Returns the mapped columns, or None if the save was cancelled or failed.
        A failure is logged. The previous save stays valid, unless its files were already being
        replaced."""
        try:
            with yielding_to_queries(_PAUSE_FACTOR):
                return self._save(saving)
        except OSError as error:
            log.warning("the index was not saved", why=str(error))
        except (_Cancelled, ProcessEnds):
            pass
        with suppress(OSError):
            for name in (_COLUMNS, _TEXTS, _MANIFEST):  # free their space on a full disk
                (self.folder / f"{name}.new").unlink(missing_ok=True)
        return None

    def _save(self, saving: "_Saving") -> MovedColumns:
        frozen = saving.frozen
        self.folder.mkdir(mode=0o700, exist_ok=True)
        layout, digest = self._write_columns(saving)
        text = self._write_texts(frozen.texts)
        parts: Parts = {
            "codes": [frozen.codes],
            "remainders": [frozen.remainders],
            "passage_codes": [frozen.passage_codes],
            _TEXTS: [np.fromfile(text, dtype=np.uint8)],
        }
        manifest = {
            "format": _FORMAT,
            "encoder": saving.encoder,
            "dimensions": frozen.codes.shape[1],
            "rows": len(frozen.codes),
            "stamp": asdict(saving.stamp),
            "columns": layout,
            "digests": {**_compute_digests(parts), _COLUMNS: digest},
        }
        saving.go_on()
        (self.folder / _MANIFEST).unlink(missing_ok=True)
        for name in (_COLUMNS, _TEXTS):
            (self.folder / f"{name}.new").replace(self.folder / name)
        manifest_digest = _compute_manifest_digest(manifest)
        new = self.folder / f"{_MANIFEST}.new"
        new.write_text(json.dumps({**manifest, _DIGEST: manifest_digest}), encoding="utf-8")
        new.replace(self.folder / _MANIFEST)
        self._checked, self._checked_s = manifest_digest, time.monotonic()
        return frozen.move(self._map_columns(layout), _read_lengths(layout))

    def _write_columns(self, saving: "_Saving") -> tuple[Layout, str]:
        """Write the columns to a new file. Returns their layout and digest.

        Processes that have mapped the old file continue to use it.
        """
        layout, offset, digest = dict[str, tuple[str, int, int, int]](), 0, _make_digest()
        with (self.folder / f"{_COLUMNS}.new").open("wb") as file:
            columns = saving.frozen.list_columns()
            take, write = throttle(_take), throttle(file.write)
            while named := take(columns):
                saving.go_on()
                name, column = named
                room = int(_ROOM * len(column)) + _FEWEST_ROWS
                layout[name] = (column.dtype.str, offset, len(column), room)
                whole = np.ascontiguousarray(column)
                digest.update(whole.view(np.uint8).data)
                file.seek(offset)
                write(whole.data)
                offset += -(-room * column.itemsize // _ALIGNED) * _ALIGNED
            file.truncate(offset)
        return layout, digest.hexdigest()

    def _write_texts(self, texts: Sequence[Sequence[Any]]) -> Path:
        """Write the lists of texts to a new file as one JSON array. Returns the path of the
        file."""
        path = self.folder / f"{_TEXTS}.new"
        with path.open("w", encoding="utf-8") as file:
            for number, each in enumerate(texts):
                file.write(", [" if number else "[[")
                for start in range(0, len(each), _TEXTS_AT_ONCE):
                    part = json.dumps(each[start : start + _TEXTS_AT_ONCE])[1:-1]
                    file.write(f", {part}" if start else part)
                file.write("]")
            file.write("]")
        return path

    def is_due(self, index: LiveIndex) -> bool:
        """Whether the index has grown by more than 25 % plus 2,000 passage rows since the last
        save."""
        return len(index.passages) > _MORE * self._entries + _FEWEST

    def is_due_at_rest(self, index: LiveIndex) -> bool:
        """Whether the index has grown by more than 2 % plus 500 passage rows since the last save.
        Use this while no source is being synced.

        Rows that are not in the files take memory in each process.
        """
        return len(index.passages) > _MORE_AT_REST * self._entries + _FEW_ROWS

    def is_renewed(self, index: LiveIndex) -> bool:
        """Whether the index should be reloaded to save memory: the files are newer than the index,
        and the index has grown since it was loaded. Returns True at most once for the same
        files."""
        try:
            manifest = json.loads((self.folder / _MANIFEST).read_text("utf-8"))
            _check_manifest(manifest)
            saved_stamp = manifest["stamp"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        before, self.version = self.version, int(saved_stamp["version"])
        return self.version > before and self.is_due_at_rest(index)

    def is_close(self, index: LiveIndex) -> bool:
        """Whether the saved index is only slightly older than `index`, so that another save is not
        worth the time."""
        rows, versions = len(index.passages) - self._entries, index.version - self.version
        return bool(self.version) and rows <= _FEW_ROWS and versions <= _FEW_VERSIONS

    def forget(self) -> None:
        self._cancel_saving()
        self.version, self._checked = 0, ""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._entries = 0

    def _load_saved(self, connection: Connection, generation: GenerationConfig) -> LiveIndex | None:
        """Load the saved index. Returns None if there is no saved index, or if it is damaged,
        outdated or made by another encoder."""
        try:
            manifest = json.loads((self.folder / _MANIFEST).read_text("utf-8"))
            saved_stamp = Stamp(**manifest["stamp"])
            expected = [_FORMAT, generation.encoder, generation.dimensions]
            if [manifest[name] for name in ("format", "encoder", "dimensions")] != expected:
                return None
            _check_manifest(manifest)
            if stamp(connection, saved_stamp.version) != saved_stamp:
                return None
            index = self._read_columns(manifest, generation.dimensions)
            index.version = saved_stamp.version
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the saved index is damaged and will be rebuilt", why=str(error))
            return None
        self._entries, self.version = len(index.passages), saved_stamp.version
        return index

    def _read_columns(self, manifest: Mapping[str, Any], dimensions: int) -> LiveIndex:
        """Load the index from the files. Raises ValueError if a digest does not match."""
        rows, digests = int(manifest["rows"]), manifest["digests"]
        # Open each file only once. A writer may replace it while a query worker starts.
        text = (self.folder / _TEXTS).read_bytes()
        columns = self._map_columns(manifest["columns"])
        lengths = _read_lengths(manifest["columns"])
        wholes = lengths["passages.passage_id"]
        used = {"codes": rows, "remainders": rows, "passage_codes": wholes}
        index = LiveIndex(dimensions, self._grow)
        widths = index.vectors.widths
        vectors = {name: self._map_file(name, used[name], widths[name]) for name in _VECTORS}
        self._is_mapped = True
        parts: Parts = {name: [mapped[: used[name]]] for name, mapped in vectors.items()}
        parts[_COLUMNS] = [column[: lengths[name]] for name, column in columns.items()]
        parts[_TEXTS] = [np.frombuffer(text, dtype=np.uint8)]
        if not self._is_trusted(manifest[_DIGEST]):
            if _compute_digests(parts) != digests:
                raise ValueError("the files do not match their digests")
            self._checked, self._checked_s = manifest[_DIGEST], time.monotonic()
        *names, properties = json.loads(text)
        index.name_texts, words, index.sources, index.document_paths, index.link_texts = names
        index.vocabulary = dict.fromkeys(words)
        index.properties = [(name, value) for name, value in properties]
        index.vectors.replace(
            vectors["codes"],
            vectors["remainders"],
            rows,
            vectors["passage_codes"],
            wholes,
            read_outliers(columns, lengths),
        )
        index.replace_columns(columns, lengths)
        return index

    def _is_trusted(self, digest: str) -> bool:
        """Whether the owner has checked the files that this process has just mapped. `digest` is
        the digest of the manifest that was read before.

        A save deletes the manifest before it replaces other files. So if the manifest is still the
        same, all mapped files belong to it.
        """
        if digest != self.trusted:
            return False
        with suppress(OSError, ValueError, KeyError, TypeError):
            manifest = json.loads((self.folder / _MANIFEST).read_text("utf-8"))
            return bool(manifest[_DIGEST] == digest)
        return False

    def _map_columns(self, layout: Layout) -> dict[str, Column]:
        """Map the columns with their spare capacity. Changes to the mapped columns stay in memory
        and are not written to the file."""
        data = np.asarray(np.memmap(self.folder / _COLUMNS, np.uint8, "c"))
        return {
            name: data[offset : offset + room * np.dtype(kind).itemsize].view(kind)
            for name, (kind, offset, _, room) in layout.items()
        }

    def _map_file(self, name: str, rows: int, width: int) -> NDArray[np.generic]:
        """Map a file of vectors. The owner's changes are written to the file, so it maps only the
        used rows: on a full disk, writing to the sparse part would kill the process."""
        path, kind, shape = self.folder / f"{name}.bin", _VECTORS[name], (rows, width)
        if not self._is_owned:
            return np.memmap(path, kind, "c").reshape(-1, width)
        if self._is_mapped:  # Readers keep the file of the earlier index.
            np.memmap(path, kind, "r", shape=shape).tofile(new := self.folder / f"{name}.new")
            new.replace(path)
        self._files[name] = path.stat().st_ino
        return np.memmap(path, kind, "r+", shape=shape)

    def _grow(self, name: str, old: NDArray[np.generic], rows: int) -> NDArray[np.generic]:
        """Extend the file of the column `name` to at least `rows` rows, and map the file again.
        Mappings in other processes stay valid.

        If the disk is full, the column is extended in memory instead, because writing to the
        mapping would fail.
        """
        if not self._is_owned:
            return grow_in_memory(name, old, rows)
        room = int(_MORE_VECTORS * rows) + _FEWEST_VECTORS
        row_bytes = old.shape[1] * old.itemsize
        path = self.folder / f"{name}.bin"
        try:
            is_same = isinstance(old, np.memmap) and path.stat().st_ino == self._files.get(name)
        except FileNotFoundError:
            is_same = False
        file = path if is_same else self.folder / f"{name}.new"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with file.open("r+b" if is_same else "wb") as opened:
                os.posix_fallocate(opened.fileno(), 0, room * row_bytes)
                opened.truncate((int(_ROOM * room) + _FEWEST_ROWS) * row_bytes)
        except OSError as error:
            log.warning("the index file cannot grow, so the index stays in memory", why=str(error))
            self.forget()
            self._is_kept = False
            return grow_in_memory(name, old, rows)
        self._is_mapped = True
        grown = np.memmap(file, old.dtype, "r+", shape=(room, old.shape[1]))
        if not is_same:
            grown[: len(old)] = old
            file.replace(path)
            self._files[name] = path.stat().st_ino
        return grown


class _Cancelled(Exception):
    """Ends the thread that saves the index, because the saved index is to be replaced or
    deleted."""


@dataclass(frozen=True, slots=True, eq=False)
class _Saving:
    index: LiveIndex
    frozen: FrozenIndex
    encoder: str
    stamp: Stamp
    cancelled: threading.Event = field(default_factory=threading.Event)

    def go_on(self) -> None:
        """Raise _Cancelled if the save was cancelled."""
        if self.cancelled.is_set():
            raise _Cancelled


def _take(columns: Iterator[tuple[str, Column]]) -> tuple[str, Column] | None:
    return next(columns, None)


def _read_lengths(layout: Layout) -> dict[str, int]:
    return {name: length for name, (_, _, length, _) in layout.items()}


def _make_digest() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16)


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError if the manifest does not match its digest. A wrong type or capacity of a
    column would not change the digest of its values."""
    if _compute_manifest_digest(manifest) != manifest[_DIGEST]:
        raise ValueError("the manifest does not match its digest")


def _compute_manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Compute the digest of a manifest without the digest that it contains."""
    digest = _make_digest()
    digest.update(json.dumps({**manifest, _DIGEST: None}).encode())
    return digest.hexdigest()


def _compute_digests(parts: Parts) -> dict[str, str]:
    """Compute a digest for each name in `parts`, over all its arrays. Uses two threads."""

    def add(part: tuple["hashlib.blake2b", NDArray[np.generic]]) -> None:
        digest, rows = part
        digest.update(np.ascontiguousarray(rows).view(np.uint8).data)

    add_part = throttle(add)

    def digest(arrays: Sequence[NDArray[np.generic]]) -> str:
        digest = _make_digest()
        for array in arrays:
            for part in split_slices(len(array), _ROWS_AT_ONCE):
                add_part((digest, array[part]))
        return digest.hexdigest()

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(parts, pool.map(digest, parts.values()), strict=True))
