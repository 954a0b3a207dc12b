"""The real git on real repositories: what is listed, what a change costs, what is refused."""

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from subprocess import run

import pytest

from connectors.errors import CursorExpired, ItemUnreadable, ItemVanished, SourceUnavailable
from connectors.git import GitConnector, GitSettings
from connectors.git_mirror import Mirror, branch_name, protocol_of
from connectors.git_program import Repository
from connectors.protocol import Cursor, Found, Gone, Item, Problem
from tests.fakes.git_repository import GitRepository, needs_git

pytestmark = needs_git


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    made = GitRepository(tmp_path / "repository")
    made.put("a.md", b"# A")
    made.put("b/c.txt", b"see")
    return made


def here(repository: GitRepository, **settings: object) -> GitConnector:
    origin = Repository(repository.root, str(repository.root))
    return GitConnector(origin, replace(GitSettings(), **settings))


def mirror(repository: GitRepository, **settings: object) -> Mirror:
    made = Mirror(f"file://{repository.root}", repository.root.with_name("data") / "mirror.git")
    return replace(made, **settings)


@pytest.fixture(params=["here", "remote"])
def connector(request: pytest.FixtureRequest, repository: GitRepository) -> GitConnector:
    if request.param == "here":
        return here(repository)
    return GitConnector(mirror(repository), GitSettings())


def listed(connector: GitConnector, since: str | None = None) -> tuple[list[Found], str]:
    *found, cursor = connector.discover(since)
    assert isinstance(cursor, Cursor)
    return found, cursor.value


def ids(found: list[Found]) -> list[str]:
    return [one.id for one in found if isinstance(one, Item)]


class TestWhatChanged:
    def test_the_first_listing_is_of_everything(self, connector: GitConnector) -> None:
        found, _ = listed(connector)
        assert ids(found) == ["a.md", "b/c.txt"]
        contents = {one.id: connector.fetch(one) for one in found if isinstance(one, Item)}
        assert {id_: fetched.data for id_, fetched in contents.items()} == {
            "a.md": b"# A",
            "b/c.txt": b"see",
        }
        assert contents["a.md"].media_type == "text/markdown"
        assert contents["a.md"].title is None

    def test_nothing_new_names_nothing(self, connector: GitConnector) -> None:
        _, cursor = listed(connector)
        assert listed(connector, cursor) == ([], cursor)

    def test_one_change_names_one_file_and_a_deletion_is_gone(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        found, cursor = listed(connector)
        before = {one.id: one for one in found if isinstance(one, Item)}
        repository.put("a.md", b"# Another")
        changed, cursor = listed(connector, cursor)
        assert ids(changed) == ["a.md"]
        assert changed != [before["a.md"]]
        assert isinstance(changed[0], Item)
        assert connector.fetch(changed[0]).data == b"# Another"
        repository.remove("b/c.txt")
        assert listed(connector, cursor)[0] == [Gone("b/c.txt")]
        assert ids(listed(connector)[0]) == ["a.md"]

    def test_a_rename_a_mode_and_an_empty_commit_leave_the_revision(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        found, cursor = listed(connector)
        (repository.root / "a.md").rename(repository.root / "z.md")
        (repository.root / "b/c.txt").chmod(0o755)
        repository.commit()
        repository.commit()
        moved, _ = listed(connector, cursor)
        old = {one.id: one for one in found if isinstance(one, Item)}
        assert moved == [Gone("a.md"), old["b/c.txt"], replace(old["a.md"], id="z.md")]

    def test_the_listing_since_a_cursor_comes_to_the_same_as_a_full_one(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        found, cursor = listed(connector)
        have = {one.id: one for one in found if isinstance(one, Item)}
        repository.put("b/d/e.md", b"new")
        repository.remove("a.md")
        repository.put("a.md/inside.md", b"a folder now")
        (repository.root / "b/c.txt").unlink()
        (repository.root / "b/c.txt").symlink_to("d/e.md")
        repository.commit()
        for one in listed(connector, cursor)[0]:
            if isinstance(one, Gone):
                have.pop(one.id)
            elif isinstance(one, Item):
                have[one.id] = one
        assert list(have.values()) and set(have.values()) == set(listed(connector)[0])

    def test_a_listed_item_is_read_as_it_was_listed(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        found, _ = listed(connector)
        repository.put("a.md", b"# Later")
        assert isinstance(found[0], Item)
        fetched = connector.fetch(found[0])
        assert (fetched.data, fetched.revision) == (b"# A", found[0].revision)

    def test_parts_are_listed_alone_and_without_a_cursor(self, connector: GitConnector) -> None:
        whole, _ = listed(connector)
        assert list(connector.discover(None, ["b", "x.md"])) == whole[1:]

    def test_the_date_is_that_of_the_commit_that_brought_the_content(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        repository.put("old.md", b"old", at_s=1_000_000_000)
        repository.put("new.md", b"new", at_s=1_500_000_000)
        found, _ = listed(connector)
        dates = {one.id: connector.fetch(one).modified_ms for one in found if isinstance(one, Item)}
        assert (dates["old.md"], dates["new.md"]) == (1_000_000_000_000, 1_500_000_000_000)

    def test_the_origin_is_the_commit_with_its_author_and_date(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        commit = repository.put("new.md", b"new", at_s=1_500_000_000)
        _, cursor = listed(connector)
        (new,) = (one for one in listed(connector)[0] if one.id == "new.md")
        assert isinstance(new, Item)
        told = {"author": "Ada", "date": "2017-07-14T02:40:00+00:00", "commit": commit}
        assert connector.fetch(new).origin == told
        later = repository.put("new.md", b"newer", at_s=1_600_000_000)
        (new,) = (one for one in connector.discover(cursor) if isinstance(one, Item))
        assert connector.fetch(new).origin["commit"] == later

    def test_a_history_that_was_cut_off_gives_no_wrong_dates(
        self, repository: GitRepository
    ) -> None:
        repository.put("old.md", b"old", at_s=1_000_000_000)
        repository.put("new.md", b"new", at_s=1_500_000_000)
        repository.put("newer.md", b"newer", at_s=1_600_000_000)
        connector = GitConnector(mirror(repository, depth=2), GitSettings())
        found, _ = listed(connector)
        dates = {one.id: connector.fetch(one).modified_ms for one in found if isinstance(one, Item)}
        assert (dates["old.md"], dates["new.md"]) == (None, None)
        assert dates["newer.md"] == 1_600_000_000_000


class TestCursorsThatExpire:
    def test_a_force_push(self, connector: GitConnector, repository: GitRepository) -> None:
        _, cursor = listed(connector)
        repository.git("commit", "--quiet", "--amend", "--message=rewritten")
        repository.put("a.md", b"# Rewritten")
        with pytest.raises(CursorExpired, match="rewritten"):
            list(connector.discover(cursor))
        assert ids(listed(connector)[0]) == ["a.md", "b/c.txt"]

    @pytest.mark.parametrize("cursor", ["", "0" * 40, "HEAD", "--all x", "\0"])
    def test_one_that_is_unknown(self, connector: GitConnector, cursor: str) -> None:
        with pytest.raises(CursorExpired):
            list(connector.discover(cursor))

    def test_a_commit_that_is_not_there(self, connector: GitConnector) -> None:
        _, cursor = listed(connector)
        with pytest.raises(CursorExpired):
            list(connector.discover("0" * 40 + cursor[40:]))

    def test_other_patterns(self, repository: GitRepository) -> None:
        _, cursor = listed(here(repository))
        with pytest.raises(CursorExpired, match="settings"):
            list(here(repository, include=("*.txt",)).discover(cursor))

    def test_an_ignore_file_that_changed(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        _, cursor = listed(connector)
        repository.put("b/.hopsyncdignore", b"*.txt\n")
        with pytest.raises(CursorExpired, match="hopsyncdignore"):
            list(connector.discover(cursor))
        assert ids(listed(connector)[0]) == ["a.md"]

    def test_more_commits_than_the_mirror_has(self, repository: GitRepository) -> None:
        connector = GitConnector(mirror(repository, depth=1), GitSettings())
        _, cursor = listed(connector)
        repository.put("d.md", b"1")
        repository.put("d.md", b"2")
        with pytest.raises(CursorExpired, match="too far"):
            list(connector.discover(cursor))


class TestWhatIsADocument:
    def test_secrets_ignored_and_unwanted_files_are_not(self, repository: GitRepository) -> None:
        for id_ in (".env", "x/id_rsa", "build/y.md", "drafts/z.md", "data.csv", "no/w.md"):
            repository.put(id_, b"text")
        repository.put(".gitignore", b"a.md\n")
        connector = here(repository, ignore=("drafts/",), deny=("no/",))
        assert ids(listed(connector)[0]) == ["a.md", "b/c.txt"]
        everything = here(repository, include=("*",), index_secrets=True)
        assert {".env", "x/id_rsa", "data.csv"} < set(ids(listed(everything)[0]))

    def test_a_hidden_file_that_goes_is_not_named(self, repository: GitRepository) -> None:
        repository.put(".env", b"KEY=1")
        connector = here(repository)
        _, cursor = listed(connector)
        repository.put(".env", b"KEY=2")
        repository.remove(".env")
        assert listed(connector, cursor)[0] == []

    def test_links_and_submodules_are_passed_over(
        self, repository: GitRepository, tmp_path: Path
    ) -> None:
        other = GitRepository(tmp_path / "other")
        commit = other.put("inside.md", b"x")
        (repository.root / "link.md").symlink_to("/etc/passwd")
        repository.commit()
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},module.md")
        repository.git("commit", "--quiet", "--message=a submodule")
        assert ids(listed(here(repository))[0]) == ["a.md", "b/c.txt"]

    def test_a_huge_blob_is_a_problem(self, repository: GitRepository) -> None:
        connector = here(repository, max_bytes=1000)
        _, cursor = listed(connector)
        repository.put("huge.md", b"x" * 1001)
        for found in (listed(connector)[0][2], listed(connector, cursor)[0][0]):
            assert isinstance(found, Problem)
            assert "too large" in found.why
        blob = repository.git("rev-parse", "HEAD:huge.md")
        with pytest.raises(ItemUnreadable, match="too large"):
            connector.fetch(Item("huge.md", blob, 1))

    @pytest.mark.parametrize(
        "data", [b"a\0b", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"]
    )
    def test_what_is_no_text_is_unreadable(self, repository: GitRepository, data: bytes) -> None:
        repository.put("c.md", data)
        connector = here(repository)
        item = listed(connector)[0][2]
        assert isinstance(item, Item)
        with pytest.raises(ItemUnreadable):
            connector.fetch(item)

    def test_a_name_that_is_not_utf8_is_a_problem_until_it_is_renamed(
        self, repository: GitRepository
    ) -> None:
        connector = here(repository)
        name = os.fsdecode(b"caf\xe9.md")
        repository.put(name, b"text")
        found, cursor = listed(connector)
        assert [one.id for one in found if isinstance(one, Problem)] == ["caf\\xe9.md"]
        (repository.root / name).rename(repository.root / "café.md")
        repository.commit()
        changed, _ = listed(connector, cursor)
        assert ids(changed) == ["café.md"]
        assert Gone("caf\\xe9.md") in changed

    def test_a_name_with_a_newline_a_tab_and_quotes(self, repository: GitRepository) -> None:
        repository.put('x/a\n\t"b".md', b"text")
        connector = here(repository)
        found, _ = listed(connector)
        assert ids(found)[-1] == 'x/a\n\t"b".md'
        assert isinstance(found[-1], Item)
        assert connector.fetch(found[-1]).data == b"text"

    def test_a_path_that_leads_out_is_a_problem(self, repository: GitRepository) -> None:
        blob = repository.git("hash-object", "-w", "--stdin", data=b"text")
        inner = repository.git("mktree", data=f"100644 blob {blob}\tx.md\n".encode())
        tree = repository.git("mktree", data=f"040000 tree {inner}\t..\n".encode())
        commit = repository.git("commit-tree", "-m", "bad", tree)
        repository.git("update-ref", "refs/heads/bad", commit)
        found, _ = listed(here(repository, branch="bad"))
        assert [type(one) for one in found] == [Problem]

    @pytest.mark.parametrize("revision", ["0" * 40, "HEAD", "--help", "main:a.md\n"])
    def test_a_blob_that_is_not_there_has_vanished(
        self, repository: GitRepository, revision: str
    ) -> None:
        with pytest.raises(ItemVanished):
            here(repository).fetch(Item("a.md", revision, 1))


class TestPauses:
    def test_a_branch_that_is_missing(self, repository: GitRepository) -> None:
        for origin in (Repository(repository.root, "x"), mirror(repository)):
            with pytest.raises(SourceUnavailable, match=r"no (such )?branch") as caught:
                list(GitConnector(origin, GitSettings(branch="gone")).discover(None))
            assert "branch" in caught.value.hint

    def test_another_branch_than_the_checked_out_one(self, repository: GitRepository) -> None:
        repository.git("switch", "--quiet", "--create=topic/one")
        repository.put("topic.md", b"x")
        repository.git("switch", "--quiet", "main")
        assert "topic.md" not in ids(listed(here(repository))[0])
        for origin in (Repository(repository.root, "x"), mirror(repository)):
            connector = GitConnector(origin, GitSettings(branch="topic/one"))
            assert "topic.md" in ids(listed(connector)[0])

    def test_a_repository_without_commits(self, tmp_path: Path) -> None:
        empty = GitRepository(tmp_path / "empty")
        for origin in (Repository(empty.root, "x"), mirror(empty)):
            with pytest.raises(SourceUnavailable, match="commit"):
                list(GitConnector(origin, GitSettings()).discover(None))

    def test_a_folder_in_a_repository_is_not_the_repository(
        self, repository: GitRepository
    ) -> None:
        connector = GitConnector(Repository(repository.root / "b", "b"), GitSettings())
        with pytest.raises(SourceUnavailable, match="no git repository"):
            list(connector.discover(None))

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(SourceUnavailable, match="no folder"):
            list(GitConnector(Repository(tmp_path / "x", "x"), GitSettings()).discover(None))

    def test_a_remote_that_goes_away_and_comes_back(self, repository: GitRepository) -> None:
        connector = GitConnector(mirror(repository), GitSettings())
        found, cursor = listed(connector)
        away = repository.root.with_name("away")
        repository.root.rename(away)
        for since in (None, cursor):
            with pytest.raises(SourceUnavailable, match="no git repository"):
                list(connector.discover(since))
        assert isinstance(found[0], Item)
        assert connector.fetch(found[0]).data == b"# A"
        away.rename(repository.root)
        repository.put("a.md", b"# Back")
        assert ids(listed(connector, cursor)[0]) == ["a.md"]

    def test_a_mirror_is_fetched_into_by_one_at_a_time(self, repository: GitRepository) -> None:
        repository.put("big.txt", os.urandom(3_000_000).hex().encode())
        with ThreadPoolExecutor() as pool:
            made = mirror(repository)
            found = list(pool.map(lambda one: one.refresh(""), [made, replace(made, depth=1)]))
        assert found == [made.repository] * 2

    def test_a_mirror_that_a_killed_git_left_locked_goes_on(
        self, repository: GitRepository
    ) -> None:
        origin = mirror(repository)
        connector = GitConnector(origin, GitSettings())
        listed(connector)
        for name in ("shallow.lock", "refs/hopsyncd/tip.lock", "objects/pack/tmp_pack_x"):
            (origin.folder / name).touch()
        repository.put("d.md", b"new")
        assert "d.md" in ids(listed(connector)[0])

    def test_a_mirror_that_was_removed_is_made_again(self, repository: GitRepository) -> None:
        origin = mirror(repository)
        connector = GitConnector(origin, GitSettings())
        _, cursor = listed(connector)
        run(["rm", "-r", "--force", origin.folder], check=True)
        assert listed(connector, cursor) == ([], cursor)
        assert stat.S_IMODE(origin.folder.stat().st_mode) == 0o700

    def test_a_repository_that_is_too_big(self, repository: GitRepository) -> None:
        repository.put("big.md", os.urandom(200_000))
        connector = GitConnector(mirror(repository, max_bytes=100_000), GitSettings())
        with pytest.raises(SourceUnavailable, match="more than 100,000 bytes"):
            list(connector.discover(None))

    def test_git_that_takes_too_long_is_ended(self, repository: GitRepository) -> None:
        origin = Repository(repository.root, "x", limit_s=0.3)
        with pytest.raises(SourceUnavailable, match="longer than"):
            origin.run("-c", "alias.wait=!sleep 30", "wait")

    def test_no_git_program(
        self, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(SourceUnavailable, match="no git program"):
            list(here(repository).discover(None))


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "url",
        [
            "ext::sh -c touch% /tmp/x",
            "ext::x",
            "::x",
            "--upload-pack=touch /tmp/x",
            "-x:y",
            "ssh://-oProxyCommand=x/y",
            "http://example.org/a.git",
            "ftp://example.org/a.git",
            "https://ada:secret@example.org/a.git",
            "https://",
            "file://host/a.git",
            "/a/path",
            "a\nb:c",
            "",
        ],
    )
    def test_a_dangerous_address(self, url: str, tmp_path: Path) -> None:
        with pytest.raises(ValueError):
            Mirror(url, tmp_path)

    @pytest.mark.parametrize(
        ("url", "protocol"),
        [
            ("https://ada@example.org/a.git", "https"),
            ("ssh://git@[::1]:22/a.git", "ssh"),
            ("git@example.org:a/b.git", "ssh"),
            ("example.org:a", "ssh"),
            ("git://example.org/a", "git"),
            ("file:///a/b", "file"),
        ],
    )
    def test_a_usual_address_is_not(self, url: str, protocol: str) -> None:
        assert protocol_of(url) == protocol

    @pytest.mark.parametrize("name", ["-x", "a..b", "a:b", "a b", "*", "a/", "x.lock", "@{1}", "~"])
    def test_a_branch_that_is_none(self, name: str) -> None:
        with pytest.raises(ValueError):
            branch_name(name)

    def test_git_itself_refuses_what_no_address_check_saw(
        self, repository: GitRepository, tmp_path: Path
    ) -> None:
        """A rewrite in the user's git configuration cannot bring the helper program back."""
        origin = mirror(repository)
        variables = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.ext::touch {tmp_path}/run .insteadOf",
            "GIT_CONFIG_VALUE_0": "file://",
        }
        origin.refresh("")
        spoilt = replace(origin.repository, protocols="file", variables=variables)
        with pytest.raises(SourceUnavailable, match="not allowed"):
            spoilt.run("fetch", "--", origin.url)
        assert not (tmp_path / "run").exists()

    def test_the_repositorys_hooks_do_not_run(
        self, repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hooks = tmp_path / "hooks"
        hooks.mkdir()
        (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path}/run\n")
        (hooks / "reference-transaction").chmod(0o755)
        (tmp_path / "gitconfig").write_text(f"[core]\nhooksPath = {hooks}\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "gitconfig").rename(tmp_path / ".gitconfig")
        listed(GitConnector(mirror(repository), GitSettings()))
        assert not (tmp_path / "run").exists()


@pytest.fixture
def with_token(tmp_path: Path) -> Iterator[Mirror]:
    yield Mirror("https://example.org/a.git", tmp_path, token="s3cret$`\"'")


class TestCredentials:
    def ask(self, mirror: Mirror, host: str) -> str:
        """What git would send to a host, by its own `credential fill`."""
        repository = mirror.connected()
        with repository.process("credential", "fill", stdin=-1, accept=range(256)) as process:
            output, _ = process.communicate(f"protocol=https\nhost={host}\n\n".encode())
        return output.decode()

    def test_the_token_is_for_its_host_alone(self, with_token: Mirror) -> None:
        assert "password=s3cret$`\"'\n" in self.ask(with_token, "example.org")
        assert "username=x-access-token\n" in self.ask(with_token, "example.org")
        assert "s3cret" not in self.ask(with_token, "evil.example.org")

    def test_the_token_is_in_no_message(self, with_token: Mirror) -> None:
        assert "s3cret" not in repr(with_token)

    def test_a_token_goes_nowhere_in_the_clear(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="https"):
            Mirror("git://example.org/a.git", tmp_path, token="x")

    def test_what_asks_for_credentials_pauses_with_a_hint(self, repository: GitRepository) -> None:
        origin = Repository(repository.root, "x")
        with (
            pytest.raises(SourceUnavailable, match="credentials") as caught,
            origin.process("credential", "fill", stdin=-1) as process,
        ):
            process.communicate(b"protocol=https\nhost=example.invalid\n\n")
        assert "token" in caught.value.hint
