"""Freezes an index at a version, so that another thread can save it while the writer continues.

Rows are only appended. Only two columns change: `died` of ended rows, and `match_row` of questions.
The values of these columns at the version can be computed from the intervals. So nothing is copied,
and no thread waits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hopsyncd.index.arrays import Column, Integers
from hopsyncd.index.live_index import IN_FORCE, LiveIndex
from hopsyncd.index.postings import Segment, list_columns, merge_segments, read_segment
from hopsyncd.index.tables import IntervalTable, MatchTable, OutgoingQuestionTable, Table
from hopsyncd.index.vectors import Codes, Outliers, Remainders

Buffers = Mapping[str, Column]
OUTLIERS = "outliers"  # The columns of `VectorTable.outliers` have names like a table's columns.


@dataclass(frozen=True, slots=True, eq=False)
class MovedColumns:
    """The columns of a frozen index in other arrays. `lengths` has the length of each column. The
    arrays may be longer."""

    buffers: Buffers
    lengths: Mapping[str, int]
    tables: Mapping[str, Table]
    segments: Mapping[str, Segment]


@dataclass(frozen=True, slots=True, eq=False)
class FrozenIndex:
    """An index at one version. `segments` are the segments of the postings by name, and `texts` are
    lists of strings."""

    version: int
    names: Integers
    passages: Integers
    tables: Mapping[str, Table]
    segments: Mapping[str, Sequence[Segment]]
    texts: Sequence[Sequence[Any]]
    codes: Codes
    remainders: Remainders
    passage_codes: Codes
    outliers: Outliers

    def list_columns(self) -> Iterator[tuple[str, Column]]:
        """Yield the name and the values of each array, except codes and remainders."""
        yield "names", self.names
        yield "passages", self.passages
        for each in fields(self.outliers):
            yield f"{OUTLIERS}.{each.name}", getattr(self.outliers, each.name)
        for table_name, table in self.tables.items():
            for name, column in table.get_columns().items():
                yield f"{table_name}.{name}", self._restore(table, name, column)
        for name, segments in self.segments.items():
            merged = merge_segments(segments)
            yield from list_columns(name, merged)

    def _restore(self, table: Table, name: str, column: Column) -> Column:
        """Return the values of a column at the frozen version."""
        if isinstance(table, IntervalTable) and name == "died":
            return np.where(column > self.version, np.int32(IN_FORCE), column)
        if isinstance(table, OutgoingQuestionTable) and name == "match_row":
            matches = self.tables["matches"]
            assert isinstance(matches, MatchTable)
            rows = np.flatnonzero(matches.died > self.version)
            match_rows = np.full(len(column), -1, dtype=np.int32)
            match_rows[matches.source_question[rows]] = rows
            return match_rows
        return column

    def move(self, buffers: Buffers, lengths: Mapping[str, int]) -> MovedColumns:
        """Prepare `buffers` to replace the index's arrays. The buffers must contain the data of
        `list_columns`, in the given lengths."""
        tables = {
            name: table.from_buffers(
                {column: buffers[f"{name}.{column}"] for column in table.get_dtypes()}, len(table)
            )
            for name, table in self.tables.items()
        }
        segments = {name: read_segment(name, buffers, lengths) for name in self.segments}
        return MovedColumns(buffers, lengths, tables, segments)


def freeze(index: LiveIndex) -> FrozenIndex:
    """Freeze an index at its version. The index must have no pending changes. Afterwards the writer
    must call `use_columns` or `thaw`."""
    return FrozenIndex(
        version=index.version,
        names=index.name_numbers.keys,
        passages=index.passage_numbers.keys,
        tables=index.get_tables(),
        segments={
            each.name: getattr(index.postings, each.name).freeze()
            for each in fields(index.postings)
        },
        texts=[
            [*index.name_texts],
            [*index.vocabulary],
            [*index.sources],
            [*index.document_paths],
            [*index.link_texts],
            [*index.properties],
        ],
        codes=index.vectors.codes,
        remainders=index.vectors.remainders,
        passage_codes=index.vectors.passage_codes,
        outliers=index.vectors.outliers,
    )


def read_outliers(buffers: Buffers, lengths: Mapping[str, int]) -> Outliers:
    """Return the outliers among the columns of a frozen index."""
    names = [f"{OUTLIERS}.{each.name}" for each in fields(Outliers)]
    return Outliers(*(buffers[name][: lengths[name]] for name in names))


def thaw(index: LiveIndex) -> None:
    """Allow the segments of a frozen index to be merged again."""
    for each in fields(index.postings):
        getattr(index.postings, each.name).replace_frozen(None)


def use_columns(index: LiveIndex, moved: MovedColumns) -> None:
    """Replace the columns of a frozen index with `moved`, after adding all changes made since the
    freeze.

    Readers keep the old columns. Call this function on the writer's thread. The time depends mainly
    on the number of changes.
    """
    index.name_numbers.move(moved.buffers["names"], moved.lengths["names"])
    index.passage_numbers.move(moved.buffers["passages"], moved.lengths["passages"])
    for name, table in moved.tables.items():
        setattr(index, name, _append_new_rows(table, index.get_tables()[name]))
    for name, segment in moved.segments.items():
        getattr(index.postings, name).replace_frozen(segment)


def _append_new_rows(table: Table, now: Table) -> Table:
    """Append to `table` the rows that were added to `now` since the freeze, and copy changed
    values."""
    count = len(table)
    for name in ("died", "match_row"):
        if name in table.get_dtypes():
            column, newer = getattr(table, name), getattr(now, name)[:count]
            changed = np.flatnonzero(column != newer)
            column[changed] = newer[changed]
    return table.extend(now.select_from(count))
