"""The kinds of `[[source]]`: a model for each kind, and a model for the kinds of installed
packages.

To add a kind, write its model in this module, add the model to `SourceConfig`, and create its
connector in hopsyncd/ingest/connector_setup.py.
"""

from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
)

from connectors.git_program import check_branch_name, parse_protocol
from connectors.ignore import DEFAULT_INCLUDE, SCRIPTS
from connectors.mail import DEFAULT_MAX_MESSAGE_BYTES as MAIL_MAX_BYTES
from connectors.remote_driver import check_url
from connectors.settings import DEFAULT_FOLDERS as MAIL_FOLDERS
from connectors.settings import DEFAULT_MAX_BYTES, Tls, normalise_address
from connectors.settings import DEFAULT_MAX_PAGE_BYTES as WEB_MAX_BYTES
from hopsyncd.config.values import (
    CRON_HINT,
    VIEWERS_HINT,
    ConfigPath,
    CronText,
    PatternList,
    Seconds,
    Section,
    ViewerList,
    check_path_pattern,
    check_usable_folder,
)

PLUGIN_GROUP = "hopsyncd.connectors"


class FolderRights(Section):
    """Who may see the documents that a pattern matches: an entry of a source's `paths`."""

    match: Annotated[str, AfterValidator(check_path_pattern)] = Field(
        description='Write a gitignore pattern, such as "hr/**".'
    )
    visible_to: Annotated[ViewerList, Field(min_length=1)] = Field(description=VIEWERS_HINT)


_PLUGIN = "another"  # the union tag of all kinds from installed packages


class SourceBase(Section):
    """The keys of every `[[source]]`.

    `scan_at` overrides `scan_every_s`. If neither is set, `[watch]` applies.
    """

    name: str = Field(
        pattern=r"^\w[\w. -]{0,63}$",
        description="Use letters, digits, space, dot, dash and underscore, at most 64.",
    )
    kind: str
    scan_every_s: Seconds | None = Field(
        default=None, description="Leave the line out to use the value in [watch]."
    )
    scan_at: CronText = Field(default="", description=CRON_HINT)
    visible_to: ViewerList = Field(default=(), description=VIEWERS_HINT)
    paths: Annotated[tuple[FolderRights, ...], Field(strict=False)] = Field(
        default=(),
        description='Write a list like [{ match = "hr/**", visible_to = ["group:hr"] }].',
    )

    @property
    def location(self) -> str:
        """The path or address for display, without secrets."""
        raise NotImplementedError


class FilesSource(SourceBase):
    """A source of files. The patterns decide which files are documents."""

    include: Annotated[PatternList, Field(min_length=1)] = DEFAULT_INCLUDE
    ignore: PatternList = ()
    deny: PatternList = ()
    index_secrets: bool = False
    not_secret: PatternList = ()
    max_bytes: int = Field(default=DEFAULT_MAX_BYTES, ge=1)


class FolderSource(FilesSource):
    """A folder of files."""

    kind: Literal["folder"] = "folder"
    path: Annotated[ConfigPath, AfterValidator(check_usable_folder)] = Field(
        description="Write the path of a folder in quotes."
    )

    @property
    def location(self) -> str:
        return str(self.path)


def _check_repository(url: str, info: ValidationInfo) -> str:
    if "path" in info.data and (info.data["path"] is None) == (not url):
        raise ValueError(
            "only one of `path` and `url` can be set" if url else "neither `path` nor `url` is set"
        )
    if url:
        parse_protocol(url)
    return url


def _check_token(token: str, info: ValidationInfo) -> str:
    if token and not info.data.get("url", "https://").startswith("https://"):
        raise ValueError("a token requires an https:// address")
    return token


class GitSource(FilesSource):
    """A branch of a git repository, on this machine or fetched into the data folder."""

    kind: Literal["git"]
    include: Annotated[PatternList, Field(min_length=1)] = (*DEFAULT_INCLUDE, SCRIPTS)
    path: Annotated[ConfigPath, AfterValidator(check_usable_folder)] | None = None
    url: Annotated[str, AfterValidator(_check_repository)] = Field(
        default="",
        validate_default=True,
        description="Write the folder of a repository as `path`, or its https, ssh, git or file"
        " address as `url`.",
    )
    branch: Annotated[str, AfterValidator(check_branch_name)] = Field(
        default="", description="Leave the line out to use the branch of the repository's HEAD."
    )
    username: str = ""
    token: Annotated[str, AfterValidator(_check_token)] = Field(
        default="",
        repr=False,
        description='Write "${NAME}" to use a variable. A token needs an https address.',
    )
    depth: int = Field(default=200, ge=0)
    max_repository_bytes: int = Field(default=2 << 30, ge=1)
    timeout_s: Seconds = 600.0

    @property
    def location(self) -> str:
        return self.url or str(self.path)


def _check_remote_url(url: str) -> str:
    if check_url(url).startswith(("file://", "local://")):
        raise ValueError('a folder on this machine is a source of kind "folder"')
    return url


class RemoteSource(FilesSource):
    """A folder on remote storage, which is read through fsspec."""

    kind: Literal["remote"]
    url: Annotated[str, AfterValidator(_check_remote_url)] = Field(
        description='Write an address like "s3://bucket/folder".'
    )
    options: dict[str, Any] = Field(default={}, repr=False)
    timeout_s: Seconds = 60.0

    @property
    def location(self) -> str:
        return self.url


def _check_query_or_table(query: str, info: ValidationInfo) -> str:
    table = info.data.get("table")
    if table is not None and bool(table) == bool(query):
        why = (
            "only one of `table` and `query` can be set"
            if query
            else "neither `table` nor `query` is set"
        )
        raise ValueError(why)
    return query


class SqliteSource(SourceBase):
    """Rows from a table or a query in a SQLite database."""

    kind: Literal["sqlite"]
    path: ConfigPath = Field(description="Write the path of a database file in quotes.")
    table: str = ""
    query: Annotated[str, AfterValidator(_check_query_or_table)] = Field(
        default="",
        validate_default=True,
        description="Name a table or a view as `table`, or write a SELECT as `query`.",
    )
    key: str = Field(min_length=1, description="Name the column that identifies a row.")
    text: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = Field(
        description="Name the columns that hold the text, in a list."
    )
    title: str = ""
    updated: str = ""
    media_type: str = Field(default="text/plain", pattern=r"^\w+/[\w.+-]+$")
    max_bytes: int = Field(default=DEFAULT_MAX_BYTES, ge=1)

    @property
    def location(self) -> str:
        return f"{self.path} {self.table}".rstrip()


_FOLDERS = Field(
    default=MAIL_FOLDERS,
    strict=False,
    min_length=1,
    description='Write a list of names or shell patterns, such as ["*", "!*Spam*"].',
)


class MaildirSource(SourceBase):
    """The messages of a Maildir and of the Maildirs below it."""

    kind: Literal["maildir"]
    path: Annotated[ConfigPath, AfterValidator(check_usable_folder)] = Field(
        description="Write the path of a Maildir in quotes."
    )
    folders: tuple[str, ...] = _FOLDERS
    max_bytes: int = Field(default=MAIL_MAX_BYTES, ge=1)

    @property
    def location(self) -> str:
        return str(self.path)


class MboxSource(SourceBase):
    """The messages of one mbox file."""

    kind: Literal["mbox"]
    path: ConfigPath = Field(description="Write the path of an mbox file in quotes.")
    max_bytes: int = Field(default=MAIL_MAX_BYTES, ge=1)

    @property
    def location(self) -> str:
        return str(self.path)


def _check_tls(tls: Tls, info: ValidationInfo) -> Tls:
    host = info.data.get("host")
    if tls == "off" and host not in (None, "localhost", "127.0.0.1", "::1"):
        raise ValueError(f"without TLS, anyone could read the password on its way to {host}")
    return tls


class ImapSource(SourceBase):
    """The messages of an IMAP account. The password comes from the environment."""

    kind: Literal["imap"]
    host: str = Field(
        pattern=r"^[\w.:-]+$", description='Write a name like "imap.example.org", without a port.'
    )
    user: str = Field(min_length=1, description="Write the account's name in quotes.")
    password_env: str = Field(
        default="HOPSYNCD_IMAP_PASSWORD",
        pattern=r"^[A-Za-z_]\w*$",
        description="Write the name of an environment variable, not the password itself.",
    )
    port: int = Field(default=993, ge=1, le=65_535)
    tls: Annotated[Tls, AfterValidator(_check_tls)] = Field(
        default="tls", description='Write "tls", or "starttls", usually with port 143.'
    )
    ca_file: ConfigPath | None = Field(
        default=None, description="Leave the line out to trust the system's authorities."
    )
    folders: tuple[str, ...] = _FOLDERS
    max_bytes: int = Field(default=MAIL_MAX_BYTES, ge=1)
    timeout_s: Seconds = 30.0

    @property
    def location(self) -> str:
        return f"{self.user} at {self.host}"


def _check_addresses(start: tuple[str, ...]) -> tuple[str, ...]:
    for text in start:
        if normalise_address(text) is None:
            raise ValueError(f"{text} is not a page's address without a name and password")
    return start


class WebSource(SourceBase):
    """Web pages, and the pages that sitemaps, feeds and start pages list."""

    kind: Literal["web"]
    start: Annotated[
        tuple[str, ...], Field(strict=False, min_length=1), AfterValidator(_check_addresses)
    ] = Field(description='Write a list like ["https://example.org/feed.xml"].')
    depth: Literal[0, 1] = 0
    hosts: Annotated[tuple[str, ...], Field(strict=False)] = ()
    max_pages: int = Field(default=500, ge=1, le=3000)
    max_bytes: int = Field(default=WEB_MAX_BYTES, ge=1)
    delay_s: float = Field(default=1.0, ge=0, le=60, allow_inf_nan=False)
    timeout_s: Seconds = 30.0
    allow_private: bool = False
    scan_every_s: Seconds | None = 21_600.0

    @property
    def location(self) -> str:
        return " ".join(self.start)


class PluginSource(SourceBase):
    """A kind that an installed package provides; its factory checks the other keys."""

    model_config = ConfigDict(extra="allow")

    @property
    def location(self) -> str:
        return self.kind

    @property
    def settings(self) -> dict[str, Any]:
        """The source's table as written, with `${NAME}` replaced."""
        common = {"scan_every_s", "scan_at", "visible_to", "paths"}
        return self.model_dump(exclude=common, exclude_unset=True)


def find_plugin_kinds() -> frozenset[str]:
    """Find the kinds of installed packages, by the entry point group `hopsyncd.connectors`."""
    return frozenset(entry.name for entry in entry_points(group=PLUGIN_GROUP))


def _choose_model(value: object) -> str | None:
    """Return the union tag of a `[[source]]`'s model, or None if its kind is unknown."""
    if isinstance(value, BaseModel):
        kind = getattr(value, "kind", None)
    else:
        kind = value.get("kind", "folder") if isinstance(value, dict) else "folder"
    if kind in SOURCE_MODELS and kind != _PLUGIN:
        return str(kind)
    return _PLUGIN if kind in find_plugin_kinds() else None


SourceConfig: TypeAlias = Annotated[
    Annotated[FolderSource, Tag("folder")]
    | Annotated[GitSource, Tag("git")]
    | Annotated[RemoteSource, Tag("remote")]
    | Annotated[SqliteSource, Tag("sqlite")]
    | Annotated[MaildirSource, Tag("maildir")]
    | Annotated[MboxSource, Tag("mbox")]
    | Annotated[ImapSource, Tag("imap")]
    | Annotated[WebSource, Tag("web")]
    | Annotated[PluginSource, Tag(_PLUGIN)],
    Discriminator(
        _choose_model,
        custom_error_type="unknown_kind",
        custom_error_message="there is no such kind of source",
    ),
]

SOURCE_MODELS: dict[str, type[SourceBase]] = {
    tag.tag: model for model, tag in map(get_args, get_args(get_args(SourceConfig)[0]))
}


def list_known_kinds() -> list[str]:
    """List the kinds that a `[[source]]` can have on this machine."""
    return sorted({*SOURCE_MODELS, *find_plugin_kinds()} - {_PLUGIN})
