"""Adding sources to a configuration file and taking them out, all else kept as it is."""

import stat
from pathlib import Path

import pytest

from hopsyncd.config.configuration import load_config, read_shipped_text
from hopsyncd.config.edit import add_source, remove_source
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


def folder(path: Path) -> dict[str, str]:
    return {"kind": "folder", "path": str(path)}


def test_adding_a_source_keeps_the_existing_configuration(file: Path, tmp_path: Path) -> None:
    notes = tmp_path / "my $notes"
    notes.mkdir()
    assert add_source(file, folder(notes), None)[0] == "my -notes"
    assert file.read_text().startswith(TEXT.rstrip())
    assert load_config(file).sources[2].path == notes  # type: ignore[union-attr]
    assert add_source(file, folder(tmp_path / "x" / notes.name), None)[0] == "my -notes-2"
    assert add_source(file, folder(tmp_path), "all")[0] == "all"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml", "my $notes"]


def test_a_repository_is_named_after_its_folder(file: Path, tmp_path: Path) -> None:
    for place in ("code/.git", "bare/tools.git"):
        (tmp_path / place).mkdir(parents=True)
    chosen = [
        add_source(file, {"kind": "git", "path": str(tmp_path / place)}, None)[0]
        for place in ("code/.git", "bare/tools.git")
    ]
    assert chosen == ["code", "tools"]


def test_a_place_is_added_once_unless_it_gets_another_name(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the source 'others' already has this path"):
        add_source(file, folder(tmp_path / "x"), None)
    assert file.read_text() == TEXT
    add_source(file, folder(tmp_path / "x"), "again")
    assert names(file) == ["notes", "others", "again"]


def test_adding_a_name_that_is_taken_changes_nothing(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='another source is already named "notes"'):
        add_source(file, folder(tmp_path), "notes")
    assert file.read_text() == TEXT
    with pytest.raises(ConfigError, match=r"no such file.*init"):
        add_source(tmp_path / "none.toml", folder(tmp_path), None)


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
    file.write_text(read_shipped_text())
    add_source(file, folder(tmp_path), "notes")
    assert names(file) == ["notes"]
    remove_source(file, "notes")
    assert file.read_text() == read_shipped_text().rstrip() + "\n"


def test_an_invalid_file_is_reported_and_not_changed(file: Path, tmp_path: Path) -> None:
    file.write_text(TEXT.replace("k = 7", "k = 'x'"))
    with pytest.raises(ConfigError, match="must be an integer"):
        add_source(file, folder(tmp_path), None)
    with pytest.raises(ConfigError, match="must be an integer"):
        remove_source(file, "notes")
    file.write_text('source = [{ name = "notes", path = "." }]\n')
    with pytest.raises(ConfigError, match=r"are mixed with other keys.*by hand"):
        remove_source(file, "notes")
