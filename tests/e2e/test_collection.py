"""The endpoints about the whole collection: facets, and the history of a document."""

import os
from collections.abc import Iterator

import pytest

from hopsyncd.client import RequestFailed
from tests.e2e.daemon import SMALL, Place, new_place, source

OLD_S = 1_600_000_000  # in September 2020


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("people/ada.md", "---\ntags: [math, work]\n---\n# Ada\n\nAda met Charles.\n")
        made.write("people/charles.md", "---\ntags: [math]\n---\n# Charles\n\nHe met Ada.\n")
        made.write("people/young/tove.txt", "Tove repairs clocks.\n")
        os.utime(made.write("top.md", "# Top\n\nA page at the top.\n"), (OLD_S, OLD_S))
        (made.base / "more").mkdir()
        (made.base / "more/ada.md").write_text("# Another Ada\n\nAda sails.\n")
        made.configure(source("notes", made.notes) + source("more", made.base / "more"))
        made.start()
        made.sync()
        yield made


def counts(values: list[dict[str, object]]) -> dict[object, object]:
    return {value["value"]: value["documents"] for value in values}


def test_facets_count_documents_by_every_key(place: Place) -> None:
    answer = place.post("/v1/facets", {"documents": ["notes/top.md", "notes/absent.md"]})
    facets = answer["facets"]
    assert answer["documents"] == 5
    assert counts(facets["source"]) == {"notes": 4, "more": 1}
    assert counts(facets["type"]) == {"md": 4, "txt": 1}
    assert counts(facets["tag"]) == {"math": 2, "work": 1}
    assert counts(facets["folder"]) == {"people/": 3}
    assert facets["month"][0] == {"month": "2020-09", "documents": 1}
    assert answer["modified"][0].startswith("2020-09-13") and answer["modified"][1] is None


def test_a_filter_of_a_facet_leaves_as_many_documents_as_it_counts(place: Place) -> None:
    facets = place.post("/v1/facets", {})["facets"]
    for key in ("source", "type", "folder", "tag", "author"):
        for one in facets[key]:
            left = place.post("/v1/facets", {"filters": [one["filter"]]})
            assert left["documents"] == one["documents"], one


def test_folders_are_those_below_the_chosen_one(place: Place) -> None:
    below = place.post("/v1/facets", {"filters": ["path:people/"]})["facets"]["folder"]
    assert counts(below) == {"people/young/": 1}


def test_the_file_is_given_as_it_is_indexed(place: Place) -> None:
    file = place.notes / "people/ada.md"
    given = place.get("/v1/file?source=notes&document=people/ada.md")
    assert given["text"] == file.read_text()
    place.post("/v1/pause", {"name": "notes"})
    before = file.read_text()
    file.write_text(before + "More.\n")
    for path in ("people/ada.md", "never.md", "../more/ada.md"):
        with pytest.raises(RequestFailed) as refused:
            place.get(f"/v1/file?source=notes&document={path}")
        assert refused.value.status == 404
    file.write_text(before)
    place.post("/v1/resume", {"name": "notes"})


def test_the_history_tells_each_revision_and_the_removal(place: Place) -> None:
    file = place.write("passing.md", "# Passing\n\nIt begins here.\n")
    place.sync("notes")
    place.write("passing.md", "# Passing\n\nIt ends here.\n")
    place.sync("notes")
    file.unlink()
    place.sync("notes")
    changes = place.get("/v1/history?source=notes&document=passing.md")["changes"]
    assert [change["what"] for change in changes] == ["removed", "changed", "added"]
    assert "-It begins here." in changes[1]["lines"] and "+It ends here." in changes[1]["lines"]
    with pytest.raises(RequestFailed) as refused:
        place.get("/v1/history?source=notes&document=never.md")
    assert refused.value.status == 404
