"""Decides which paths in a folder are documents, by secrets, ignore patterns and include patterns.

The first of these rules that matches a path applies:

1. Version control folders and secrets are never listed. Secrets match the configured `deny`
   patterns, or `SECRETS` unless the configured `not_secret` matches too.
2. The configured `ignore` patterns.
3. `.hopsyncdignore` files, the deepest first.
4. `NOISE`: caches, build output and temporary files of editors. Also folders whose name begins with
   a dot, unless a pattern in `include` names them, such as `.github/**`.
5. `.gitignore` files, the deepest first.

As a result, a `.hopsyncdignore` file can include a `build/` folder again. A `.gitignore` file,
which is written for another purpose, can only hide more. As in git, no pattern can include files
inside a hidden folder. A path that is not hidden is listed if `include` matches it.

Ignore files come with the folder or repository, so they are not trusted. In Python's regular
expressions, a few `*` and a long name would block the process with hours of backtracking, so
`make_linear` makes each pattern match in linear time. If an ignore file is too long or has too many
patterns, its folder is not listed, because hopsyncd cannot know which paths the file hides. In a
git repository, the whole repository is not listed. Each file is compiled once, however often its
folder is listed.
"""

import errno
import os
import re
import stat
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from connectors.media_type import (
    is_document_name,
    is_image_name,
    is_script_name,
    is_table_name,
    is_text_name,
)

# A class such as `[[]` makes `re` issue a warning, which would be logged for each such pattern.
warnings.filterwarnings("ignore", "Possible (nested )?set", FutureWarning)

TEXT = "@text"
"""In an `include` list: every name that `media_type.is_text_name` knows."""

DOCUMENTS = "@documents"
"""In an `include` list: every name that `media_type.is_document_name` knows."""

SCRIPTS = "@scripts"
"""In an `include` list: every name that `media_type.is_script_name` knows."""

IMAGES = "@images"
"""In an `include` list: every name that `media_type.is_image_name` knows."""

TABLES = "@tables"
"""In an `include` list: every name that `media_type.is_table_name` knows."""

DEFAULT_INCLUDE = (TEXT, DOCUMENTS, TABLES)

NAMED = {
    TEXT: is_text_name,
    DOCUMENTS: is_document_name,
    TABLES: is_table_name,
    SCRIPTS: is_script_name,
    IMAGES: is_image_name,
}
"""The entries of an `include` list that stand for a group of names, with the test of each group."""

OWN_IGNORE_FILE = ".hopsyncdignore"
GIT_IGNORE_FILE = ".gitignore"
IGNORE_FILES = (OWN_IGNORE_FILE, GIT_IGNORE_FILE)
MAX_IGNORE_FILE_BYTES = 1 << 20
MAX_PATTERNS = 5_000
"""The maximum number of different patterns in an ignore file, and in all ignore files above a
path."""

_MAX_PATTERN_CHARACTERS = 4_096  # the longest path on Linux
_KEPT_COMPILED = 32

VERSION_CONTROL = frozenset((".git", ".hg", ".svn", ".jj", ".bzr", "_darcs", "CVS"))

SECRETS = (
    # environment files
    *(".env*", "*.env", "*.env.*"),
    # private keys, certificates, key stores, encrypted files
    *("*.pem*", "*.key", "*.key.*", "*.p8", "*.p12*", "*.pfx*", "*.pkcs12", "*.der", "*.jks"),
    *("*.keystore", "*.bks", "*.kdb*", "*.ppk*", "*.gpg", "*.pgp", "*.asc", "*.age", "*.agekey"),
    *("*.keytab", "*.keychain", "*.keychain-db", "*.kwallet", "*.ovpn*", "*.wallet", "*wallet.dat"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*_rsa", "*_rsa.*", "*_ed25519*"),
    *("privkey*", "private_key*", "private-key*", "privatekey*", "*.private"),
    # credentials of programs
    *(".netrc*", "_netrc*", ".authinfo*", ".npmrc*", ".pypirc*", ".pgpass*", "pgpass.conf"),
    *(".my.cnf*", ".mylogin.cnf", ".htpasswd*", "htpasswd", ".git-credentials*", ".dockercfg*"),
    *(
        ".s3cfg*",
        ".boto*",
        ".vault-token*",
        ".rclone.conf",
        "rclone.conf",
        "*.psk",
        "*.nmconnection",
    ),
    *("kubeconfig", "*.kubeconfig", "*.tfstate", "*.tfstate.*", "*.tfvars", ".terraformrc"),
    *("client_secret*.json", "*service-account*.json", "*service_account*.json"),
    # files named after their content
    *("secret", "secret.*", "secrets", "secrets.*", "*.secret", "*.secrets", ".secret*"),
    *("credentials", "credentials.*", ".credentials*", "*credentials.json", "*credentials.csv"),
    *("password.*", "passwords", "passwords.*", "*passwords.txt", "*passwords.csv", "*logins.csv"),
    *("token", "token.*", "tokens", "tokens.*", "*.token", "*token*.txt", "*_token", "*-token"),
    *("*api_key*.txt", "*api-key*.txt", "*apikey*.txt", "rootkey.csv", "*accesskeys.csv"),
    *("*recovery*codes*.txt", "*backup*codes*.txt", "*recovery*key*.txt", "seed*phrase*"),
    # shell histories, which contain passwords typed on the command line
    *(".*_history",),
    # folders
    *(".ssh/", ".gnupg/", ".aws/", ".azure/", ".gcloud/", "gcloud/", ".kube/", ".docker/"),
    *(".password-store/", "keyrings/", ".keyrings/", "keychains/", ".vault/", ".mozilla/"),
    *("secrets/", ".secrets/"),
)
"""Names of files and folders that contain secrets, which are never listed.

Case-insensitive; a name with a final `/` matches only folders.
"""

NOISE = (
    # dependencies, caches and build output
    *("node_modules/", "bower_components/", "site-packages/", ".venv/", "venv/", ".direnv/"),
    *("__pycache__/", ".cache/", ".mypy_cache/", ".ruff_cache/", ".pytest_cache/", ".hypothesis/"),
    *(".tox/", ".nox/", ".eggs/", "*.egg-info/", ".ipynb_checkpoints/", "htmlcov/", ".gradle/"),
    *(".terraform/", ".next/", ".nuxt/", ".svelte-kit/", ".parcel-cache/", ".dart_tool/"),
    *("build/", "dist/", "target/", "_build/", "DerivedData/"),
    *("*.min.js", "*.min.css", "*.map", "*.pyc", "*.class", "*.o"),
    # settings of editors and desktops, trash folders, snapshots
    *(".idea/", ".vscode/", ".obsidian/", ".Trash/", ".Trash-*/", "$RECYCLE.BIN/", "lost+found/"),
    # data of note programs, and their trash folders (`logseq/bak`, `logseq/.recycle`)
    *(".trash/", ".logseq/", ".recycle/", "bak/", ".foam/", ".makemd/", ".space/", ".smtcmp*/"),
    *(".smart-env/", ".smart-connections/", ".joplin/", ".zk/", ".silverbullet/"),
    *("System Volume Information/", ".snapshot/", ".snapshots/", ".stversions/"),
    *(".DS_Store", "Thumbs.db", "._*", ".nfs*", ".fuse_hidden*"),
    # half-written and backup files of editors
    *("*~", ".*.sw[a-z]", "*.swp", "#*#", ".#*", "4913", "*.tmp", "*.temp", "~$*", ".~lock.*#"),
    *("*.bak", "*.orig", "*.rej", "*.part", "*.crdownload", "*.kate-swp", ".goutputstream-*"),
    *("*___jb_tmp___", "*___jb_old___"),
)
"""Names of files and folders that are not documents by default.

Case-sensitive; a name with a final `/` matches only folders.
"""

_STARS = re.compile(r"(?:\[\^/\]\*){2,}")
_CLASS = r"\[\^?\]?(?:\\.|[^\]\\])*\]"
_CLASSES = re.compile(rf"\\.|\[\^/\]|({_CLASS})")
_ONE_CHARACTER = rf"\[\^/\](?![*+])|\\.|\(\?!/\)(?:{_CLASS})|[^\\\[/(]"
_BETWEEN = re.compile(rf"\[\^/\]\*((?:{_ONE_CHARACTER})+)(?=\[\^/\]\*)")
_ANYWHERE, _FOLDERS = "(?:.+/)?", "(?:/.+)?"  # `**` at the beginning, and between two folders
_PARTS = re.compile(rf"\^({re.escape(_ANYWHERE)})?(.*)")


def make_linear(regex: str) -> str:
    r"""Rewrite a regular expression of pathspec so that it matches in linear time.

    It is enough to match the text between two wildcards at its first occurrence: if the rest of the
    pattern matches after a later occurrence, it matches after the first one too. Each wildcard
    except the last is therefore put into an atomic group with the text after it, and never
    backtracks. As in git, a class such as `[!a]` does not match `/`.

    >>> make_linear("^[^/]*a[^/]*b$")
    '^(?>[^/]*?a)[^/]*b$'
    """
    within = _CLASSES.sub(lambda match: f"(?!/){match[1]}" if match[1] else match[0], regex)
    match = _PARTS.fullmatch(_BETWEEN.sub(r"(?>[^/]*?\1)", _STARS.sub("[^/]*", within)))
    if match is None:
        return regex
    first, *other_parts = match[2].split(_FOLDERS)
    if not other_parts:
        return match[0]
    *inner, last = other_parts
    begin = f"^(?>{'(?:.+?/)??' if match[1] else ''}{first}(?=/))"
    return begin + "".join(f"(?>(?:/.+?)??{part}(?=/))" for part in inner) + _FOLDERS + last


_Parsed = tuple[GitIgnoreSpecPattern, bool]


class TooManyPatterns(OSError):
    """The ignore files that apply to a folder have more than 5,000 patterns, or a pattern has more
    than 4,096 characters."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EFBIG, why)
        self.why = why


class Patterns:
    """Applies gitignore patterns to one path at a time, as git does: the last matching pattern
    applies.

    pathspec's GitIgnoreSpec is not used, because its matches include everything below a path. It
    cannot express that `*` with `!*/` hides the files in a folder but not its folders.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        """Compile the patterns. Raises ValueError for an invalid pattern."""
        self._set(_parse(line) for line in lines)

    @classmethod
    def parse_lines(cls, lines: Iterable[str]) -> "Patterns":
        """Parse the lines of an ignore file, and skip invalid lines like git. Raises
        TooManyPatterns."""
        # The last of several equal lines decides, so only the last line is kept.
        distinct = [*dict.fromkeys(reversed([line for line in lines if _may_be_pattern(line)]))]
        if len(distinct) > MAX_PATTERNS:
            raise TooManyPatterns(
                f"too many different patterns ({len(distinct):,}; the limit is {MAX_PATTERNS:,})"
            )
        if any(len(line) > _MAX_PATTERN_CHARACTERS for line in distinct):
            raise TooManyPatterns(
                f"a pattern is longer than {_MAX_PATTERN_CHARACTERS:,} characters"
            )
        patterns = cls(())
        patterns._set(map(_parse_or_none, reversed(distinct)))
        return patterns

    def __len__(self) -> int:
        return len(self._last_first)

    def _set(self, parsed: Iterable[_Parsed | None]) -> None:
        self._last_first = tuple(reversed([pattern for pattern in parsed if pattern is not None]))

    def judge(self, path: str, is_folder: bool) -> bool | None:
        """Return True if the patterns hide `path`, False if they include it again, None if none
        matches.

        The result says nothing about paths below `path`.
        """
        line = _replace_newlines(path)
        for pattern, folders_only in self._last_first:
            if is_folder or not folders_only:
                match = pattern.match_file(line)
                # If a group matched, the pattern matches only a folder above the path.
                if match is not None and match.match.lastindex is None:
                    return pattern.include
        return None


@dataclass(frozen=True, slots=True)
class Level:
    """The patterns in the ignore files of a folder. `base` is the folder's id with a final `/`, or
    "" for the root."""

    base: str
    own: Patterns
    git: Patterns


def add_level(above: tuple[Level, ...], level: Level | None) -> tuple[Level, ...]:
    """Return `above`, followed by the ignore files of a folder. Raises TooManyPatterns if the files
    have too many patterns in total."""
    levels = (*above, level) if level else above
    count = sum(len(level.own) + len(level.git) for level in levels)
    if level and count > MAX_PATTERNS:
        raise TooManyPatterns(
            f"the ignore files in the folder and above have {count:,} patterns; the limit is"
            f" {MAX_PATTERNS:,}"
        )
    return levels


class NameSet:
    """A set of glob patterns for the last component of a path, compiled into one regular
    expression."""

    def __init__(self, globs: Sequence[str], ignore_case: bool) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        files = [translate(glob) for glob in globs if not glob.endswith("/")]
        folders = [translate(glob.rstrip("/")) for glob in globs]
        self._files = re.compile("|".join(files), flags)
        self._folders = re.compile("|".join(folders), flags)

    def has(self, name: str, is_folder: bool) -> bool:
        pattern = self._folders if is_folder else self._files
        return pattern.match(name) is not None


_SECRET_NAMES = NameSet(SECRETS, ignore_case=True)
_NOISE_NAMES = NameSet(NOISE, ignore_case=False)


class Rules:
    """Decides whether a path is listed, given the ignore files of the folders above it.

    Only files that match `include` are listed, without the files that match `ignore`. Unless
    `index_secrets`, files that match `deny` are not listed either, and files with the names of
    secrets only if they match `not_secret`. Raises ValueError for an invalid configured pattern.
    """

    def __init__(
        self,
        include: Sequence[str] = DEFAULT_INCLUDE,
        ignore: Sequence[str] = (),
        deny: Sequence[str] = (),
        index_secrets: bool = False,
        not_secret: Sequence[str] = (),
    ) -> None:
        patterns = [line for line in include if line not in NAMED]
        Patterns(patterns)  # raises ValueError for an invalid pattern
        self._dot_folders = _select_dot_names(patterns)
        self._named = [NAMED[line] for line in include if line in NAMED]
        self._include = GitIgnoreSpec.from_lines(patterns)
        self._ignore = Patterns(ignore)
        self._deny = Patterns(deny)
        self._index_secrets = index_secrets
        self._not_secret = Patterns(not_secret)

    def hides(self, id_: str, is_folder: bool, levels: Sequence[Level]) -> bool:
        """Whether a path is ignored or must never be listed. Call this method only if no folder
        above the path is hidden.

        `levels` are ordered from the root to the path's folder.
        """
        if self.forbids(id_, is_folder):
            return True
        verdict = self._judge_by_configuration(id_, is_folder, levels)
        if verdict is None and (
            _NOISE_NAMES.has(_get_name(id_), is_folder) or self._is_dot_folder(id_, is_folder)
        ):
            verdict = True
        if verdict is None:
            verdict = _find_deepest_verdict(
                id_, is_folder, [(level.base, level.git) for level in levels]
            )
        return bool(verdict)

    def hides_for_dot(self, id_: str, is_folder: bool, levels: Sequence[Level]) -> bool:
        """Whether a folder is hidden only because its name begins with a dot."""
        if not self._is_dot_folder(id_, is_folder) or self.forbids(id_, is_folder):
            return False
        is_noise = _NOISE_NAMES.has(_get_name(id_), is_folder)
        return not is_noise and self._judge_by_configuration(id_, is_folder, levels) is None

    def _is_dot_folder(self, id_: str, is_folder: bool) -> bool:
        """Whether a path is a folder whose name begins with a dot, and `include` does
        not name it."""
        name = _get_name(id_)
        if not is_folder or not name.startswith(".") or name == "..":
            return False
        return self._dot_folders is None or not self._dot_folders.has(name, is_folder)

    def _judge_by_configuration(
        self, id_: str, is_folder: bool, levels: Sequence[Level]
    ) -> bool | None:
        """Return the verdict of the `ignore` setting or, if that setting does not match, of the
        `.hopsyncdignore` files."""
        verdict = self._ignore.judge(id_, is_folder)
        if verdict is None:
            verdict = _find_deepest_verdict(
                id_, is_folder, [(level.base, level.own) for level in levels]
            )
        return verdict

    def forbids(self, id_: str, is_folder: bool) -> bool:
        """Whether the path is a version control folder or a secret, which ignore files cannot
        include."""
        name = _get_name(id_)
        if name in VERSION_CONTROL:
            return True
        if self._index_secrets:
            return False
        return bool(self._deny.judge(id_, is_folder)) or self.looks_secret(id_, is_folder)

    def looks_secret(self, id_: str, is_folder: bool) -> bool:
        """Whether the path is left out because its name is one of SECRETS."""
        if self._index_secrets or not _SECRET_NAMES.has(_get_name(id_), is_folder):
            return False
        return not self._not_secret.judge(id_, is_folder)

    def includes(self, id_: str) -> bool:
        """Whether `include` matches the file. A pattern for a folder includes all files in it."""
        verdict = self._include.check_file(_replace_newlines(id_)).include
        return any(is_named(id_) for is_named in self._named) if verdict is None else verdict


def _select_dot_names(include: Sequence[str]) -> NameSet | None:
    """Return the set of names in an `include` list that begin with a dot, or None if there are
    none."""
    parts = (
        part for line in include if not line.startswith(("!", "#")) for part in line.split("/")
    )
    names = [f"{part}/" for part in map(str.strip, parts) if part.startswith(".")]
    return NameSet(names, ignore_case=False) if names else None


def read_level(folder: int, base: str, names: Sequence[str]) -> Level | None:
    """Read the ignore files of an open folder. Returns None if they have no patterns.

    Raises OSError if an ignore file exists but cannot be read, because its patterns are then
    unknown.
    """
    if not any(name in names for name in IGNORE_FILES):
        return None
    plain, git = (_read_patterns(folder, name) for name in IGNORE_FILES)
    return Level(base, plain, git) if plain or git else None


def _read_patterns(folder: int, name: str) -> Patterns:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        # Just deleted, a symbolic link (which git does not follow either), or a socket.
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return Patterns(())
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return Patterns(())
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(MAX_IGNORE_FILE_BYTES + 1)
    finally:
        os.close(handle)
    if len(data) > MAX_IGNORE_FILE_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    try:
        return parse_patterns(data)
    except TooManyPatterns as error:
        raise OSError(error.errno, error.why, name) from error


@lru_cache(maxsize=_KEPT_COMPILED)
def parse_patterns(data: bytes) -> Patterns:
    """Parse the content of an ignore file. Raises TooManyPatterns."""
    return Patterns.parse_lines(data.decode("utf-8-sig", "surrogateescape").split("\n"))


def _may_be_pattern(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _parse_or_none(line: str) -> _Parsed | None:
    try:
        return _parse(line)
    except ValueError:
        return None


def _parse(line: str) -> _Parsed | None:
    """Parse a line. Returns its pattern without a final `/`, and whether the line had a final `/`.
    Returns None for a blank line or a comment."""
    text = line if line.endswith("\\ ") else line.rstrip()
    folders_only = text.endswith("/") and text.strip("!/") != ""
    try:
        pattern = GitIgnoreSpecPattern(text.removesuffix("/") if folders_only else text)
        if pattern.include is None or pattern.regex is None:
            return None
        regex = make_linear(pattern.regex.pattern)
        if regex == pattern.regex.pattern:
            return pattern, folders_only
        return GitIgnoreSpecPattern(re.compile(regex), pattern.include), folders_only
    except (ValueError, re.error) as error:
        raise ValueError(f"`{line}` is not a gitignore pattern") from error


def _replace_newlines(path: str) -> str:
    """Replace newlines with NUL, which no path contains, because pathspec's expressions stop at
    newlines."""
    return path.replace("\n", "\0")


def _find_deepest_verdict(
    id_: str, is_folder: bool, patterns: Sequence[tuple[str, Patterns]]
) -> bool | None:
    for base, file_patterns in reversed(patterns):
        verdict = file_patterns.judge(id_[len(base) :], is_folder)
        if verdict is not None:
            return verdict
    return None


def _get_name(id_: str) -> str:
    return id_.rpartition("/")[2]
