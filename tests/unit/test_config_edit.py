"""Adding sources to a configuration file and taking them out, all else kept as it is."""

import sqlite3
import stat
import subprocess
from pathlib import Path

import pytest

from hopsyncd.config import load_config, shipped_text
from hopsyncd.config_edit import add_source, recognised, remove_source
from hopsyncd.errors import ConfigError

TEXT = """# mine
[query]
k = 7  # seven

# the notes
[[source]]
name = "notes"
path = "."  # here
ignore = [
  "a", # [[source]]
  "b",
]

# the others
[[source]]
name = "others"
path = "x"

[watch]
enabled = false
# the end
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "config.toml"
    made.write_text(TEXT)
    made.chmod(0o640)
    return made


def names(file: Path) -> list[str]:
    return [source.name for source in load_config(file).sources]


def test_places_are_recognised(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "bare.git"], check=True)
    subprocess.run(["git", "init", "-q", tmp_path / "tree"], check=True)
    (tmp_path / "x").mkdir()
    assert recognised(str(tmp_path / "tree")) == {"kind": "folder", "path": f"{tmp_path}/tree"}
    assert recognised(f"{tmp_path}/x/../bare.git/")["kind"] == "git"
    for url in ("https://example.org/a.git", "git@example.org:a/b.git", "ssh://git@h/a.git"):
        assert recognised(url) == {"kind": "git", "url": url}
    assert recognised("s3://bucket/folder")["kind"] == "remote"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("/no/such/thing", "no such file or folder"),
        ("https://me:secret@example.org/a.git", "holds a password"),
        ("gopher://example.org", "no kind of source has addresses with gopher://"),
    ],
)
def test_what_is_no_place_of_a_source_is_told(place: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        recognised(place)


def test_a_file_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    with pytest.raises(ConfigError, match="a source is a folder"):
        recognised(str(tmp_path / "a.md"))
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("CREATE TABLE t (a)")
    database.close()
    with pytest.raises(ConfigError, match="which table and columns"):
        recognised(str(tmp_path / "a.db"))


def test_adding_keeps_all_that_is_there(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my $notes"
    folder.mkdir()
    assert add_source(file, recognised(str(folder)), None) == "my -notes"
    assert file.read_text().startswith(TEXT.rstrip())
    assert load_config(file).sources[2].path == folder  # type: ignore[union-attr]
    assert add_source(file, recognised(str(folder)), None) == "my -notes-2"
    assert add_source(file, recognised(str(tmp_path)), "all") == "all"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "my $notes"]


def test_adding_a_name_that_is_taken_changes_nothing(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='another source is named "notes"'):
        add_source(file, recognised(str(tmp_path)), "notes")
    assert file.read_text() == TEXT
    with pytest.raises(ConfigError, match=r"no such file.*init"):
        add_source(tmp_path / "none.toml", recognised(str(tmp_path)), None)


def test_removing_takes_the_lines_of_the_source_and_no_other(file: Path) -> None:
    remove_source(file, "notes")
    assert file.read_text() == TEXT.replace(
        TEXT[TEXT.index("[[source]]") : TEXT.index("# the others")], ""
    ).replace("# the notes\n", "# the notes\n\n")
    assert names(file) == ["others"]
    remove_source(file, "others")
    assert names(file) == []
    assert not load_config(file).watch.enabled
    assert "# the end" in file.read_text()
    with pytest.raises(ConfigError, match=r"no source of that name.*none"):
        remove_source(file, "others")


def test_a_source_with_tables_of_its_own_goes_whole(file: Path) -> None:
    file.write_text(
        'watch.enabled = true\n[[source]]\nname = "b"\nkind = "remote"\nurl = "s3://b/f"\n'
        "[source.options]\nanon = true # x\n"
        '[source.options.client]\nregion = """\n# no comment"""\n'
        "# end\n[query]\nk = 3\n"
    )
    remove_source(file, "b")
    assert file.read_text() == "watch.enabled = true\n# end\n[query]\nk = 3\n"


def test_the_shipped_file_can_be_added_to(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(shipped_text())
    add_source(file, recognised(str(tmp_path)), "notes")
    assert names(file) == ["notes"]
    remove_source(file, "notes")
    assert file.read_text() == shipped_text().rstrip() + "\n"


def test_a_wrong_file_is_told_and_left(file: Path, tmp_path: Path) -> None:
    file.write_text(TEXT.replace("k = 7", "k = 'x'"))
    with pytest.raises(ConfigError, match="whole number"):
        add_source(file, recognised(str(tmp_path)), None)
    with pytest.raises(ConfigError, match="whole number"):
        remove_source(file, "notes")
    file.write_text('source = [{ name = "notes", path = "." }]\n')
    with pytest.raises(ConfigError, match=r"not understood.*by hand"):
        remove_source(file, "notes")
