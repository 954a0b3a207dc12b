"""Questions over the socket: two hops, every strategy, curl, and languages beside English."""

import json
import re
import shutil
import subprocess

import pytest

from tests.e2e.daemon import Place

pytestmark = pytest.mark.models

TWO_HOPS = "What is found where the director of The Bronze Door grew up?"
GLASS = "places/ostrava-vale.md"


def test_a_two_hop_question_is_answered_and_explained(daemon: Place) -> None:
    answered = daemon.run("query", TWO_HOPS, "--explain")
    assert answered.returncode == 0, answered.stderr
    assert "1. The Bronze Door" in answered.stdout
    assert f"notes: {GLASS}:3" in answered.stdout
    hop = (
        r"Mira Kaltenbrunn.*\n +└── (raises a question that is answered in|shares a name with)"
        r" Ostrava Vale: ostrava vale \(\d+% of"
    )
    assert re.search(hop, answered.stdout, re.IGNORECASE)


def test_hops_name_documents_and_lead_to_their_passage(daemon: Place) -> None:
    passages = daemon.query(TWO_HOPS)
    glass = next(passage for passage in passages if passage["document"] == GLASS)
    assert glass["hops"]
    last = glass["hops"][-1]
    assert last["to"]["document"] == GLASS
    assert last["to"]["id"] == glass["id"]
    assert last["from"]["document"] == "people/kaltenbrunn.md"
    assert last["question"].lower() == "what is said of ostrava vale?"
    assert last["asked_by"] in ("from", "both")
    assert 0 < last["share"] <= 1
    joined = zip(glass["hops"], glass["hops"][1:], strict=False)
    assert all(before["to"] == after["from"] for before, after in joined)


@pytest.mark.parametrize("strategy", ["statement", "topic"])
def test_statements_are_shown_with_the_path_that_led_to_them(daemon: Place, strategy: str) -> None:
    search = ("--strategy", strategy, "--unit", "statement", "-k", "20")
    question = "the glass furnace in the village of Mira Kaltenbrunn"
    drawn = daemon.run("query", question, *search, "--explain")
    assert drawn.returncode == 0, drawn.stderr
    output = json.loads(daemon.run("query", question, *search, "--json").stdout)["passages"]
    paths = [passage["statements"] for passage in output]
    assert len({path[-1]["text"] for path in paths}) == len(paths)
    (first, last, *_) = next(path for path in paths if len(path) > 1)
    assert first["name"] is None and last["name"].split()[0] in last["text"]
    assert f"-- {last['name']}: " in " ".join(drawn.stdout.split())


def test_every_strategy_answers_in_the_same_shape(daemon: Place) -> None:
    shapes = set()
    for strategy in ("hop", "statement", "topic", "bm25", "dense", "hybrid", "decompose"):
        answer = daemon.post("/v1/query", {"question": "Bergen clocks", "strategy": strategy})
        assert answer["strategy"] == strategy
        assert answer["passages"][0]["document"] in ("people/lindqvist.md", "places/bergen.md")
        assert [p["score"] for p in answer["passages"]] == sorted(
            (p["score"] for p in answer["passages"]), reverse=True
        )
        shapes.add((frozenset(answer), *{frozenset(passage) for passage in answer["passages"]}))
    assert len(shapes) == 1


def test_a_question_is_narrowed_by_options_and_by_words_in_it(daemon: Place) -> None:
    for asked in (
        ("Bergen clocks", "--path", "people/", "--type", "md"),
        ("Bergen clocks path:people/ type:md",),
    ):
        answered = daemon.run("query", *asked)
        assert "searched for 'Bergen clocks' in path:people/ type:md:" in answered.stderr
        assert "notes: people/" in answered.stdout and "notes: places/" not in answered.stdout
    none = daemon.run("ask", "Bergen clocks", "--path", "poeple/")
    assert "0 documents, 0 passages" in none.stderr and "Did you mean path:people" in none.stderr
    assert "contains" not in none.stderr
    elsewhere = daemon.run("query", "clocks", "--path", "films/")
    assert "No passage in path:films/ contains 'clocks'." in elsewhere.stderr
    both = {"queries": [{"question": "Bergen"}, {"question": "Bergen", "filters": ["path:people"]}]}
    whole, narrowed = daemon.post("/v1/queries", both)["answers"]
    assert whole["understood"] is None and narrowed["understood"]["filter"] == "path:people"
    assert all(passage["document"].startswith("people/") for passage in narrowed["passages"])


def test_a_typo_is_corrected_and_the_correction_is_shown(daemon: Place) -> None:
    for command in ("query", "ask"):
        answered = daemon.run(command, "Who repairs the tower clokc of Bergen?")
        message = [line for line in answered.stderr.splitlines() if not line.startswith("note: ")]
        assert message[-1:] == ["searched for 'clock' instead of 'clokc'"]
        assert "people/lindqvist.md" in answered.stdout


def test_k_limits_the_answer_and_the_default_is_five(daemon: Place) -> None:
    assert len(daemon.query("Bergen", k=2)) == 2
    assert len(daemon.query("Bergen")) == 5


def test_an_old_version_can_still_be_searched(daemon: Place) -> None:
    note = daemon.write("old/ferry.md", "# Ferry\n\nThe ferry Halcyon sails on Mondays.\n")
    before = daemon.sync()["version"]
    note.write_text("# Ferry\n\nThe ferry Halcyon sails on Fridays.\n")
    assert daemon.sync()["version"] > before
    then = daemon.query("When does the ferry Halcyon sail?", at=str(before), k=1)
    assert "Mondays" in then[0]["text"]
    assert "Fridays" in daemon.query("When does the ferry Halcyon sail?", k=1)[0]["text"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_works_as_documented(daemon: Place) -> None:
    body = json.dumps({"question": TWO_HOPS})
    asked = subprocess.run(
        ["curl", "-sS", "--unix-socket", daemon.socket, "http://hopsyncd/v1/query", "-d", body],
        capture_output=True,
        timeout=180,
        check=True,
    )
    found = [passage["document"] for passage in json.loads(asked.stdout)["passages"]]
    assert GLASS in found


GERMAN = {
    "uhr.md": "# Die Turmuhr\n\nDie Turmuhr von Quedlinburg wurde vom Schlosser Veit Hagedorn "
    "gebaut, der dafür drei Jahre brauchte und am Ende kaum bezahlt wurde.\n",
    "brot.md": "# Roggenbrot\n\nDas Brot aus Roggen wird mit Sauerteig gebacken und hält sich in "
    "einem kühlen Keller mindestens zwei Wochen lang frisch.\n",
    "wald.md": "# Der Wald\n\nIm Wald hinter dem Dorf stehen alte Buchen, unter denen im Herbst "
    "viele Pilze wachsen, die niemand mehr kennt.\n",
}
JAPANESE = {
    "tokei.md": "# 時計塔\n\n町の時計塔は職人の佐藤健一が三年かけて作りました。"
    "毎朝六時に鐘が鳴ります。\n",
    "pan.md": "# パン屋\n\n駅前のパン屋では毎朝新しいパンを焼いています。"
    "一番人気は胡桃のパンです。\n",
    "mori.md": "# 森\n\n村の裏の森には古い杉の木が立っています。秋になると茸がたくさん生えます。\n",
}


@pytest.mark.parametrize("strategy", ["hop", "bm25"])
@pytest.mark.parametrize(
    ("notes", "question", "wanted"),
    [
        (GERMAN, "Welcher Schlosser hat die Turmuhr von Quedlinburg gebaut?", "uhr.md"),
        (GERMAN, "Wie lange hält sich Brot aus Roggen im Keller?", "brot.md"),
        (JAPANESE, "時計塔を作った職人は誰ですか", "tokei.md"),
        (JAPANESE, "森にはどんな木が立っていますか", "mori.md"),
    ],
)
def test_other_languages_are_found_by_a_question_in_them(
    daemon: Place, strategy: str, notes: dict[str, str], question: str, wanted: str
) -> None:
    for path, text in {**GERMAN, **JAPANESE}.items():
        daemon.write(f"languages/{path}", text)
    daemon.sync()
    assert wanted in notes
    assert daemon.documents(question, strategy=strategy, k=1) == [f"languages/{wanted}"]
