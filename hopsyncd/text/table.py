"""Rows of cells to text that can be understood without the rows around it."""

from collections.abc import Sequence

_MAX_LABEL_CHARACTERS = 60


def labels_of(row: Sequence[str]) -> tuple[str, ...]:
    """The columns' names, if a table's first row has them; empty if it does not look like it.

    Names are at least two, short, not numbers, and differ from one another.

    >>> labels_of(["Name", "Age"]), labels_of(["Tove", "44"])
    (('Name', 'Age'), ())
    """
    distinct = {cell.casefold() for cell in row}
    if len(row) < 2 or len(distinct) < len(row):
        return ()
    named = all(
        cell
        and len(cell) <= _MAX_LABEL_CHARACTERS
        and not cell[0].isdigit()
        and cell[0] not in "-+"
        for cell in row
    )
    return tuple(row) if named else ()


def row_text(row: Sequence[str], labels: Sequence[str]) -> str:
    """A row's cells, each with the name of its column where that is known.

    >>> row_text(["Tove", "", "Oslo"], ["Name", "Age", "City"])
    'Name: Tove | City: Oslo'
    """
    return " | ".join(filter(None, cell_texts(row, labels)))


def cell_texts(row: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The texts of a row's cells, in order; of an empty cell it is empty."""
    names = [*labels, *[""] * (len(row) - len(labels))]
    return [
        f"{name}: {cell}" if name and cell else cell for name, cell in zip(names, row, strict=False)
    ]
