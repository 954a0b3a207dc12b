"""Adding an `ignore` pattern for one document to the configuration file."""

import tomllib
from pathlib import Path

import pytest

from connectors.ignore import parse_patterns
from hopsyncd.config.edit import ignore_document, make_exact_pattern
from hopsyncd.errors import ConfigError


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(text.replace("HERE", str(tmp_path)))
    return file


def test_a_pattern_is_added_to_the_existing_patterns(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '[[source]]\nname = "a"\npath = "HERE"\nignore = [\n  "*.tmp", # kept\n]\n'
        '[[source]]\nname = "b"  # mine\npath = "HERE/b"\n',
    )
    ignore_document(file, "a", "x.md")
    ignore_document(file, "b", "$y/z.md")
    ignore_document(file, "b", "2.md")
    sources = tomllib.loads(file.read_text())["source"]
    assert sources[0]["ignore"] == ["*.tmp", "/x.md"]
    assert sources[1]["ignore"] == ["/$$y/z.md", "/2.md"]
    assert 'name = "b"  # mine' in file.read_text()


def test_a_source_in_one_line_is_left_to_the_user(tmp_path: Path) -> None:
    file = write(tmp_path, 'source = [{ name = "a", path = "HERE" }]\n')
    before = file.read_text()
    with pytest.raises(ConfigError, match="by hand"):
        ignore_document(file, "a", "x.md")
    with pytest.raises(ConfigError, match="no source"):
        ignore_document(file, "b", "x.md")
    assert file.read_text() == before


@pytest.mark.parametrize("path", ["a/b.md", "[1] b*?.md", "#x", "!y", "a\\b", "end  "])
def test_the_pattern_matches_that_document_alone(path: str) -> None:
    patterns = parse_patterns(make_exact_pattern(path).encode())
    assert patterns.judge(path, is_folder=False)
    for other in (f"c/{path}", f"{path}x", path.replace("*", "z") + "z", path.strip() + "."):
        assert not patterns.judge(other, is_folder=False), other
