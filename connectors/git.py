"""Reads a branch of a git repository as a source, from the object store, without a checkout or
index.

Each file in the newest commit of the branch is an item. Its revision is the id of its blob, so
equal content is never fetched again. Submodules, symbolic links and paths that `ignore` hides are
never items. `.hopsyncdignore` files in the repository apply. `.gitignore` files do not, because a
committed file should not be ignored.

A Cursor contains a commit. git lists the changes since that commit, and only new blobs are read.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from subprocess import PIPE

from connectors.git_program import TIP, BlobReader, Mirror, Repository, ask, check_branch_name
from connectors.ignore import (
    MAX_IGNORE_FILE_BYTES,
    NOISE,
    OWN_IGNORE_FILE,
    SECRETS,
    Level,
    Patterns,
    Rules,
    TooManyPatterns,
    add_level,
    parse_patterns,
)
from connectors.media_type import guess_media_type, name_kind
from connectors.protocol import (
    HIDDEN_FOLDERS,
    SECRET,
    SECRET_FOLDERS,
    Cursor,
    CursorExpired,
    Fetched,
    Found,
    Gone,
    Item,
    ItemUnreadable,
    Problem,
    Selection,
    SourceUnavailable,
    escape_id,
    format_iso_date,
    list_prefixes,
    vanished_error,
)
from connectors.regular_file import check_text
from connectors.settings import FileSettings

_DATED_COMMITS = 20_000
_DATES_LIMIT_S = 60.0
_OBJECT_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DATED = re.compile(rb"\x01([0-9a-f]+) (\d+) (.*)", re.DOTALL)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_FILE_MODES = ("100644", "100755", "100664")


@dataclass(frozen=True, slots=True)
class GitSettings(FileSettings):
    """The branch to read, and the patterns for its files."""

    branch: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A path in a commit, with its mode and blob. Bytes of the path that are not UTF-8 become
    surrogate characters."""

    path: str
    mode: str
    blob: str

    @property
    def is_file(self) -> bool:
        return self.mode in _FILE_MODES


@dataclass(frozen=True, slots=True)
class _Change:
    """The commit that last changed a file."""

    commit: str
    author: str
    date_ms: int

    @property
    def origin(self) -> dict[str, str]:
        return {"author": self.author, "date": format_iso_date(self.date_ms), "commit": self.commit}


@dataclass(frozen=True, slots=True)
class _Rules:
    """Decides which paths of a commit are documents. The keys of `levels` are folders with a final
    `/`."""

    rules: Rules
    levels: Mapping[str, Level]
    hidden: dict[str, bool] = field(default_factory=dict)  # whether a folder is hidden (a cache)
    left_out: Counter[str] = field(default_factory=Counter)  # see Connector
    counted: set[str] = field(default_factory=set)  # folders that `left_out` already counts

    def wants(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        if folder not in self.hidden:
            top = next((part for part in list_prefixes(folder) if self._hides(part, True)), None)
            self.hidden[folder] = top is not None
            if top and top not in self.counted:
                self.counted.add(top)
                self._count_folder(top)
        if self.hidden[folder]:
            return False
        if self.rules.looks_secret(path, False):
            self.left_out[SECRET + name_kind(path)] += 1
            return False
        return not self._hides(path, False) and self.rules.includes(path)

    def _count_folder(self, folder: str) -> None:
        if self.rules.looks_secret(folder, True):
            self.left_out[SECRET_FOLDERS] += 1
        elif self.rules.hides_for_dot(folder, True, _select_levels_above(folder, self.levels)):
            self.left_out[HIDDEN_FOLDERS] += 1

    def _hides(self, path: str, is_folder: bool) -> bool:
        return self.rules.hides(path, is_folder, _select_levels_above(path, self.levels))


class GitConnector:
    """Lists and reads one branch of a local repository, or of a Mirror that each listing updates.

    Raises ValueError for an invalid pattern or branch name.
    """

    def __init__(self, origin: Mirror | Repository, settings: GitSettings) -> None:
        self._origin = origin
        self._settings = settings
        self._branch = check_branch_name(settings.branch)
        self._rules = settings.build_rules()
        self._listed: tuple[str, ...] = ()  # the commits that the last listing covered
        self._changes_of: dict[str, _Change] | None = None  # the last change of each file
        self._blobs = BlobReader()
        self.left_out: Mapping[str, int] | None = None  # None until all files have been listed

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        """Implement `Connector.discover`, in git's order of paths.

        Raises CursorExpired if the Cursor was made with other settings, if its commit is no longer
        on the branch, or if a `.hopsyncdignore` file has changed since that commit.
        """
        self._blobs.close()
        origin = self._origin
        repository = origin.refresh(self._branch) if isinstance(origin, Mirror) else origin
        tip = self._find_newest_commit(repository)
        old = None if since is None else self._commit_of(since, repository, tip)
        if under is None:
            self._listed = (tip,) if old is None else (tip, f"^{old}")
            self._changes_of = None
        if tip != old:
            parts = Selection(under)
            changes = self._list_changes(repository, old, tip)
            yield from (item for item in changes if parts.has(item.id))
        if under is None:
            yield Cursor(f"{tip} {self._compute_fingerprint()}")

    def fetch(self, item: Item) -> Fetched:
        """Implement `Connector.fetch`: read the listed blob, even if the branch has moved on."""
        origin = self._origin
        repository = origin.repository if isinstance(origin, Mirror) else origin
        data = None
        if _OBJECT_ID.fullmatch(item.revision):
            data = self._blobs.read(repository, item.revision, self._settings.max_bytes, item.id)
        if data is None:
            raise vanished_error(item.id)
        if data.startswith(_LFS_POINTER):
            raise ItemUnreadable(
                f"Cannot index {item.id!r}",
                "Git LFS keeps the file's content outside the repository",
                "Add the file to `ignore`.",
            )
        check_text(item.id, data)
        if self._changes_of is None:
            self._changes_of = _find_last_changes(repository, self._listed) if self._listed else {}
        change = self._changes_of.get(item.id)
        return Fetched(
            data,
            item.revision,
            guess_media_type(item.id),
            origin=change.origin if change else {},
        )

    def close(self) -> None:
        """End the git process that reads the blobs."""
        self._blobs.close()

    def _find_newest_commit(self, repository: Repository) -> str:
        name = f"refs/heads/{self._branch}" if self._branch else "HEAD"
        if isinstance(self._origin, Mirror):
            name = TIP
        commit = repository.run(
            "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", accept=(0, 1)
        )
        if not commit:
            why, remedy = "the repository has no commits", "Make a commit."
            if self._branch:
                why = f'the repository has no branch "{self._branch}"'
                remedy = "Correct `branch` of this source in config.toml."
            raise repository.unavailable_error(why, f"{remedy} Indexed documents stay searchable.")
        return commit.decode().strip()

    def _commit_of(self, since: str, repository: Repository, tip: str) -> str:
        """Return the commit in the Cursor `since`. Raises CursorExpired if git cannot list the
        changes since that commit."""
        commit, _, fingerprint = since.partition(" ")
        if fingerprint != self._compute_fingerprint() or not _OBJECT_ID.fullmatch(commit):
            why = "the cursor is from another branch or other settings"
        elif not repository.succeeds("merge-base", "--is-ancestor", commit, tip):
            why = "the commit is too old, or is no longer on the branch"
        elif any(
            _get_name(entry.path) == OWN_IGNORE_FILE
            for entry in _list_differences(repository, commit, tip)
        ):
            why = f"a {OWN_IGNORE_FILE} file has changed since that commit"
        else:
            return commit
        raise CursorExpired(
            f"Cannot list the repository {repository.location} since commit {commit[:12]}",
            why,
            "The whole repository is listed instead. Unchanged files are not reread.",
        )

    def _compute_fingerprint(self) -> str:
        location = self._origin.url if isinstance(self._origin, Mirror) else self._origin.path
        return hashlib.sha256(
            f"{location} {self._settings} {SECRETS} {NOISE} .*/ counts secrets".encode()
        ).hexdigest()[:16]

    def _list_changes(
        self, repository: Repository, old: str | None, new: str
    ) -> Iterator[Item | Problem | Gone]:
        rules = _Rules(self._rules, _read_levels(repository, new))
        if old is None:
            files = _list_files(repository, new)
            return self._list_all(files, rules)
        return self._list_changed(repository, old, new, rules)

    def _list_all(
        self, files: Iterator[tuple[_Entry, str]], rules: _Rules
    ) -> Iterator[Item | Problem]:
        yield from (self._classify(entry, size) for entry, size in files if rules.wants(entry.path))
        self.left_out = dict(rules.left_out)

    def _list_changed(
        self, repository: Repository, old: str, new: str, rules: _Rules
    ) -> Iterator[Item | Problem | Gone]:
        process = repository.process("cat-file", "--batch-check=%(objectsize)", stdin=PIPE)
        with process as sizes:
            for entry in _list_differences(repository, old, new):
                if not rules.wants(entry.path):
                    continue
                if not entry.is_file:
                    yield Gone(escape_id(entry.path))
                    continue
                size = ask(sizes, entry.blob)
                if not size:
                    raise repository.unavailable_error(
                        "git exited unexpectedly", "Run `git fsck` in the repository."
                    )
                yield self._classify(entry, size.decode().strip())

    def _classify(self, entry: _Entry, size: str) -> Item | Problem:
        """Return the item or problem at an entry. `size` is the text that git prints: a number, or
        another word if a partial clone lacks the object."""
        id_ = escape_id(entry.path)
        if id_ != entry.path:
            return Problem(id_, "the file name is not UTF-8", "Rename the file in the repository.")
        if not {"", ".", ".."}.isdisjoint(id_.split("/")):
            return Problem(
                id_,
                "a part of the path is empty or consists only of dots",
                "Rename the file in the repository.",
            )
        if not size.isdecimal():
            return Problem(
                id_,
                f"this clone does not contain the file's content (object {entry.blob})",
                "Run `git fetch --refetch` in the repository, or clone it again without"
                " `--filter`.",
            )
        if problem := self._settings.describe_size_problem(id_, int(size)):
            return Problem(id_, *problem)
        return Item(id_, entry.blob)


def _list_files(repository: Repository, commit: str) -> Iterator[tuple[_Entry, str]]:
    """Yield the files of a commit with their sizes, without submodules and symbolic links."""
    for record in repository.read_records("ls-tree", "-r", "-l", "-z", "--full-tree", commit):
        facts, _, path = record.partition(b"\t")
        mode, _, blob, size = facts.decode().split()
        entry = _Entry(_decode_path(path), mode, blob)
        if entry.is_file:
            yield entry, size


def _list_differences(repository: Repository, old: str, new: str) -> Iterator[_Entry]:
    """Yield the entries of commit `new` that differ from commit `old`. A deleted entry has mode
    0."""
    records = repository.read_records(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new
    )
    for facts in records:
        _, mode, _, blob, _ = facts.decode().split(" ")
        yield _Entry(_decode_path(next(records)), mode, blob)


def _read_levels(repository: Repository, commit: str) -> dict[str, Level]:
    """Read the ignore files in a commit, by folder."""
    levels = {}
    blobs = BlobReader()
    for record in repository.read_records("ls-tree", "-r", "-z", "--full-tree", commit):
        facts, _, path = record.partition(b"\t")
        mode, _, blob = facts.decode().split()
        entry = _Entry(_decode_path(path), mode, blob)
        if _get_name(entry.path) == OWN_IGNORE_FILE and entry.is_file:
            base = entry.path.removesuffix(OWN_IGNORE_FILE)
            try:
                data = blobs.read(repository, blob, MAX_IGNORE_FILE_BYTES, entry.path) or b""
            except ItemUnreadable as error:
                raise repository.unavailable_error(
                    f"{entry.path}: {error.why}", "Shorten this ignore file."
                ) from error
            try:
                levels[base] = Level(base, parse_patterns(data), Patterns(()))
            except TooManyPatterns as error:
                raise repository.unavailable_error(
                    f"{entry.path}: {error.why}", "Shorten this ignore file."
                ) from error
    blobs.close()
    for base, level in levels.items():
        try:
            add_level(_select_levels_above(base, levels), level)
        except TooManyPatterns as error:
            raise repository.unavailable_error(
                f"{base}: {error.why}", "Shorten these ignore files."
            ) from error
    return levels


def _select_levels_above(path: str, levels: Mapping[str, Level]) -> tuple[Level, ...]:
    """Return the ignore files of the folders above a path, topmost first."""
    bases = ("", *(f"{part}/" for part in list_prefixes(path.rstrip("/"))[:-1]))
    return tuple(levels[base] for base in bases if base in levels and base != path)


def _find_last_changes(repository: Repository, commits: Sequence[str]) -> dict[str, _Change]:
    """Return the commit that last changed each path on the branch.

    The newest `_DATED_COMMITS` commits are read, for at most `_DATES_LIMIT_S`, so paths may be
    missing. The oldest commit of a shallow clone is skipped, because it seems to add every file.
    """
    changes: dict[str, _Change] = {}
    # Dates are optional: they take at most a minute to read, and an error does not end the listing.
    with suppress(SourceUnavailable):
        limited = replace(repository, limit_s=min(repository.limit_s, _DATES_LIMIT_S))
        cut = limited.path / _decode_path(limited.run("rev-parse", "--git-path", "shallow").strip())
        edges = frozenset(cut.read_text().split()) if cut.exists() else frozenset()
        change: _Change | None = None
        records = limited.read_records(
            "log", "--first-parent", "--diff-merges=first-parent", "--name-only", "--no-renames",
            "--no-show-signature", "--no-ext-diff", "-z", "--format=%x01%H %ct %an",
            f"--max-count={_DATED_COMMITS}", *commits, "--",
        )  # fmt: skip
        for record in records:
            if match := _DATED.fullmatch(record):
                commit, date_ms = match[1].decode(), int(match[2]) * 1000
                author = match[3].decode("utf-8", "replace")
                change = None if commit in edges else _Change(commit, author, date_ms)
            elif change is not None:
                changes.setdefault(_decode_path(record.removeprefix(b"\n")), change)
    return changes


def _get_name(path: str) -> str:
    return path.rpartition("/")[2]


def _decode_path(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
