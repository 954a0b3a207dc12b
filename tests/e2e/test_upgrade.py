"""After an upgrade, a real daemon reads all documents again, takes an edit, and is killed."""

import shutil
from contextlib import closing
from pathlib import Path

from hopsyncd.ingest.upkeep import verify_matches
from store.check import check, refuse_damaged
from store.engines.sqlite.database import open_writer
from store.versions import read_head
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.dump import Rows, graph_at
from tests.fakes.kill import copy_database

PEOPLE = ("Nero", "Ada", "Ibsen", "Sappho", "Basho")


def configure_passages(tokens: int, place: Place) -> str:
    """A configuration with passages of this many tokens."""
    return f"[index]\npassage_tokens = {tokens}\nbatch_documents = 4\n" + source(
        "notes", place.notes
    )


def graph_of(place: Place, copy: Path) -> Rows:
    """The newest graph in a stopped daemon's files, after all checks."""
    path = copy_database(place.home / "data/hopsyncd.db", copy)
    with closing(open_writer(path)) as connection:
        refuse_damaged(connection)
        assert check(connection, deep=True) == []
        assert verify_matches(connection) == []
        newest = read_head(connection)
        assert newest
        return graph_at(connection, newest.id)


def test_reading_all_documents_again_resumes_after_a_kill_and_keeps_an_edit(
    tmp_path: Path,
) -> None:
    with new_place(SMALL) as place:
        place.configure(configure_passages(400, place))
        for number in range(50):
            lines = (f"{host} met {guest}{number} in Rome." for host in PEOPLE for guest in PEOPLE)
            place.write(f"many/{number}.md", f"# Meeting {number}\n\n" + "\n\n".join(lines))
        place.start()
        place.sync()
        place.stop()
        place.configure(configure_passages(20, place))
        place.start()
        place.until(lambda: bool((place.status()["progress"] or {}).get("documents_done")))
        assert place.query("Who met Ada7?"), "questions are answered meanwhile"
        assert "reading notes again: " in place.run("status").stdout
        place.write("many/49.md", "# Meeting 49\n\nZenobia met Longinus in Palmyra.\n")
        text = "Zenobia met Longinus in Palmyra."
        place.until(
            lambda: text in [passage["text"] for passage in place.query("Who met Zenobia?")]
        )
        progress = place.status()["progress"]
        assert progress["again"]
        assert progress["documents_done"] < progress["documents_total"]
        place.kill()
        left = graph_of(place, tmp_path / "left.db")
        assert text in [row[2] for row in left["passages"]]
        place.start()
        assert place.sync()["sources"][0]["changed"] < 50, "it began again"
        place.stop()
        done = graph_of(place, tmp_path / "done.db")
        shutil.rmtree(place.home / "data")
        place.start()
        place.sync()
        place.stop()
        assert graph_of(place, tmp_path / "fresh.db") == done
