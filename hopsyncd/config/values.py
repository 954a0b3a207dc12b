"""The types of configuration values, the search settings, and `[limits]`."""

import grp
import ipaddress
import os
import pwd
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
)

from connectors.ignore import NAMED, Patterns
from hopsyncd.config.schedule import find_zone, parse_cron
from store.visibility import is_pattern

Strategy = Literal["hop", "statement", "topic", "bm25", "dense", "hybrid", "decompose", "rerank"]
Profile = Literal["default", "paper"]
Reasoner = Literal["walk", "similarity", "llm", "llm-relevance"]
Method = Literal["direct", "logic"]
Rerank = Literal["none", "mean", "cosine", "cross-encoder"]
Unit = Literal["passage", "statement"]
Match = Literal["auto", "exact", "semantic"]

ALL_STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
# The strategies that need no configuration. `rerank` needs models.reranker.
STRATEGIES: tuple[Strategy, ...] = tuple(name for name in ALL_STRATEGIES if name != "rerank")
PROFILES: tuple[Profile, ...] = get_args(Profile)
REASONERS: tuple[Reasoner, ...] = get_args(Reasoner)
METHODS: tuple[Method, ...] = get_args(Method)
RERANKS: tuple[Rerank, ...] = get_args(Rerank)
UNITS: tuple[Unit, ...] = get_args(Unit)
MATCHES: tuple[Match, ...] = get_args(Match)

DEFAULT_TOP_K = 20
PAPER_HOPS = 4
DEFAULT_BEAM = 4


@dataclass(frozen=True, slots=True)
class Search:
    """How to search.

    For `hop`: profile: "paper" follows HopRAG exactly, "default" is ours. reasoner: chooses the
    edges to follow; None means "walk", or "similarity" for the paper; an LLM reasoner also works
    with `decompose`. top_k: the number of seeds for a reasoner that follows single edges. n_hop:
    the number of rounds; None means the configured number, or the paper's.

    For `statement` and `topic`: top_k: the number of start statements of each kind. n_hop: the
    number of statements that a path grows by. beam: the number of paths that continue from each
    statement. rerank: the final order of statements. unit: what is returned. Other strategies
    refuse a beam, rerank or unit that is not the default.

    method: "logic" lets an LLM split the question, and searches for each part.

    match: "exact" finds only passages that have all words of the query as typed. "semantic" uses
    the order of the strategy. "auto" ranks literal matches first if the query has the form of
    keywords or quotes words.
    """

    strategy: Strategy = "hop"
    profile: Profile = "default"
    reasoner: Reasoner | None = None
    top_k: int = DEFAULT_TOP_K
    n_hop: int | None = None
    beam: int = DEFAULT_BEAM
    rerank: Rerank = "mean"
    unit: Unit = "passage"
    method: Method = "direct"
    match: Match = "auto"

    @property
    def leads_with_literals(self) -> bool:
        """Whether passages with the query's words as typed may be ranked first."""
        if self.match != "auto" or self.strategy not in ("hop", "hybrid", "bm25"):
            return False
        return self.profile == "default" and self.chosen_reasoner == "walk"

    @property
    def collapses_similar(self) -> bool:
        """Whether near-duplicates are shown as one hit."""
        if self.strategy not in ("hop", "hybrid", "bm25", "dense") or self.wants_llm:
            return False
        return self.profile == "default" and self.chosen_reasoner == "walk"

    @property
    def chosen_reasoner(self) -> Reasoner:
        """The requested reasoner, or the default of the profile."""
        return self.reasoner or ("walk" if self.profile == "default" else "similarity")

    @property
    def wants_llm(self) -> bool:
        is_llm = self.reasoner in ("llm", "llm-relevance")
        return self.method == "logic" or (is_llm and self.strategy in ("hop", "decompose"))


GC_AT, FULL_SCAN_AT = "30 3 * * *", "15 4 * * *"
CRON_HINT = (
    'Write a cron expression like "30 3 * * mon-fri": minute, hour, day, month, day of the week.'
)
WHO_HINT = 'Write a list like ["user:ann", "group:team"].'
MEMBERS = "members"  # in `visible_to`: all members of the group
VIEWERS_HINT = f'Write a list like ["user:ann", "group:team"], or ["{MEMBERS}"] for all.'
PERSON = re.compile(r"[A-Za-z0-9][\w.@+-]{0,99}")  # the name of a user or group that has tokens
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:]+)\]|(?P<four>[0-9.]+)):(?P<port>[0-9]{1,5})")


class Section(BaseModel):
    """A table of the configuration. Unknown keys are refused, and values are not converted."""

    # Most commands need only the validator of the whole configuration.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


def to_path(value: object, info: ValidationInfo) -> Path:
    """Expand `~` in a path. A relative path starts from the folder of the configuration file, which
    is `base` in the validation context.
    """
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("the value must be a path, as text in quotes")
    base: Path = (info.context or {}).get("base", Path.cwd())
    try:
        path = base / Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(f"the home folder in the path is unknown ({error})") from error
    return Path(os.path.normpath(path))


def check_usable_folder(path: Path) -> Path:
    """Accept a folder that can be read, or a missing folder.

    A folder is missing if its drive is not mounted. The source then pauses until it is mounted.
    """
    try:
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is not a folder")
        readable = not path.exists() or os.access(path, os.R_OK | os.X_OK)
    except OSError as error:
        raise ValueError(f"{path} cannot be used: {error.strerror}") from error
    if not readable:
        raise ValueError(f"this user may not read {path}")
    return path


def check_model(value: str, info: ValidationInfo) -> str:
    """Accept a model's name, or the absolute path of its folder, which must exist."""
    if not value.startswith(("/", "~", "./", "../")):
        return value
    path = to_path(value, info)
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}")
    return str(path)


AUTO_PROMPT = "auto"  # the prompts are taken from the model's configuration


@dataclass(frozen=True, slots=True)
class EncoderAddress:
    """The address of an encoder behind an OpenAI-compatible API.

    key_env: the environment variable with the API key; empty if the API needs no key.
    """

    base_url: str
    model: str
    key_env: str = ""


_KNOWN_ENDPOINTS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "ollama": ("http://127.0.0.1:11434/v1", ""),
}


def make_encoder_address(encoder: str, url: str, key_env: str = "") -> EncoderAddress | None:
    """Return the endpoint of an encoder, or None for a folder or a model on this machine.

    A URL gets a key only if `encoder_api_key_env` names it.

    >>> make_encoder_address("ollama:nomic-embed-text", "")
    EncoderAddress(base_url='http://127.0.0.1:11434/v1', model='nomic-embed-text', key_env='')
    """
    kind, colon, model = encoder.partition(":")
    if not colon or kind not in _KNOWN_ENDPOINTS:
        return EncoderAddress(url, encoder, key_env) if url else None
    if not model:
        return None
    known_url, known_key_env = _KNOWN_ENDPOINTS[kind]
    if url:
        return EncoderAddress(url, model, key_env)
    return EncoderAddress(known_url, model, key_env or known_key_env)


def check_endpoint(value: str) -> str:
    """Accept the address of an API, or an empty string."""
    if not value:
        return value
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise ValueError("the value is not the address of an API")
    if "@" in parts.netloc:
        raise ValueError(
            "the address contains a user name or a password. Put the key into an environment"
            " variable"
        )
    return value


def check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    Patterns([pattern for pattern in patterns if pattern not in NAMED])
    return patterns


def check_path_pattern(pattern: str) -> str:
    """Accept a gitignore pattern for paths of documents that is not a negation."""
    if not is_pattern(pattern):
        raise ValueError(
            "the value must be a pattern such as `hr/**`. Make exceptions with a later entry"
        )
    Patterns([pattern])
    return pattern


def _allow_empty(check: Callable[[str], object]) -> AfterValidator:
    """Accept an empty string, or a string that `check` accepts."""

    def check_unless_empty(text: str) -> str:
        if text:
            check(text)
        return text

    return AfterValidator(check_unless_empty)


def _check_cron(expression: str) -> None:
    # The defaults are valid, and parsing another expression loads a library.
    if expression not in (GC_AT, FULL_SCAN_AT):
        parse_cron(expression)


def look_up_group_id(name: str) -> int:
    """Return the id of a group on this machine. Raises ValueError."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise ValueError(f"there is no group {name} on this machine") from error


def look_up_user_id(name: str) -> int:
    """Return the id of a user on this machine. Raises ValueError."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise ValueError(f"there is no user {name} on this machine") from error


def _check_viewer(viewer: str) -> str:
    """Accept "user:NAME", "group:NAME", or "members" for all members of the group.

    A user who connects over TCP needs no account on this machine, so the name need not exist.
    """
    kind, _, name = viewer.partition(":")
    if viewer == MEMBERS or (kind in ("user", "group") and PERSON.fullmatch(name)):
        return viewer
    return _check_user_or_group(viewer)


def _check_user_or_group(viewer: str) -> str:
    """Accept a user or a group on this machine, as "user:ann" or "group:team"."""
    kind, _, name = viewer.partition(":")
    if kind not in ("user", "group") or not name:
        raise ValueError('the value must be "user:NAME" or "group:NAME"')
    look_up_user_id(name) if kind == "user" else look_up_group_id(name)
    return viewer


def is_on_this_machine(viewer: str) -> bool:
    """Return whether this machine has the user or group of `user:NAME` or `group:NAME`."""
    try:
        return bool(_check_user_or_group(viewer))
    except ValueError:
        return False


def split_loopback_address(address: str) -> tuple[str, int]:
    """Split a loopback address into host and port. Raises ValueError for other addresses.

    >>> split_loopback_address("[::1]:7717")
    ('::1', 7717)
    """
    host, port = split_address(address)
    if not is_loopback(host):
        raise ValueError(f"{host} is not a loopback address, so other machines could reach it")
    return host, port


def split_address(address: str) -> tuple[str, int]:
    """Split an address into host and port. Raises ValueError."""
    match = _ADDRESS.fullmatch(address)
    if not match or not 1 <= int(match["port"]) <= 65_535:
        raise ValueError("the value must be an address and a port")
    return str(ipaddress.ip_address(match["six"] or match["four"])), int(match["port"])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    return ipaddress.ip_address(host).is_loopback


ConfigPath = Annotated[Path, BeforeValidator(to_path)]
OptionalPath = Annotated[
    ConfigPath | None, Field(description="Write a path in quotes, or leave the line out.")
]
PatternList = Annotated[tuple[str, ...], Field(strict=False), AfterValidator(check_patterns)]
ModelName = Annotated[str, Field(min_length=1), AfterValidator(check_model)]
RequestFields = dict[str, str | int | float | bool]
VariableName = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z_]\w*)?$",
        description="Write the name of an environment variable, not the key itself.",
    ),
]
CronText = Annotated[str, _allow_empty(_check_cron)]
ZoneName = Annotated[str, _allow_empty(find_zone)]
Seconds = Annotated[float, Field(ge=1, allow_inf_nan=False)]
GroupName = Annotated[str, _allow_empty(look_up_group_id)]
LoopbackAddress = Annotated[str, _allow_empty(split_loopback_address)]
Who = Annotated[str, AfterValidator(_check_user_or_group)]
WhoList = Annotated[tuple[Who, ...], Field(strict=False)]
ViewerList = Annotated[
    tuple[Annotated[str, AfterValidator(_check_viewer)], ...], Field(strict=False)
]


def check_database_url(value: str) -> str:
    parts = urlsplit(value)
    if value and parts.scheme not in ("postgresql", "postgres"):
        raise ValueError("the value is not the URL of a PostgreSQL database")
    if parts.password or "password=" in parts.query:
        raise ValueError("the URL contains a password. Use PGPASSWORD or a password file")
    return value


class QueryConfig(Section):
    """The defaults of a query, and the limits of the walk of `hop`."""

    strategy: Strategy = "hop"
    k: int = Field(default=5, ge=1, le=1000)
    hops: int = Field(default=4, ge=1, le=20)
    rerank: bool = False
    heaviest: int = Field(default=100, ge=1)
    mentions: int = Field(default=10, ge=1)
    least_share: float = Field(default=0.001, ge=0, lt=1)


class StoreConfig(Section):
    """The database. An empty `url` means a file in the data_dir."""

    url: Annotated[str, AfterValidator(check_database_url)] = Field(
        default="", description='Write a URL like "postgresql://hopsyncd@db.example.org/notes".'
    )


class WorkersConfig(Section):
    """The Ray cluster that helps to make question sets. An empty address means no cluster."""

    ray: str = Field(
        default="",
        pattern=r"^(auto|ray://[^@/\s]+:\d+)?$",
        description='Write "auto" or an address like "ray://host:10001".',
    )


_DAILY = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def make_daily_cron(times: str) -> str:
    """Convert times to a cron expression. A time of day means that time on each day.

    >>> make_daily_cron("03:05"), make_daily_cron("0 3 * * sun")
    ('5 3 * * *', '0 3 * * sun')
    """
    match = _DAILY.fullmatch(times)
    return f"{int(match[2])} {int(match[1])} * * *" if match else times


def _check_times(times: str) -> None:
    if not _DAILY.fullmatch(times):
        _check_cron(times)


class AuditConfig(Section):
    """Which requests the audit log records, and for how long."""

    enabled: bool = False
    keep_days: int = Field(default=90, ge=1, le=3650)
    questions: bool = False


class BackupConfig(Section):
    """Scheduled backups: their folder, their times, and how many are kept. Without `dir`, no
    backups are made."""

    dir: OptionalPath = None
    at: Annotated[str, _allow_empty(_check_times)] = Field(
        default="02:00", description='Write a time like "02:00", or a cron expression.'
    )
    keep: int = Field(default=7, ge=1, le=1000)

    @property
    def cron(self) -> str:
        return make_daily_cron(self.at)


_MOST_WORKERS = 4  # the limit for "auto", because each worker takes memory


class McpConfig(Section):
    """The rights of agents to write."""

    inbox: OptionalPath = None


class WebConfig(Section):
    """The address of the web interface. If it is empty, the daemon serves no web interface."""

    listen: LoopbackAddress = Field(
        default="", description='Write an address like "127.0.0.1:7718", or leave the value empty.'
    )


class OpenConfig(Section):
    """The editor of `hopsyncd open`. If it is empty, $VISUAL, $EDITOR or the system's program is
    used."""

    editor: str = ""


class FormatsConfig(Section):
    """Whether text in pictures is read, and the languages for tesseract."""

    ocr: Literal["auto", "off"] = "auto"
    ocr_languages: str = Field(
        default="eng",
        pattern=r"^[A-Za-z_]+(\+[A-Za-z_]+)*$",
        description='Write languages like "eng" or "eng+deu".',
    )


def _count_usable_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LimitsConfig(Section):
    """Limits on the work that a daemon accepts. A request beyond a limit gets status 503."""

    connections: int = Field(default=256, ge=1, le=10_000)
    per_user: int = Field(default=32, ge=1, le=10_000)
    parallel: int = Field(default=4, ge=1, le=256)
    workers: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] = "auto"
    queue: int = Field(default=256, ge=0, le=10_000)
    query_s: Seconds = 30.0
    header_s: Seconds = 10.0
    body_s: Seconds = 30.0

    @property
    def worker_count(self) -> int:
        """The number of query workers besides the daemon's own process."""
        if self.workers != "auto":
            return self.workers
        processors = _count_usable_processors()
        return min(processors, _MOST_WORKERS) if processors > 1 else 0
