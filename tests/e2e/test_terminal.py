"""`graph`, `top` and the progress bars: at a terminal, and plain in a pipe."""

import json
import re
import socketserver
import threading
from collections.abc import Iterator

import pytest

from hopsyncd.display import HOP_VERBS
from tests.e2e.daemon import SMALL, Place, new_place, source
from tests.fakes.terminal import at_terminal

VERBS = "|".join(HOP_VERBS.values())
_ID, _LABEL = r'"([0-9a-f]{16})"', r'\[label="(?:[^"\\]|\\.)*"'
_NODE = re.compile(rf"^  {_ID} {_LABEL}\];$", re.MULTILINE)
_EDGE = re.compile(rf"^  {_ID} -> {_ID} {_LABEL}(, dir=none, style=dashed)?\];$", re.MULTILINE)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with new_place(SMALL) as made:
        made.write("door.md", "# Bronze Door\n\nBronze Door is a film by Kaltenbrunn.\n")
        made.write("mira.md", "# Kaltenbrunn\n\nKaltenbrunn was born in Ostrava.\n")
        made.write("town.md", '# Ostrava\n\nOstrava is "black"\x1b[31m\x9b31m and \\ by a river.\n')
        made.write("lamp.md", "the lamp hangs by the [black river](town.md)\n")
        made.configure("[watch]\nenabled = false\n" + source("notes", made.notes))
        made.start()
        made.sync()
        yield made


def id_of(place: Place, document: str) -> str:
    (passage,) = place.get(f"/v1/document?source=notes&document={document}")["passages"]
    return str(passage["id"])


def test_the_neighbourhood_of_a_passage_is_a_tree_that_draws_each_passage_once(
    place: Place,
) -> None:
    ran = place.run("graph", id_of(place, "door.md"), "--hops", "2")
    assert ran.returncode == 0, ran.stderr
    first, *below = ran.stdout.splitlines()
    assert first.startswith("Bronze Door   notes: door.md")
    assert re.match(rf"└── ({VERBS}) Kaltenbrunn: \w+   notes: mira.md", below[0])
    verbose = place.run("graph", id_of(place, "door.md"), "--hops", "2", "--verbose").stdout
    assert re.search(rf"({VERBS}) Kaltenbrunn: What is said of \w+\?", verbose)
    assert re.match(rf"    └── ({VERBS}) Ostrava:", below[1])
    assert [ran.stdout.count(id_of(place, f"{name}.md")) for name in ("mira", "town")] == [1, 1]
    assert "\x1b" not in ran.stdout
    assert len(place.run("graph", id_of(place, "door.md"), "--hops", "1").stdout.splitlines()) == 3


def test_a_link_is_called_a_link(place: Place) -> None:
    lamp, town = (id_of(place, f"{name}.md") for name in ("lamp", "town"))
    _, *below = place.run("graph", lamp, "--hops", "1").stdout.splitlines()
    assert below[0].startswith('└── links to Ostrava: "black river"')
    _, *below = place.run("graph", town, "--hops", "1").stdout.splitlines()
    assert any('── is linked from lamp.md: "black river"' in line for line in below)
    dot = place.run("graph", lamp, "--hops", "1", "--format", "dot").stdout
    assert f'"{lamp}" -> "{town}" [label="See black river.", style=dotted];' in dot


def test_dot_and_json_hold_the_same_graph(place: Place) -> None:
    asked = ("graph", id_of(place, "door.md"), "--format")
    whole = json.loads(place.run(*asked, "json").stdout)
    assert whole == place.printed("graph", id_of(place, "door.md"))
    dot = place.run(*asked, "dot").stdout
    assert set(_NODE.findall(dot)) == {passage["id"] for passage in whole["passages"]}
    edges = [(edge["from"], edge["to"], edge["asked_by"] == "both") for edge in whole["edges"]]
    assert [(a, b, bool(dashed)) for a, b, dashed in _EDGE.findall(dot)] == edges
    assert edges
    assert len(dot.splitlines()) == 3 + len(whole["passages"]) + len(edges)


def test_a_document_stands_for_its_passages(place: Place) -> None:
    of_document = place.printed("graph", "--document", "mira.md", "--hops", "1")
    assert of_document["passages"][0]["id"] == id_of(place, "mira.md")
    assert place.printed("graph", "mira.md", "--hops", "1") == of_document
    missing = place.run("graph", "none.md")
    assert missing.returncode == 1
    assert "There is no document none.md: none of these sources has the document" in missing.stderr
    place.write("build/left-out.md", "Out.\n")
    left_out = place.run("show", "build/left-out.md")
    assert left_out.returncode == 1
    assert "build/left-out.md is not indexed: an ignore file" in left_out.stderr
    place.write("empty.md", "")
    place.sync()
    empty = place.run("graph", "--document", "empty.md")
    assert empty.returncode == 2
    assert "notes: empty.md has no text" in empty.stderr


def test_show_says_why_a_document_has_no_passages(place: Place) -> None:
    place.write("blank.md", "")
    place.write("nonsense.pdf", "%PDF-1.4 nonsense")
    place.sync()
    blank = place.run("show", "blank.md")
    assert (blank.returncode, blank.stdout) == (0, "blank.md has no text.\n")
    broken = place.run("show", "nonsense.pdf")
    assert broken.returncode == 1
    assert "nonsense.pdf cannot be read: Not a valid PDF" in broken.stderr
    for name in ("blank.md", "nonsense.pdf"):
        (place.notes / name).unlink()
    place.sync()


def test_the_beginning_of_an_id_is_enough(place: Place) -> None:
    mira = id_of(place, "mira.md")
    assert place.run("graph", mira[:8]).stdout == place.run("graph", mira).stdout
    short = place.run("graph", mira[:3])
    assert short.returncode == 1
    assert "id" in short.stderr


def test_a_missing_passage_is_an_error(place: Place) -> None:
    ran = place.run("graph", "0123456789abcdef")
    assert ran.returncode == 1
    assert "0123456789abcdef" in ran.stderr


def test_one_frame_of_top_tells_sources_work_and_requests(place: Place) -> None:
    place.query("Ostrava")
    ran = place.run("top", "--once")
    assert ran.returncode == 0, ran.stderr
    now = place.status()
    told = f"version {now['version']}: {now['documents']} documents, {now['passages']} passages"
    assert told in ran.stdout
    assert re.search(r"^[\d.]+ queries/s, \d+ in total", ran.stdout, re.MULTILINE)
    assert re.search(r"^idle; next: (scan notes|gc) in ", ran.stdout, re.MULTILINE)
    assert re.search(r"^notes +folder +ok +\d +0 ", ran.stdout, re.MULTILINE)
    assert re.search(r"^query +\d+ +[\d.]+ +0 +[\d.]+ +[\d.]+$", ran.stdout, re.MULTILINE)
    assert "\x1b" not in ran.stdout


def test_top_ends_with_q_and_gives_the_terminal_back(place: Place) -> None:
    status, shown = at_terminal(place.home, "top", key=b"q", once_seen=b"queries/s")
    assert status == 0
    assert shown.index("\x1b[?1049h") < shown.index("queries/s") < shown.index("\x1b[?1049l")


def test_long_work_shows_that_it_goes_on_and_leaves_its_result_alone(place: Place) -> None:
    for command, doing in ((("check", "--deep"), "checking"), (("sync", "--wait"), "scanning")):
        status, shown = at_terminal(place.home, *command)
        assert status == 0
        assert doing in shown
        assert "\x1b[2K" in shown.split(doing)[-1], "the bar is wiped away"
        piped = place.run(*command)
        assert piped.stderr == ""
        assert doing not in piped.stdout
        assert shown.replace("\r\n", "\n").endswith(piped.stdout)


def test_running_text_is_as_wide_as_the_terminal(place: Place) -> None:
    place.write("long.md", "# Long\n\n" + "The barge carries salt. " * 20 + "\n")
    place.sync()
    _, narrow = at_terminal(place.home, "query", "barge salt", "-k", "1", columns=50)
    assert "\x1b[1m1. Long" in narrow
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", narrow).splitlines() if "barge" in line]
    assert len(lines) > 5
    assert all(len(line) <= 50 for line in lines)


def test_the_lines_of_a_list_stay_lines_and_only_the_first_are_shown(place: Place) -> None:
    place.write("cargo.md", "# Cargo\n\n" + "".join(f"- crate {n}\n" for n in range(12)))
    place.sync()
    shown = place.run("query", "cargo crate", "-k", "1").stdout
    assert "   crate 0\n   crate 1\n" in shown
    assert "   crate 7\n   ...\n" in shown
    assert "crate 8" not in shown


def test_control_sequences_in_documents_do_not_reach_the_terminal(place: Place) -> None:
    asked = ("query", "Ostrava river", "-k", "1")
    for more, escaped in (((), "\\x1b[31m\\x9b31m"), (("--json",), "\\u001b[31m\\u009b31m")):
        _, shown = at_terminal(place.home, *asked, *more)
        assert escaped in shown
        assert "\x1b[31m" not in shown and "\x9b" not in shown


class _Rude(socketserver.StreamRequestHandler):
    """An IMAP server that sends whoever comes away, in red."""

    def handle(self) -> None:
        self.wfile.write(b"* BYE \x1b[31mgo away\r\n")


def test_control_sequences_from_a_server_do_not_reach_the_terminal() -> None:
    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Rude) as server,
        new_place(SMALL) as place,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place.variables["HOPSYNCD_IMAP_PASSWORD"] = "x"
        place.configure(
            '[[source]]\nname = "mail"\nkind = "imap"\nhost = "127.0.0.1"\nuser = "ann"\n'
            f'tls = "off"\nport = {server.server_address[1]}\n'
        )
        place.start()
        place.sync()
        for command in (("status",), ("sources",), ("sync", "--wait"), ("sync", "--dry-run")):
            status, shown = at_terminal(place.home, *command)
            assert status == 0
            assert "\\x1b[31mgo away" in shown
            assert "\x1b[31mgo away" not in shown
        server.shutdown()


def test_places_are_hyperlinks_where_the_terminal_shows_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"\x1b]8;;{(place.notes / 'door.md').as_uri()}\x1b\\notes: door.md:"
    for command in (("query", "Bronze Door"), ("show", "door.md")):
        monkeypatch.setenv("FORCE_HYPERLINK", "1")
        assert address in at_terminal(place.home, *command, columns=200)[1]
        assert "\x1b]8" not in place.run(*command).stdout
        monkeypatch.setenv("FORCE_HYPERLINK", "0")
        assert "\x1b]8" not in at_terminal(place.home, *command, columns=200)[1]


def test_a_question_needs_no_quotes(place: Place) -> None:
    quoted = place.printed("query", "Who was born in Ostrava?", "-k", "2")
    assert place.printed("query", "Who", "was", "born", "-n", "2", "in", "Ostrava?") == quoted
    asked = place.printed("ask", "Who", "was", "born", "in", "Ostrava?")
    assert asked == place.printed("ask", "Who was born in Ostrava?")
    assert place.printed("watch", "Who", "runs", "it")["watch"]["question"] == "Who runs it"


def test_show_opens_the_only_document_of_a_name(place: Place) -> None:
    ran = place.run("show", "Mira")
    assert ran.returncode == 0, ran.stderr
    assert "Kaltenbrunn was born in Ostrava." in ran.stdout
    assert ran.stderr == "note: There is no document Mira. Showing notes: mira.md\n"
    place.write("more/mira.txt", "Another Mira.\n")
    place.sync()
    several = place.run("show", "mira")
    assert (several.returncode, several.stdout) == (1, "")
    assert "notes: mira.md" in several.stderr and "notes: more/mira.txt" in several.stderr
    (place.notes / "more/mira.txt").unlink()
    place.sync()
    near = place.run("show", "mirra.md")
    assert (near.returncode, near.stdout) == (1, "")
    assert "Did you mean notes: mira.md?" in near.stderr


def test_a_failure_at_a_terminal_is_red_and_breaks_between_words(place: Place) -> None:
    status, shown = at_terminal(place.home, "show", "nothing-of-this-name.md", columns=40)
    assert status == 1
    assert shown.startswith("\x1b[31m\x1b[1mhopsyncd:\x1b[0m There is no document")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[-1].endswith("of the source")


def test_no_line_is_wider_than_the_terminal(place: Place) -> None:
    door = id_of(place, "door.md")
    commands = [
        ("query", "Where was the director of Bronze Door born?"),
        ("ask", "Where was the director of Bronze Door born?"),
        ("graph", door),
        ("log", "--verbose"),
        ("diff", "1"),
        ("why", "Where was Kaltenbrunn born?", "1"),
    ]
    for columns in (40, 80):
        for command in [*commands, *([("--help",)] if columns == 80 else [])]:
            status, shown = at_terminal(place.home, *command, columns=columns)
            assert status == 0, shown
            lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
            wide = [line for line in lines if len(line) > columns and " " in line.strip()]
            assert wide == [], command


def test_json_has_the_absolute_path_of_each_document(place: Place) -> None:
    path = str(place.notes / "mira.md")
    for command in (
        ("query", "Where was Kaltenbrunn born?"),
        ("show", "mira.md"),
        ("graph", "mira.md"),
    ):
        passages = place.printed(*command)["passages"]
        assert {passage["path"] for passage in passages if passage["document"] == "mira.md"} == {
            path
        }
    assert path in {
        citation["path"] for citation in place.printed("ask", "Kaltenbrunn")["citations"]
    }


def test_why_shows_how_the_answer_changed_and_leaves_internals_out(place: Place) -> None:
    place.write("bell.md", "# Bell\n\nThe bell of Vik was cast by Osk.\n")
    before = place.sync()["version"]
    place.write("bell.md", "# Bell\n\nThe bell of Vik was cast by Tor.\n")
    place.sync()
    question = "Who cast the bell of Vik?"
    output = place.run("why", *question.split(), str(before)).stdout
    assert output == place.run("why", question, str(before), "--at", "head").stdout
    assert "the answer changed" in output
    assert "-The bell of Vik was cast by Osk." in output
    assert "+The bell of Vik was cast by Tor." in output
    assert "bell.md (edited)" in output
    assert "matched directly" not in output
    assert "matched directly" in place.run("why", question, str(before), "--verbose").stdout
    (place.notes / "bell.md").unlink()
    place.sync()


def test_versions_are_named_by_times_as_people_type_them(place: Place) -> None:
    now = place.status()["version"]
    assert place.printed("query", "Ostrava", "--at", "now")["version"] == now
    early = place.run("diff", "2 days ago")
    assert early.returncode == 1
    assert "the oldest version was created later, at 20" in early.stderr
    recent = place.printed("query", "Ostrava", "--since", "yesterday", "--limit", "2")
    assert recent["passages"] and recent["understood"]["filter"] == "since:yesterday"
    refused = place.run("tag", "yesterday")
    assert refused.returncode == 1
    assert "could be read as a version or a time" in refused.stderr
    assert place.run("tag", "market").returncode == 0


def test_words_of_the_question_are_marked_at_a_terminal(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("query", "Who", "was", "born", "in", "the", "town", "-n", "1")
    _, shown = at_terminal(place.home, *asked)
    assert "\x1b[1mborn\x1b[0m in Ostrava" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    _, plain = at_terminal(place.home, *asked)
    assert "was born in Ostrava" in plain and "\x1b" not in plain
    assert "\x1b" not in place.run(*asked).stdout
