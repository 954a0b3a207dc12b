"""A set of UIDs that grows upwards, as ranges: small, since UIDs are mostly dense."""

from bisect import bisect_right
from collections.abc import Iterator


class Uids:
    """Numbers added in rising order.

    >>> uids = Uids.parsed("1:3,7")
    >>> uids.add(8)
    >>> str(uids), len(uids), 3 in uids, 4 in uids, uids.last
    ('1:3,7:8', 5, True, False, 8)
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._count = 0

    @classmethod
    def parsed(cls, text: str) -> "Uids":
        """Raises ValueError for what is no such set."""
        uids = cls()
        for part in text.split(",") if text else ():
            first, _, last = part.partition(":")
            uids._add_range(int(first), int(last or first))
        return uids

    def add(self, uid: int) -> None:
        """Raises ValueError for one that is not higher than the last."""
        self._add_range(uid, uid)

    def extend(self, other: "Uids") -> None:
        """Add all of another set, which must be higher."""
        for first, last in zip(other._firsts, other._lasts, strict=True):
            self._add_range(first, last)

    @property
    def last(self) -> int:
        """The highest; 0 where there is none."""
        return self._lasts[-1] if self._lasts else 0

    def __contains__(self, uid: int) -> bool:
        at = bisect_right(self._firsts, uid) - 1
        return at >= 0 and uid <= self._lasts[at]

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self._count

    def __str__(self) -> str:
        ranges = zip(self._firsts, self._lasts, strict=True)
        return ",".join(f"{a}:{b}" if a != b else str(a) for a, b in ranges)

    def _add_range(self, first: int, last: int) -> None:
        if first <= self.last or last < first:
            raise ValueError(f"{first}:{last} does not follow {self.last}")
        if self._lasts and first == self.last + 1:
            self._lasts[-1] = last
        else:
            self._firsts.append(first)
            self._lasts.append(last)
        self._count += last - first + 1
