"""Which names are listed: strange ones, secrets, ignored ones, and git's own opinion on those."""

import os
import subprocess
from pathlib import Path

import pytest

from connectors.folder import FolderConnector, widen_changed_ids
from connectors.ignore import NOISE, SECRETS
from connectors.media_type import guess_media_type, is_script_name, is_text_name
from connectors.protocol import Item, Problem
from connectors.settings import MAX_TABLE_BYTES, FileSettings


def write(root: Path, *ids: str, text: str = "text") -> None:
    for id_ in ids:
        path = root / id_
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def listed(connector: FolderConnector, under: list[str] | None = None) -> list[str]:
    return sorted(found.id for found in connector.discover(None, under) if isinstance(found, Item))


def test_a_newline_and_other_control_characters_in_a_name(tmp_path: Path) -> None:
    name = "two\nlines\t\x1b[0m.md"
    write(tmp_path, name, f"folder\n/{name}")
    connector = FolderConnector(tmp_path)
    assert listed(connector) == sorted([name, f"folder\n/{name}"])
    assert all(
        connector.fetch(item).data == b"text"
        for item in connector.discover(None)
        if isinstance(item, Item)
    )
    assert listed(connector, [f"folder\n/{name}"]) == [f"folder\n/{name}"]


def test_patterns_hold_in_names_with_newlines(tmp_path: Path) -> None:
    write(tmp_path, "x\ny/private/a.md", "x\ny/b.md", "x\ny/.env", "c.md\n.md", "d.md\n")
    assert listed(FolderConnector(tmp_path, FileSettings(deny=("private/",), ignore=("c*",)))) == [
        "x\ny/b.md"
    ]


def test_files_named_like_secrets_are_listed_if_not_secret_names_them(tmp_path: Path) -> None:
    write(tmp_path, "token-ring.txt", "notes/passwords.md", "secrets/a.md", "secrets/token.txt")
    write(tmp_path, "token.txt", "denied-token.txt")
    settings = FileSettings(
        not_secret=("token-ring.txt", "/notes/passwords.md", "secrets/", "denied-token.txt"),
        deny=("denied-*",),
    )
    connector = FolderConnector(tmp_path, settings)
    assert listed(connector) == ["notes/passwords.md", "secrets/a.md", "token-ring.txt"]
    assert not connector.is_noise("token-ring.txt")


def test_ordinary_names_are_not_taken_for_secrets(tmp_path: Path) -> None:
    names = ["environment.md", "keynote.md", "pemberton.md", "private.md", "tokens-and-types.md"]
    names += ["recovery.md", "monkey.md", "wallets.md", "credentials-in-hiring.md", "history.md"]
    write(tmp_path, *names)
    assert listed(FolderConnector(tmp_path)) == sorted(names)


def test_names_that_are_not_utf8_are_problems_with_storable_ids(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).write_text("x")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff"))
    folder.mkdir()
    write(folder, "inside.md")
    write(tmp_path, "good.md")
    found = {entry.id: entry for entry in FolderConnector(tmp_path).discover(None)}
    assert found.keys() == {"caf\\xe9.md", "d\\xff", "good.md"}
    problem = found["d\\xff"]
    assert isinstance(problem, Problem)
    assert problem.subtree
    assert "UTF-8" in problem.why


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", "prod.env", "server.pem", "tls.key", "id_rsa", "ID_RSA.pub"),
        *(".netrc", ".npmrc", "secrets.md", "Secrets.TXT", ".ssh/config.md", ".aws/credentials"),
        *(".gnupg/notes.txt", "keyrings/login.txt", "a/b/.env", "x.kdbx", ".bash_history"),
        *("privkey.txt", "privkey1.pem.md", ".netrc.md", "token.txt", "github-token-2.txt"),
        *("server.pem.txt", "tls.key.bak", ".pgpass.txt", "x.kdbx.md", "vpn.ovpn.txt", ".env-old"),
        *("my-service-account-1.json", "aws_credentials.csv", "id_ed25519.md", "wallet.dat"),
        *("github-recovery-codes.txt", "openai_api_key.txt", "seed phrase.md", ".secret.md"),
    ],
)
def test_secrets_are_never_listed_whatever_brings_them_back(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, "note.md")
    write(tmp_path, ".hopsyncdignore", text="!*\n")
    settings = FileSettings(include=("*",), ignore=("!*",), deny=("!*",))
    connector = FolderConnector(tmp_path, settings)
    assert listed(connector) == [".hopsyncdignore", "note.md"]
    assert connector.is_noise(name)
    opened = FolderConnector(
        tmp_path, FileSettings(include=("*",), ignore=("!*",), index_secrets=True)
    )
    assert name in listed(opened)


def test_deny_extends_the_secrets_and_outranks_ignore(tmp_path: Path) -> None:
    write(tmp_path, "diary/a.md", "b.md")
    assert listed(FolderConnector(tmp_path, FileSettings(ignore=("!*",), deny=("diary/",)))) == [
        "b.md"
    ]


def test_noise_is_hidden_until_an_own_pattern_brings_it_back(tmp_path: Path) -> None:
    write(tmp_path, "build/a.md", "node_modules/b/c.md", "~$d.md", ".#e.md", "f.md~", "g.md")
    write(tmp_path, ".gitignore", text="!build/\n")
    assert listed(FolderConnector(tmp_path)) == ["g.md"]
    write(tmp_path, ".hopsyncdignore", text="!build/\n")
    assert listed(FolderConnector(tmp_path)) == ["build/a.md", "g.md"]
    assert listed(FolderConnector(tmp_path, FileSettings(ignore=("build",)))) == ["g.md"]
    assert not FolderConnector(tmp_path, FileSettings(ignore=("!build/",))).is_noise("build/a.md")


def test_version_control_folders_stay_hidden(tmp_path: Path) -> None:
    write(tmp_path, ".git/a.md", "b.md")
    assert listed(FolderConnector(tmp_path, FileSettings(ignore=("!*",), index_secrets=True))) == [
        "b.md"
    ]


def test_the_daemons_own_data_is_never_listed(tmp_path: Path) -> None:
    write(tmp_path, "data/a.md", "b.md")
    (tmp_path / "link").symlink_to("data")
    connector = FolderConnector(tmp_path, FileSettings(ignore=("!*",)), never=[tmp_path / "link"])
    assert listed(connector) == ["b.md"]
    assert listed(connector, ["data/a.md"]) == []
    assert connector.is_noise("data/a.md")


def test_only_files_that_match_include_patterns_are_listed(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.py", "docs/c.md", "d.csv", "e.png")
    assert listed(FolderConnector(tmp_path)) == ["a.md", "b.py", "d.csv", "docs/c.md"]
    assert listed(FolderConnector(tmp_path, FileSettings(include=("docs/**/*.md",)))) == [
        "docs/c.md"
    ]
    with_csv = FolderConnector(tmp_path, FileSettings(include=("@text", "*.csv", "!*.py")))
    assert listed(with_csv) == ["a.md", "d.csv", "docs/c.md"]


@pytest.mark.parametrize(
    "lists", [{"ignore": ["!"]}, {"include": ["[z-a]"]}, {"deny": ["a", "\\"]}]
)
def test_an_invalid_ignore_pattern_is_refused(tmp_path: Path, lists: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="not a gitignore pattern"):
        FolderConnector(tmp_path, FileSettings(**lists))  # type: ignore[arg-type]


GIT_CASES = {
    "nested": {
        ".gitignore": "*.txt\n/only-here.md\nlogs/\n!keep.txt\n",
        "a/.gitignore": "!*.txt\nkeep.txt\n/x.md\n",
        "a/b/.gitignore": "\ufeff*.md\n\n# comment\n\\#odd.md\n!y.md\n",
    },
    "whitelist": {".gitignore": "*\n!*/\n!*.md\n", "a/.gitignore": "b/\n"},
    "no way back into a hidden folder": {".gitignore": "a/\n!a/b/x.md\n!x.md\n"},
    "bad lines are skipped": {".gitignore": "!\n[z-a]\n\\\na/b/**\n", "a/.gitignore": "**/x.md\n"},
    "anchored and middle": {".gitignore": "a/x.md\n**/b/y.md\na/**/z.txt\n", "a/.gitignore": "/b"},
}
FILES = [
    f"{folder}{name}"
    for folder in ("", "a/", "a/b/", "a/b/c/", "logs/", "a/logs/")
    for name in ("x.md", "y.md", "z.txt", "keep.txt", "only-here.md", "#odd.md")
]


@pytest.mark.parametrize("case", GIT_CASES)
def test_gitignore_files_mean_what_they_mean_to_git(tmp_path: Path, case: str) -> None:
    write(tmp_path, *FILES)
    for name, text in GIT_CASES[case].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    try:
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
    except FileNotFoundError:
        pytest.skip("the git program is not installed, so its opinion cannot be asked")
    options = ["-z", "--others", "--exclude-per-directory", ".gitignore"]
    command: list[str | Path] = ["git", "-C", tmp_path, "ls-files", *options]
    output = subprocess.run(command, check=True, capture_output=True).stdout
    theirs = {name for name in output.decode().split("\0") if name.endswith((".md", ".txt"))}
    assert set(listed(FolderConnector(tmp_path))) == theirs


def test_an_ignore_file_that_is_a_link_or_a_pipe_is_no_ignore_file(tmp_path: Path) -> None:
    write(tmp_path, "a/x.md", "b/x.md", "patterns")
    (tmp_path / "patterns").write_text("*.md")
    (tmp_path / "a/.gitignore").symlink_to("../patterns")
    os.mkfifo(tmp_path / "b/.hopsyncdignore")
    assert listed(FolderConnector(tmp_path)) == ["a/x.md", "b/x.md"]


def test_a_changed_ignore_file_concerns_its_folder() -> None:
    assert widen_changed_ids(["a/.gitignore", "b/c.md"]) == ["a", "b/c.md"]
    assert widen_changed_ids(["b/c.md", ".hopsyncdignore"]) is None


def test_each_file_has_the_media_type_of_its_suffix() -> None:
    types = {
        name: guess_media_type(name) for name in ("a/B.MD", "x.htm", "README", "Makefile", "s.rs")
    }
    assert list(types.values()) == [
        "text/markdown",
        "text/html",
        "text/plain",
        "text/x-source",
        "text/x-source",
    ]
    assert guess_media_type("a.py") == "text/x-python"
    assert guess_media_type("strange.xyz") == "text/plain"
    assert all(map(is_script_name, ("theme.css", "plugin/main.js", "a.MJS")))
    assert guess_media_type("theme.css") == "text/x-source"
    assert not any(
        map(is_text_name, ("theme.css", "main.js", "a.png", "strange.xyz", ".md", "data.json", ""))
    )


def test_built_in_patterns_use_only_name_globs() -> None:
    assert not [glob for glob in SECRETS + NOISE if "/" in glob.rstrip("/") or glob[0] == "!"]


def test_folders_of_note_programs_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        *(".trash/gone.md", ".obsidian/plugins/x.md", ".logseq/bak/a.md", "logseq/bak/a.md"),
        *("logseq/.recycle/b.md", "pages/c.md"),
    )
    assert listed(FolderConnector(tmp_path)) == ["pages/c.md"]
    back = FolderConnector(tmp_path, FileSettings(ignore=("!.trash/",)))
    assert listed(back) == [".trash/gone.md", "pages/c.md"]


def test_hidden_folders_are_left_out_and_counted_until_a_pattern_names_them(
    tmp_path: Path,
) -> None:
    write(tmp_path, ".hidden/a.md", ".github/b.md", ".github/c.yml", "sub/.notes/d.md", "e.md")
    write(tmp_path, ".venv/f.md", ".ssh/g.md", ".git/h.md", ".plan.md", ".hidden/.more/i.md")
    plain = FolderConnector(tmp_path)
    assert listed(plain) == [".plan.md", "e.md"]
    assert plain.left_out["hidden folders"] == 3
    assert plain.is_noise(".hidden/a.md")
    assert not plain.is_noise(".plan.md")
    named = FolderConnector(tmp_path, FileSettings(include=("@text", ".github/**", "!.hidden/")))
    assert listed(named) == [".github/b.md", ".github/c.yml", ".plan.md", "e.md"]
    assert named.left_out["hidden folders"] == 2
    assert listed(FolderConnector(tmp_path, FileSettings(include=("sub/.n*/*.md",)))) == [
        "sub/.notes/d.md"
    ]
    ignoring = FolderConnector(tmp_path, FileSettings(ignore=("!.github/", ".hidden/")))
    assert listed(ignoring) == [".github/b.md", ".plan.md", "e.md"]
    assert ignoring.left_out == {"hidden folders": 1, ".yml": 1, "secret: folders": 1}
    write(tmp_path, ".hopsyncdignore", text="!.notes/\n")
    assert listed(plain) == [".plan.md", "e.md", "sub/.notes/d.md"]


def test_own_data_in_a_hidden_folder_is_noise(tmp_path: Path) -> None:
    write(tmp_path, ".data/a.md", "b.md")
    connector = FolderConnector(tmp_path, never=(tmp_path / ".data",))
    assert connector.is_noise(".data") and connector.is_noise(".data/a.md")
    assert listed(connector) == ["b.md"]


def test_a_large_table_is_a_problem_unless_a_pattern_names_it(tmp_path: Path) -> None:
    for name in ("large.csv", "large.tsv"):
        (tmp_path / name).write_bytes(b"1,2\n" * (MAX_TABLE_BYTES // 4 + 1))
    write(tmp_path, "small.csv")
    found = {item.id: item for item in FolderConnector(tmp_path).discover(None)}
    assert isinstance(found["small.csv"], Item)
    problem = found["large.csv"]
    assert isinstance(problem, Problem)
    assert "table" in problem.why and '"*.csv"' in problem.hint
    settings = FileSettings(include=("@text", "@tables", "*.csv"))
    found = {item.id: item for item in FolderConnector(tmp_path, settings).discover(None)}
    assert isinstance(found["large.csv"], Item) and isinstance(found["large.tsv"], Problem)
