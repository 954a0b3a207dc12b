"""The real git on real repositories: what is a document, and what pauses the source."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from subprocess import run

import pytest

from connectors.git import GitConnector, GitSettings
from connectors.git_program import Mirror, Repository
from connectors.protocol import Gone, Item, ItemUnreadable, ItemVanished, Problem, SourceUnavailable
from tests.contract.git_sources import here, ids, listed, mirror
from tests.fakes.git_repository import GitRepository, needs_git

pytestmark = needs_git


class TestWhatIsADocument:
    def test_secrets_ignored_and_unwanted_files_are_not(self, repository: GitRepository) -> None:
        for id_ in (".env", "x/id_rsa", "build/y.md", "drafts/z.md", "data.yaml", "no/w.md"):
            repository.put(id_, b"text")
        repository.put(".gitignore", b"a.md\n")
        connector = here(repository, ignore=("drafts/",), deny=("no/",))
        assert ids(listed(connector)[0]) == ["a.md", "b/c.txt"]
        assert connector.left_out == {"secret: no suffix": 2}
        everything = here(repository, include=("*",), index_secrets=True)
        assert {".env", "x/id_rsa", "data.yaml"} < set(ids(listed(everything)[0]))

    def test_hidden_folders_are_not_until_a_pattern_names_them(
        self, repository: GitRepository
    ) -> None:
        for id_ in (".github/d.md", ".github/e.yml", "x/.notes/f.md"):
            repository.put(id_, b"text")
        plain = here(repository)
        found, cursor = listed(plain)
        assert ids(found) == ["a.md", "b/c.txt"]
        assert plain.left_out == {"hidden folders": 2}
        fresh = here(repository)
        assert listed(fresh, cursor)[0] == []
        assert fresh.left_out is None
        named = here(repository, include=("@text", ".github/**"))
        expected = [".github/d.md", ".github/e.yml", "a.md", "b/c.txt"]
        assert sorted(ids(listed(named)[0])) == expected

    def test_a_hidden_file_that_goes_is_not_named(self, repository: GitRepository) -> None:
        repository.put(".env", b"KEY=1")
        connector = here(repository)
        _, cursor = listed(connector)
        repository.put(".env", b"KEY=2")
        repository.remove(".env")
        assert listed(connector, cursor)[0] == []

    def test_links_and_submodules_are_skipped(
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
            connector.fetch(Item("huge.md", blob))

    @pytest.mark.parametrize(
        "data", [b"a\0b", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"]
    )
    def test_a_binary_file_is_unreadable(self, repository: GitRepository, data: bytes) -> None:
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
        assert [item.id for item in found if isinstance(item, Problem)] == ["caf\\xe9.md"]
        (repository.root / name).rename(repository.root / "café.md")
        repository.commit()
        changed, _ = listed(connector, cursor)
        assert ids(changed) == ["café.md"]
        assert Gone("caf\\xe9.md") in changed

    def test_a_name_with_a_newline_a_tab_and_quotes_is_read(
        self, repository: GitRepository
    ) -> None:
        repository.put('x/a\n\t"b".md', b"text")
        connector = here(repository)
        found, _ = listed(connector)
        assert ids(found)[-1] == 'x/a\n\t"b".md'
        assert isinstance(found[-1], Item)
        assert connector.fetch(found[-1]).data == b"text"

    def test_a_path_outside_the_repository_is_a_problem(self, repository: GitRepository) -> None:
        blob = repository.git("hash-object", "-w", "--stdin", data=b"text")
        inner = repository.git("mktree", data=f"100644 blob {blob}\tx.md\n".encode())
        tree = repository.git("mktree", data=f"040000 tree {inner}\t..\n".encode())
        commit = repository.git("commit-tree", "-m", "bad", tree)
        repository.git("update-ref", "refs/heads/bad", commit)
        found, _ = listed(here(repository, branch="bad"))
        assert [type(one) for one in found] == [Problem]

    def test_a_blob_that_a_partial_clone_lacks_is_its_documents_problem(
        self, repository: GitRepository
    ) -> None:
        connector = here(repository)
        before, cursor = listed(connector)
        repository.put("lacking.md", b"text that is not fetched")
        blob = repository.git("rev-parse", "HEAD:lacking.md")
        (repository.root / ".git/objects" / blob[:2] / blob[2:]).unlink()
        for since in (None, cursor):
            found, _ = listed(connector, since)
            (problem,) = [one for one in found if isinstance(one, Problem)]
            assert (problem.id, blob in problem.why) == ("lacking.md", True)
            if since is None:
                assert ids(found) == ids(before)

    @pytest.mark.parametrize("revision", ["0" * 40, "HEAD", "--help", "main:a.md\n"])
    def test_fetching_a_missing_blob_says_that_it_vanished(
        self, repository: GitRepository, revision: str
    ) -> None:
        with pytest.raises(ItemVanished):
            here(repository).fetch(Item("a.md", revision))


class TestPauses:
    def test_a_missing_branch_makes_the_source_unavailable(self, repository: GitRepository) -> None:
        for origin in (Repository(repository.root, "x"), mirror(repository)):
            with pytest.raises(SourceUnavailable, match=r"no (such )?branch") as caught:
                list(GitConnector(origin, GitSettings(branch="gone")).discover(None))
            assert "branch" in caught.value.hint

    def test_the_configured_branch_is_read_instead_of_the_checked_out_one(
        self, repository: GitRepository
    ) -> None:
        repository.git("switch", "--quiet", "--create=topic/one")
        repository.put("topic.md", b"x")
        repository.git("switch", "--quiet", "main")
        assert "topic.md" not in ids(listed(here(repository))[0])
        for origin in (Repository(repository.root, "x"), mirror(repository)):
            connector = GitConnector(origin, GitSettings(branch="topic/one"))
            assert "topic.md" in ids(listed(connector)[0])

    def test_a_repository_without_commits_is_unavailable(self, tmp_path: Path) -> None:
        empty = GitRepository(tmp_path / "empty")
        for origin in (Repository(empty.root, "x"), mirror(empty)):
            with pytest.raises(SourceUnavailable, match="commit"):
                list(GitConnector(origin, GitSettings()).discover(None))

    def test_a_folder_in_a_repository_is_not_the_repository(
        self, repository: GitRepository
    ) -> None:
        connector = GitConnector(Repository(repository.root / "b", "b"), GitSettings())
        with pytest.raises(SourceUnavailable, match="not a git repository"):
            list(connector.discover(None))

    def test_a_missing_folder_makes_the_source_unavailable(self, tmp_path: Path) -> None:
        with pytest.raises(SourceUnavailable, match=r"the folder .* does not exist"):
            list(GitConnector(Repository(tmp_path / "x", "x"), GitSettings()).discover(None))

    def test_a_remote_that_returns_is_read_from_the_last_cursor(
        self, repository: GitRepository
    ) -> None:
        connector = GitConnector(mirror(repository), GitSettings())
        found, cursor = listed(connector)
        away = repository.root.with_name("away")
        repository.root.rename(away)
        for since in (None, cursor):
            with pytest.raises(SourceUnavailable, match="not a git repository"):
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

    def test_a_mirror_with_locks_of_a_killed_git_is_still_updated(
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

    def test_a_repository_above_the_size_limit_is_unavailable(
        self, repository: GitRepository
    ) -> None:
        repository.put("big.md", os.urandom(200_000))
        connector = GitConnector(mirror(repository, max_bytes=100_000), GitSettings())
        with pytest.raises(SourceUnavailable, match="more than 100,000 bytes"):
            list(connector.discover(None))

    def test_git_that_takes_too_long_is_ended(self, repository: GitRepository) -> None:
        origin = Repository(repository.root, "x", limit_s=0.3)
        with pytest.raises(SourceUnavailable, match="longer than"):
            origin.run("-c", "alias.wait=!sleep 30", "wait")

    def test_a_missing_git_program_is_reported(
        self, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(SourceUnavailable, match="git is not installed"):
            list(here(repository).discover(None))


def test_only_its_owner_can_read_a_mirror(repository: GitRepository, tmp_path: Path) -> None:
    folder = tmp_path / "data/git/one.git"
    before = os.umask(0o022)
    try:
        Mirror(f"file://{repository.root}", folder).refresh("")
    finally:
        os.umask(before)
    assert [one.stat().st_mode & 0o777 for one in (folder, folder.parent)] == [0o700, 0o700]
