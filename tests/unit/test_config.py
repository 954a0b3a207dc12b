"""The configuration: defaults, places, expansion, and mistakes told with line and suggestion."""

import os
import re
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopsyncd.config.access import OidcConfig
from hopsyncd.config.configuration import (
    Config,
    find_config_path,
    load_config,
    read_daemon_socket,
    read_shipped_text,
    write_config,
)
from hopsyncd.config.mistakes import map_key_lines
from hopsyncd.config.source_kinds import SOURCE_MODELS, FolderSource, list_known_kinds
from hopsyncd.errors import ConfigError


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOPSYNCD_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def load(tmp_path: Path, text: str) -> Config:
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    return load_config(tmp_path / "c.toml")


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.what and caught.value.why and caught.value.hint
    return str(caught.value)


def source(**keys: str) -> str:
    given_keys = {"name": '"notes"', "path": '"."'} | keys
    return "[[source]]\n" + "".join(f"{key} = {value}\n" for key, value in given_keys.items())


def folder_source(found: object) -> FolderSource:
    assert isinstance(found, FolderSource)
    return found


def test_the_shipped_file_is_the_default_and_explains_every_key() -> None:
    text = read_shipped_text()
    assert Config.model_validate(tomllib.loads(text)) == Config()
    live = re.sub(r"(?m)^# ?(# \w|\[\[source|\[access\.oidc|\w+ = )", r"\1", text)
    tables = tomllib.loads(live)
    models = {name: type(getattr(Config(), name)) for name in tables if name != "source"}
    assert models.keys() | {"sources"} == Config.model_fields.keys()
    assert all(tables[name].keys() == model.model_fields.keys() for name, model in models.items())
    assert tables["access"]["oidc"].keys() == OidcConfig.model_fields.keys()
    assert tables["source"][0].keys() == FolderSource.model_fields.keys()
    example = FolderSource.model_validate(tables["source"][0])
    defaults = FolderSource.model_validate({"name": "notes", "path": "~/notes"})
    assert example == defaults.model_copy(update={"scan_every_s": 300.0})
    assert sorted(table["kind"] for table in tables["source"]) == list_known_kinds()
    for table in tables["source"][1:]:
        model = SOURCE_MODELS[table["kind"]]
        model.model_validate(table)
        shown = set(re.findall(r"(?m)^# (?:# )?(\w+) = ", text))
        assert model.model_fields.keys() <= shown


def test_without_a_file_all_defaults_hold() -> None:
    assert load_config() == Config()
    assert load_config().sources == ()


def test_default_folders_follow_the_xdg_variables(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_config_path() == own_home / ".config/hopsyncd/config.toml"
    assert load_config().daemon.data_dir == own_home / ".local/share/hopsyncd"
    given, shared = Path(f"/run/user/{os.getuid()}"), Path(f"/tmp/hopsyncd-{os.getuid()}")
    folder = given / "hopsyncd" if given.is_dir() else shared
    assert load_config().daemon.socket == folder / "hopsyncd.sock"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime := own_home.parent))
    assert find_config_path() == Path("/c/hopsyncd/config.toml")
    assert load_config().daemon.data_dir == own_home / ".local/share/hopsyncd"
    assert load_config().daemon.socket == runtime / "hopsyncd/hopsyncd.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/that/is/not/there")
    assert load_config().daemon.socket == shared / "hopsyncd.sock"


def test_hopsyncd_home_contains_all_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path / "h"))
    assert find_config_path() == tmp_path / "h/config.toml"
    assert load_config().daemon.data_dir == tmp_path / "h/data"
    assert load_config().daemon.socket == tmp_path / "h/run/hopsyncd.sock"
    assert find_config_path(Path("x.toml")) == Path.cwd() / "x.toml"


def test_values_paths_and_variables_are_read_from_the_file(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", "elsewhere")
    text = '[daemon]\ndata_dir = "~/data"\nsocket = "run/s.sock"\n[query]\nk = 7\n'
    text += "[watch]\nscan_every_s = 60\n" + source(
        path='"${WHERE}/notes"', ignore='["a$$b", "*.x"]'
    )
    config = load(tmp_path, text)
    assert config.daemon.data_dir == own_home / "data"
    assert config.daemon.socket == tmp_path / "run/s.sock"
    assert (config.query.k, config.watch.scan_every_s) == (7, 60.0)
    assert folder_source(config.sources[0]).path == tmp_path / "elsewhere/notes"
    assert folder_source(config.sources[0]).ignore == ("a$b", "*.x")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("\n[daemon]\nlog_levl = 'info'", [":3:", "`log_levl` in [daemon]", "`log_level`?"]),
        ("[wach]\na = 1", [":1:", "`wach`", "`watch`?"]),
        ("[query]\ndebounce_ms = 1", [":2:", "belongs in [watch]"]),
        ("[query]\nzzz = 1", ["Known keys: strategy, k, hops"]),
        ("[query]\nk = '5'", [":2:", "must be an integer", '"5"', "k = 5"]),
        ("[query]\nk = 0", [":2:", "greater than or equal to 1"]),
        ("[query]\nstrategy = 'hopp'", ['Did you mean "hop"?']),
        ("[watch]\nenabled = 1", ["true or false"]),
        ("[watch]\nscan_every_s = inf", ["finite"]),
        ("watch = 3", [":1:", "must be a table"]),
        ("[source]\nname = 'a'", ["two brackets"]),
        ("[[source]]\nname = 'a'", [":1:", "`path` in [[source]] number 1", "missing"]),
        (source(path="3"), [":3:", "as text in quotes"]),
        (source(path="'c.toml'"), [":3:", "is not a folder"]),
        (source(path="'${NOT_SET_AT_ALL}/x'"), [":3:", "NOT_SET_AT_ALL is not set", "$$"]),
        (source(path="'${OPEN'"), [":3:", "not closed"]),
        (source(name="'a/b'"), [":2:", "letters, digits"]),
        (source(ignore="'*.x'"), [":4:", "a list"]),
        (source(ignore="['!']"), [":4:", "`!` is not a gitignore pattern"]),
        (source(include="[]"), [":4:", "empty"]),
        (source(ignroe="[]"), [":4:", "Did you mean `ignore`?"]),
        (source(kind="'foldr'"), [":4:", "unknown kind", 'Did you mean "folder"?']),
        (source(kind="'ftp'"), [":4:", "Use one of folder", "sqlite"]),
        (source(kind="7"), [":4:", "unknown kind 7"]),
        (source(kind="'folder'", table="'t'"), ['[[source]] of kind "sqlite"']),
        (source(kind="'sqlite'", key="'id'"), ["`text` in [[source]] number 1", "in a list"]),
        (source(kind="'sqlite'", key="'id'", text="['b']"), ["neither `table` nor `query`"]),
        ("source = [3]", [":1:", "must be a table"]),
        (source() + source(), [":5:", 'another source is already named "notes"']),
        ("[models]\nencoder = './nowhere'", [":2:", "there is no folder", "nowhere"]),
        ("[models]\nencoder_sha256 = 'abc'", [":2:", "64 hexadecimal"]),
        ("[llm]\nmodel = 'm'", [":2:", "`base_url` is not", "or leave both empty"]),
        ("[llm]\nbase_url = 'http://localhost/v1'", ["`model` in [llm]", "but `model` is not"]),
        ("[llm]\nbase_url = 'localhost:80'\nmodel = 'm'", [":2:", "not the address", "http://"]),
        ("[llm]\nbase_url = 'http://a:b@c/v1'\nmodel = 'm'", [":2:", "environment variable"]),
        ("[llm]\napi_key_env = 'sk-123'", [":2:", "not the key itself"]),
        ("[llm]\nquestions = 'bth'", ['Did you mean "both"?']),
        ("[web]\nlisten = '0.0.0.0:7718'", [":2:", "other machines", '"127.0.0.1:7718"']),
        ("[web]\nlisten = '7718'", [":2:", "an address and a port", '"127.0.0.1:7718"']),
        ("[web]\nlisen = '127.0.0.1:7718'", [":2:", "Did you mean `listen`?"]),
        ("[query]\nk = five", [":2:5:", "not TOML"]),
        ("[query]\nx = [1,\n", ["not TOML"]),
        (
            "[[source]]\nname='a'\n[[source]]\nx='''\n[[source]]\n'''\nz=[ # ]\n'[', ]\nnam='b'",
            [":9:"],
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_a_suggestion(
    tmp_path: Path, text: str, parts: list[str]
) -> None:
    told = refusal(tmp_path, text)
    assert [part for part in [str(tmp_path / "c.toml"), *parts] if part not in told] == []


def test_all_mistakes_are_reported_at_once_in_order(tmp_path: Path) -> None:
    told = refusal(tmp_path, "[query]\nk = 'x'\n[daemon]\nlog = 1\n" + source(name="'${NO_SUCH}'"))
    assert re.findall(r"c\.toml:(\d+):", told) == ["2", "4", "6"]
    assert "3 mistakes" in told


def test_a_configuration_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match="is a directory"):
        load_config(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"# ok\n# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.toml:2.*UTF-8"):
        load_config(tmp_path / "latin.toml")


def test_the_socket_is_known_even_if_the_configuration_is_invalid(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[daemon]\nsocket = "here.sock"\n[query]\nkk = 3\n')
    socket, error = read_daemon_socket(file)
    assert socket == tmp_path / "here.sock"
    assert "unknown key" in str(error)
    file.write_text('[daemon]\nsocket = "here.sock"\n')
    assert read_daemon_socket(file) == (socket, None)
    for text in (
        "[daemon]\nsocket = 3\n",
        '[daemon]\nsocket = "${NO_SUCH}/x"\n',
        "daemon = 3",
        "[",
    ):
        file.write_text(text)
        with pytest.raises(ConfigError):
            read_daemon_socket(file)


def test_a_missing_source_folder_is_no_mistake(tmp_path: Path) -> None:
    config = load(tmp_path, source(path="'unmounted'"))
    assert folder_source(config.sources[0]).path == tmp_path / "unmounted"


def test_write_config_writes_a_loadable_file(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("notes", "x/notes", 'odd "\\ $HOME ${X} ü\t😀\x7f')]
    for folder in folders:
        folder.mkdir(parents=True)
    file = tmp_path / "new/config.toml"
    write_config(file, [*folders, folders[0]])
    config = load_config(file)
    assert [folder_source(found).path for found in config.sources] == folders
    assert [found.name for found in config.sources][:2] == ["notes", "notes-2"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    with pytest.raises(ConfigError, match="already exists"):
        write_config(file, [])
    with pytest.raises(ConfigError, match="no such folder"):
        write_config(tmp_path / "other.toml", [tmp_path / "nowhere"])
    assert not (tmp_path / "other.toml").exists()


def test_write_config_without_folders_loads(tmp_path: Path) -> None:
    write_config(tmp_path / "config.toml", [])
    assert load_config(tmp_path / "config.toml") == Config()


KEYS = st.sampled_from(["a", "b-c", '"d.e"', "'f g'", "h.i"])
VALUES = st.sampled_from(
    [
        *(
            "1",
            '"x # = ["',
            "'[]'",
            '"""\n[a]\nb = 1\n"""',
            "'''\n''x''\n'''",
            "[\n1, # ]\n[2],\n]",
        ),
        *("{ x = 1, y = '}' }", "1979-05-27T07:32:00Z", '"\\"\\\\"', '""""quoted""""'),
    ]
)
LINES = st.lists(st.tuples(KEYS, VALUES), unique_by=lambda pair: pair[0], max_size=5)
TABLES = st.lists(st.tuples(st.sampled_from(["[[s]]", "[[s.t]]", "# comment", ""]), LINES))


@given(top=LINES, tables=TABLES)
def test_key_lines_returns_the_line_of_every_key(
    top: list[tuple[str, str]], tables: list[tuple[str, list[tuple[str, str]]]]
) -> None:
    """Each key of what tomllib reads has a line, and that line starts with the key."""
    text = "".join(f"{key} = {value}\n" for key, value in top) + "[[s]]\n"
    for number, (header, lines) in enumerate(tables):
        text += f"{header}\n" if header.startswith("[") else f"{header}\n[t{number}]\n"
        text += "".join(f"  {key} = {value} # end\n" for key, value in lines)
    found = map_key_lines(text)
    written = text.split("\n")
    tomllib.loads(text)
    for path, line in found.items():
        last = str(path[-1]) if isinstance(path[-1], str) else str(path[-2])
        assert last in written[line - 1]
    keys = sum(len(lines) for _, lines in [("", top), *tables])
    headers = 1 + sum(1 for header, _ in tables)
    assert len(found) == keys + headers
