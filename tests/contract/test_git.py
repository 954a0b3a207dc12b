"""The real git on real repositories: what is listed, what a change costs, when a cursor expires."""

from dataclasses import replace

import pytest

from connectors.git import GitConnector, GitSettings
from connectors.protocol import CursorExpired, Gone, Item, ItemUnreadable
from tests.contract.git_sources import here, ids, listed, mirror
from tests.fakes.git_repository import GitRepository, needs_git

pytestmark = needs_git


@pytest.fixture(params=["here", "remote"])
def connector(request: pytest.FixtureRequest, repository: GitRepository) -> GitConnector:
    if request.param == "here":
        return here(repository)
    return GitConnector(mirror(repository), GitSettings())


def date_of(connector: GitConnector, item: Item) -> str | None:
    """The day that the item's origin tells."""
    date = connector.fetch(item).origin.get("date")
    return date and date[:10]


class TestWhatChanged:
    def test_the_first_listing_is_of_everything(self, connector: GitConnector) -> None:
        found, _ = listed(connector)
        assert ids(found) == ["a.md", "b/c.txt"]
        contents = {item.id: connector.fetch(item) for item in found if isinstance(item, Item)}
        assert {id_: fetched.data for id_, fetched in contents.items()} == {
            "a.md": b"# A",
            "b/c.txt": b"see",
        }
        assert contents["a.md"].media_type == "text/markdown"
        assert contents["a.md"].title is None

    def test_a_listing_without_new_commits_is_empty(self, connector: GitConnector) -> None:
        _, cursor = listed(connector)
        assert listed(connector, cursor) == ([], cursor)

    def test_one_change_names_one_file_and_a_deletion_is_gone(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        found, cursor = listed(connector)
        before = {item.id: item for item in found if isinstance(item, Item)}
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
        old = {item.id: item for item in found if isinstance(item, Item)}
        assert moved == [Gone("a.md"), old["b/c.txt"], replace(old["a.md"], id="z.md")]

    def test_a_listing_since_a_cursor_gives_the_same_state_as_a_full_listing(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        found, cursor = listed(connector)
        have = {item.id: item for item in found if isinstance(item, Item)}
        repository.put("b/d/e.md", b"new")
        repository.remove("a.md")
        repository.put("a.md/inside.md", b"a folder now")
        (repository.root / "b/c.txt").unlink()
        (repository.root / "b/c.txt").symlink_to("d/e.md")
        repository.commit()
        for item in listed(connector, cursor)[0]:
            if isinstance(item, Gone):
                have.pop(item.id)
            elif isinstance(item, Item):
                have[item.id] = item
        assert list(have.values()) and set(have.values()) == set(listed(connector)[0])

    def test_a_listed_item_is_read_as_it_was_listed(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        found, _ = listed(connector)
        repository.put("a.md", b"# Later")
        assert isinstance(found[0], Item)
        fetched = connector.fetch(found[0])
        assert (fetched.data, fetched.revision) == (b"# A", found[0].revision)

    def test_one_git_process_reads_all_files_and_survives_a_file_that_is_too_large(
        self, repository: GitRepository
    ) -> None:
        for path, data in (("a.md", b"one"), ("big.md", b"two " * 100), ("z.md", b"three")):
            repository.put(path, data)
        items = {item.id: item for item in listed(here(repository))[0] if isinstance(item, Item)}
        small = here(repository, max_bytes=100)
        assert small.fetch(items["a.md"]).data == b"one"
        with pytest.raises(ItemUnreadable):
            small.fetch(items["big.md"])
        assert small.fetch(items["z.md"]).data == b"three"
        small.close()
        assert small.fetch(items["a.md"]).data == b"one"
        small.close()

    def test_a_listing_of_parts_has_only_these_parts_and_no_cursor(
        self, connector: GitConnector
    ) -> None:
        whole, _ = listed(connector)
        assert list(connector.discover(None, ["b", "x.md"])) == whole[1:]

    def test_the_date_is_that_of_the_commit_that_brought_the_content(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        repository.put("old.md", b"old", at_s=1_000_000_000)
        repository.put("new.md", b"new", at_s=1_500_000_000)
        found, _ = listed(connector)
        dates = {item.id: date_of(connector, item) for item in found if isinstance(item, Item)}
        assert (dates["old.md"], dates["new.md"]) == ("2001-09-09", "2017-07-14")

    def test_the_origin_is_the_commit_with_its_author_and_date(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        commit = repository.put("new.md", b"new", at_s=1_500_000_000)
        _, cursor = listed(connector)
        (new,) = (item for item in listed(connector)[0] if item.id == "new.md")
        assert isinstance(new, Item)
        told = {"author": "Ada", "date": "2017-07-14T02:40:00+00:00", "commit": commit}
        assert connector.fetch(new).origin == told
        later = repository.put("new.md", b"newer", at_s=1_600_000_000)
        (new,) = (item for item in connector.discover(cursor) if isinstance(item, Item))
        assert connector.fetch(new).origin["commit"] == later

    def test_files_older_than_the_mirrored_history_have_no_date(
        self, repository: GitRepository
    ) -> None:
        repository.put("old.md", b"old", at_s=1_000_000_000)
        repository.put("new.md", b"new", at_s=1_500_000_000)
        repository.put("newer.md", b"newer", at_s=1_600_000_000)
        connector = GitConnector(mirror(repository, depth=2), GitSettings())
        found, _ = listed(connector)
        dates = {item.id: date_of(connector, item) for item in found if isinstance(item, Item)}
        assert (dates["old.md"], dates["new.md"]) == (None, None)
        assert dates["newer.md"] == "2020-09-13"


class TestCursorsThatExpire:
    def test_a_force_push_lists_everything_again(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        _, cursor = listed(connector)
        repository.git("commit", "--quiet", "--amend", "--message=rewritten")
        repository.put("a.md", b"# Rewritten")
        with pytest.raises(CursorExpired, match="no longer on the branch"):
            list(connector.discover(cursor))
        assert ids(listed(connector)[0]) == ["a.md", "b/c.txt"]

    @pytest.mark.parametrize("cursor", ["", "0" * 40, "HEAD", "--all x", "\0"])
    def test_an_unknown_commit_lists_everything_again(
        self, connector: GitConnector, cursor: str
    ) -> None:
        with pytest.raises(CursorExpired):
            list(connector.discover(cursor))

    def test_a_cursor_of_an_unknown_commit_expires(self, connector: GitConnector) -> None:
        _, cursor = listed(connector)
        with pytest.raises(CursorExpired):
            list(connector.discover("0" * 40 + cursor[40:]))

    def test_changed_patterns_list_everything_again(self, repository: GitRepository) -> None:
        _, cursor = listed(here(repository))
        with pytest.raises(CursorExpired, match="settings"):
            list(here(repository, include=("*.txt",)).discover(cursor))

    def test_a_changed_ignore_file_expires_the_cursor(
        self, connector: GitConnector, repository: GitRepository
    ) -> None:
        _, cursor = listed(connector)
        repository.put("b/.hopsyncdignore", b"*.txt\n")
        with pytest.raises(CursorExpired, match="hopsyncdignore"):
            list(connector.discover(cursor))
        assert ids(listed(connector)[0]) == ["a.md"]

    def test_a_cursor_older_than_the_mirror_expires(self, repository: GitRepository) -> None:
        connector = GitConnector(mirror(repository, depth=1), GitSettings())
        _, cursor = listed(connector)
        repository.put("d.md", b"1")
        repository.put("d.md", b"2")
        with pytest.raises(CursorExpired, match="too old"):
            list(connector.discover(cursor))
