"""The configuration: reads a TOML file into a typed model, and reports every mistake with its line.

The defaults are in the models. config.toml shows and explains each default, and a test compares the
file with the models.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo

from hopsyncd.config.access import AccessConfig, ClientConfig, OidcConfig
from hopsyncd.config.mistakes import (
    SOURCE_SECTION,
    KeyPath,
    Mistake,
    config_error,
    explain_error,
    format_toml_value,
    syntax_error,
)
from hopsyncd.config.source_kinds import SOURCE_MODELS, SourceConfig
from hopsyncd.config.values import (
    AUTO_PROMPT,
    CRON_HINT,
    FULL_SCAN_AT,
    GC_AT,
    AuditConfig,
    BackupConfig,
    ConfigPath,
    CronText,
    EncoderAddress,
    FormatsConfig,
    LimitsConfig,
    McpConfig,
    ModelName,
    OpenConfig,
    QueryConfig,
    RequestFields,
    Seconds,
    Section,
    StoreConfig,
    VariableName,
    WebConfig,
    WorkersConfig,
    ZoneName,
    check_endpoint,
    check_model,
    make_encoder_address,
)
from hopsyncd.errors import ConfigError

FILE_NAME = "config.toml"
DATABASE_NAME = "hopsyncd.db"  # the file in the data_dir
NEXT_INDEX_NAME = "next-index"  # like INDEX_NAME, for the generation that is being built
INDEX_NAME = "index"  # a folder in the data_dir, derived from the database
TEMPORARY_NAME = "tmp"
_VARIABLE = re.compile(r"\$(?:\$|\{([^}]*)(\}?))")


def find_home() -> Path | None:
    """Return the folder in $HOPSYNCD_HOME, which holds all files of hopsyncd, or None."""
    value = os.environ.get("HOPSYNCD_HOME")
    return Path(value).expanduser().absolute() if value else None


def find_config_path(explicit: Path | None = None) -> Path:
    """Return the path of the configuration file, which may not exist."""
    if explicit is not None:
        return explicit.expanduser().absolute()
    return (find_home() or _find_xdg_folder("XDG_CONFIG_HOME", ".config") / "hopsyncd") / FILE_NAME


def find_default_data_dir() -> Path:
    base = find_home()
    return base / "data" if base else _find_xdg_folder("XDG_DATA_HOME", ".local/share") / "hopsyncd"


def find_default_socket() -> Path:
    """Return the default path of the socket, in /tmp if the user has no runtime folder.

    The owner of the folder is checked before use.
    """
    base = find_home()
    if base is not None:
        # A separate folder, because other users may have access to HOPSYNCD_HOME.
        return base / "run" / "hopsyncd.sock"
    # MCP clients start programs with few variables, without XDG_RUNTIME_DIR.
    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    if _is_own_folder(runtime):
        return Path(runtime) / "hopsyncd" / "hopsyncd.sock"
    return Path(f"/tmp/hopsyncd-{os.getuid()}") / "hopsyncd.sock"


def _is_own_folder(path: str) -> bool:
    """Return whether this user owns the folder.

    After `su`, $XDG_RUNTIME_DIR may belong to another user.
    """
    try:
        return path.startswith("/") and Path(path).stat().st_uid == os.getuid()
    except OSError:
        return False


def _find_xdg_folder(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    # By the XDG specification, a relative path is ignored.
    return Path(value) if value.startswith("/") else Path.home() / fallback


def _require_endpoint(model: str, info: ValidationInfo) -> str:
    """Require `model` and `base_url` together. If base_url is invalid, `info` lacks `base_url`, and
    nothing is required."""
    base_url = info.data.get("base_url")
    if base_url and not model:
        raise ValueError("`base_url` is set, but `model` is not")
    if base_url == "" and model:
        raise ValueError("`model` is set, but `base_url` is not")
    return model


_LEAVE_OUT = "Write a path in quotes, or leave the line out for the default place."


class DaemonConfig(Section):
    data_dir: ConfigPath = Field(default_factory=find_default_data_dir, description=_LEAVE_OUT)
    socket: ConfigPath = Field(default_factory=find_default_socket, description=_LEAVE_OUT)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "console", "json"] = "auto"
    log_file: ConfigPath | None = None


class IndexConfig(Section):
    passage_tokens: int = Field(default=400, ge=20, le=2000)
    edge_budget_factor: float = Field(default=1.0, gt=0, le=100, allow_inf_nan=False)
    batch_documents: int = Field(default=4096, ge=1, le=10_000)


def _require_encoder(url: str, info: ValidationInfo) -> str:
    """Require a model name for an encoder behind an address. If `encoder` is invalid, `info` does
    not contain it.
    """
    encoder = info.data.get("encoder")
    if url and encoder == "default":
        raise ValueError("`encoder_url` is set, but `encoder` does not name a model")
    if encoder and encoder.startswith(("http://", "https://")):
        raise ValueError(
            "`encoder` is an address. Write the address as `encoder_url`, and name the model"
        )
    if encoder and encoder.endswith(":") and make_encoder_address(encoder + "model", ""):
        raise ValueError(f"`encoder` names no model after {encoder}")
    return url


_URL_HINT = (
    'Write an address like "http://127.0.0.1:11434/v1", and the name of the model as `encoder`.'
)


class ModelsConfig(Section):
    encoder: ModelName = "default"
    encoder_url: Annotated[
        str, AfterValidator(check_endpoint), AfterValidator(_require_encoder)
    ] = Field(default="", validate_default=True, description=_URL_HINT)
    encoder_api_key_env: VariableName = ""
    encoder_concurrency: int = Field(default=4, ge=1, le=64)
    encoder_max_tokens_per_day: int = Field(default=100_000_000, ge=0)
    encoder_revision: str = Field(
        default="",
        pattern=r"^[\w.-]{0,40}$",
        description="Write a word or a date, or leave the value empty.",
    )
    encoder_query_fields: RequestFields = Field(default_factory=dict)
    encoder_passage_fields: RequestFields = Field(default_factory=dict)
    query_prompt: str = Field(default=AUTO_PROMPT, max_length=1000)
    passage_prompt: str = Field(default=AUTO_PROMPT, max_length=1000)
    encoder_sha256: str = Field(
        default="",
        pattern="^([0-9a-f]{64})?$",
        description="Write 64 hexadecimal digits, or leave the value empty.",
    )
    language_model: ModelName = "default"
    reranker: Annotated[str, AfterValidator(check_model)] = ""
    reranker_url: Annotated[str, AfterValidator(check_endpoint)] = Field(
        default="", description='Write an address like "https://api.jina.ai/v1", without "/rerank".'
    )
    reranker_api_key_env: VariableName = "RERANKER_API_KEY"
    reranker_max_tokens_per_day: int = Field(default=100_000_000, ge=0)
    threads: int = Field(default=1, ge=1, le=256)
    workers: int = Field(default=3, ge=1, le=256)

    @property
    def tells_roles(self) -> bool:
        """Whether request fields tell the API which texts are questions."""
        return self.encoder_query_fields != self.encoder_passage_fields

    @property
    def encoder_address(self) -> EncoderAddress | None:
        """The endpoint of the encoder, or None if the encoder runs on this machine."""
        return make_encoder_address(self.encoder, self.encoder_url, self.encoder_api_key_env)


class WatchConfig(Section):
    enabled: bool = True
    debounce_ms: int = Field(default=300, ge=0, le=60_000)
    scan_every_s: Seconds = 300.0


class ScheduleConfig(Section):
    """When jobs run. With an empty `gc_at`, gc only runs on request."""

    time_zone: ZoneName = Field(
        default="", description='Write a name like "Europe/Berlin", or leave the value empty.'
    )
    full_scan_at: CronText = Field(default=FULL_SCAN_AT, description=CRON_HINT)
    gc_at: CronText = Field(default=GC_AT, description=CRON_HINT)
    jitter_s: float = Field(default=30.0, ge=0, le=3600, allow_inf_nan=False)


class RetentionConfig(Section):
    keep_versions: int = Field(default=100, ge=1)
    keep_days: float = Field(default=30.0, ge=0, allow_inf_nan=False)


_ENDPOINT = "Write both `base_url` and `model`, or leave both empty to use no LLM."


_MOST_PRICE = 1e6


class LlmConfig(Section):
    """The LLM. If `base_url` is empty, no LLM is used. A limit of 0 means no limit."""

    base_url: Annotated[str, AfterValidator(check_endpoint)] = Field(
        default="", description='Write an address like "http://localhost:11434/v1".'
    )
    model: Annotated[str, AfterValidator(_require_endpoint)] = Field(
        default="", validate_default=True, description=_ENDPOINT
    )
    api_key_env: VariableName = "OPENAI_API_KEY"
    questions: Literal["both", "llm", "statements", "off"] = "off"
    passages_per_call: int = Field(default=4, ge=1, le=20)
    timeout_s: Seconds = 60.0
    tokens_per_question: int = Field(default=2500, ge=1000, le=200_000)
    concurrency: int = Field(default=4, ge=1, le=64)
    max_calls_per_query: int = Field(default=40, ge=0)
    max_tokens_per_sync: int = Field(default=0, ge=0)
    max_calls_per_day: int = Field(default=20_000, ge=0)
    max_tokens_per_day: int = Field(default=2_000_000, ge=0)
    input_price: float = Field(default=0.0, ge=0, le=_MOST_PRICE, allow_inf_nan=False)
    output_price: float = Field(default=0.0, ge=0, le=_MOST_PRICE, allow_inf_nan=False)
    currency: str = Field(default="USD", max_length=12)


class Config(Section):
    """The whole configuration, with absolute paths. `sources` are the file's `[[source]]`."""

    daemon: DaemonConfig = Field(default_factory=DaemonConfig)
    store: StoreConfig = Field(default_factory=StoreConfig)
    index: IndexConfig = Field(default_factory=IndexConfig)
    models: ModelsConfig = Field(default_factory=ModelsConfig)
    workers: WorkersConfig = Field(default_factory=WorkersConfig)
    query: QueryConfig = Field(default_factory=QueryConfig)
    open: OpenConfig = Field(default_factory=OpenConfig)
    formats: FormatsConfig = Field(default_factory=FormatsConfig)
    watch: WatchConfig = Field(default_factory=WatchConfig)
    schedule: ScheduleConfig = Field(default_factory=ScheduleConfig)
    retention: RetentionConfig = Field(default_factory=RetentionConfig)
    backup: BackupConfig = Field(default_factory=BackupConfig)
    audit: AuditConfig = Field(default_factory=AuditConfig)
    llm: LlmConfig = Field(default_factory=LlmConfig)
    access: AccessConfig = Field(default_factory=AccessConfig)
    client: ClientConfig = Field(default_factory=ClientConfig)
    mcp: McpConfig = Field(default_factory=McpConfig)
    web: WebConfig = Field(default_factory=WebConfig)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    sources: tuple[SourceConfig, ...] = Field(default=(), alias="source", strict=False)

    @property
    def database(self) -> Path | str:
        """The path of the database file, or the URL of the database."""
        return self.store.url or self.daemon.data_dir / DATABASE_NAME

    @property
    def is_client_only(self) -> bool:
        """Whether commands contact a server, and nothing is set up for a daemon on this machine."""
        return bool(self.client.server and not self.sources and not self.access.listen)


_MODELS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type)
}
_MODELS["access.oidc"] = OidcConfig
_MODELS |= {SOURCE_SECTION + kind: model for kind, model in SOURCE_MODELS.items()}


def load_config(path: Path | None = None) -> Config:
    """Read and check the configuration at `find_config_path(path)`.

    If there is no file and `path` is None, the result has all defaults and no source. Raises a
    ConfigError that lists every mistake in the file.
    """
    file = find_config_path(path)
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError as error:
        if path is None:
            return Config()
        raise ConfigError(
            f"Cannot read {file}", "there is no such file", "`hopsyncd init` writes the file."
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{file}:{line}", "the line is not UTF-8", "Save the file as UTF-8."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"Cannot read {file}",
            str(error.strerror).lower(),
            "Check the path and the permissions.",
        ) from error
    return check_config(file, text)


def find_former_keys(file: Path) -> dict[str, str]:
    """Map the former names of keys in the file to their current names.

    Returns an empty mapping if the file cannot be read.
    """
    try:
        access = tomllib.loads(file.read_text("utf-8")).get("access")
    except (OSError, ValueError, RecursionError):
        return {}
    return {"access.tcp": "access.listen"} if isinstance(access, dict) and "tcp" in access else {}


def read_daemon_socket(path: Path | None = None) -> tuple[Path, ConfigError | None]:
    """Read the path of the daemon's socket, even if other parts of the configuration have mistakes.

    Also returns the error for these mistakes, or None. Raises ConfigError if the path cannot be
    read.
    """
    try:
        return load_config(path).daemon.socket, None
    except ConfigError as error:
        file, mistakes = find_config_path(path), list[Mistake]()
        try:
            raw = tomllib.loads(file.read_text("utf-8")).get("daemon", {})
            expanded = _expand(raw, (), mistakes)
            daemon = DaemonConfig.model_validate(expanded, context={"base": file.parent})
        except (OSError, ValueError, RecursionError):
            raise error from None
        if mistakes:
            raise
        return daemon.socket, error


def write_config(path: Path, folders: Sequence[Path]) -> None:
    """Write the commented default with a `[[source]]` for each folder. Only the owner can read it.

    Raises ConfigError, and writes nothing, if the file exists or a folder does not.
    """
    text = read_shipped_text() + "".join(_format_source_blocks(folders))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(
            f"Cannot write {path}",
            "the file already exists",
            "Add sources with `hopsyncd add`, edit the file, or move the file away.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"Cannot write {path}",
            str(error.strerror).lower(),
            "Choose another path with --config.",
        ) from error


def read_shipped_text() -> str:
    """Return the default config.toml, from the installed package or the top of a checkout."""
    package = Path(__file__).parents[1]
    inside = package / FILE_NAME
    return (inside if inside.exists() else package.parent / FILE_NAME).read_text(encoding="utf-8")


def _format_source_blocks(folders: Sequence[Path]) -> Iterator[str]:
    names: set[str] = set()
    for folder in dict.fromkeys(folder.expanduser().absolute() for folder in folders):
        path = Path(os.path.normpath(folder))
        if not path.is_dir():
            raise ConfigError(
                f"Cannot add the folder {path}", "there is no such folder", "Check the spelling."
            )
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"Cannot add the folder {path!r}", "the name is not UTF-8", "Rename the folder."
            ) from error
        name = choose_free_name(path.name, names)
        names.add(name)
        quoted = format_toml_value(str(path).replace("$", "$$"))
        yield f"\n[[source]]\nname = {format_toml_value(name)}\npath = {quoted}\n"


def choose_free_name(preferred_name: str, used_names: set[str]) -> str:
    """Return a valid source name that is close to `preferred_name` and not in `used_names`."""
    base = re.sub(r"[^\w. -]", "-", preferred_name).lstrip(". -")[:60] or "folder"
    names = (
        base if number == 1 else f"{base}-{number}" for number in range(1, len(used_names) + 2)
    )
    return next(name for name in names if name not in used_names)


def check_config(file: Path, text: str) -> Config:
    """Parse the text of a configuration file. Raises ConfigError."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long, or nesting too deep
        raise syntax_error(file, text, error) from error
    mistakes: list[Mistake] = []
    expanded = _expand(raw, (), mistakes)
    mistakes.extend(_find_duplicate_names(raw))
    try:
        config = Config.model_validate(expanded, context={"base": file.parent})
    except ValidationError as error:
        errors = error.errors(include_url=False)
        known_paths = {mistake.key_path for mistake in mistakes}
        mistakes.extend(
            m for e in errors if (m := explain_error(e, _MODELS)).key_path not in known_paths
        )
    if mistakes:
        raise config_error(file, text, mistakes, _MODELS)
    return config


def _expand(value: Any, path: KeyPath, mistakes: list[Mistake]) -> Any:
    """Replace `${NAME}` and `$$` in every string of the value. Returns a copy."""
    if isinstance(value, dict):
        return {key: _expand(below, (*path, key), mistakes) for key, below in value.items()}
    if isinstance(value, list):
        return [_expand(below, (*path, index), mistakes) for index, below in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace_variable(match: re.Match[str]) -> str:
        name, closed = match.groups()
        if name is None:
            return "$"
        if closed and name in os.environ:
            return os.environ[name]
        why = f"the environment variable {name} is not set" if closed else "a `${` is not closed"
        mistakes.append(Mistake(path, why, "Set the variable, or write $$ for a plain $."))
        return match.group()

    return _VARIABLE.sub(replace_variable, value)


def _find_duplicate_names(raw: dict[str, Any]) -> Iterator[Mistake]:
    sources = raw.get("source")
    names: set[str] = set()
    for index, source in enumerate(sources if isinstance(sources, list) else []):
        name = source.get("name") if isinstance(source, dict) else None
        if isinstance(name, str) and name in names:
            why = f'another source is already named "{name}"'
            yield Mistake(("source", index, "name"), why, "Give each source its own name.")
        elif isinstance(name, str):
            names.add(name)
