"""The commands as documented: what they print, what --json holds, and how they fail."""

import json
import tomllib

import pytest

from tests.e2e.daemon import ROOT, Place, source

COUNTERS = {"passages_generated", "texts_embedded", "queries"}
SHARES = [f"{name}@{k}" for name in ("recall", "precision", "f1", "all") for k in (2, 5, 10, 20)]
SCORES = {
    *SHARES,
    *(f"{share}_interval" for share in SHARES),
    *("reciprocal_rank", "ms_p50", "ms_p95", "llm_calls", "llm_tokens"),
}


def test_the_file_that_init_writes_is_used_afterwards(place: Place) -> None:
    (place.base / "more").mkdir()
    ran = place.run("init", "--folder", str(place.notes), "--folder", str(place.base / "more"))
    assert ran.returncode == 0
    assert str(place.home / "config.toml") in ran.stdout
    assert "hopsyncd serve" in ran.stdout
    written = tomllib.loads((place.home / "config.toml").read_text())
    assert [one["path"] for one in written["source"]] == [
        str(place.notes),
        str(place.base / "more"),
    ]


def test_init_without_a_folder_says_what_to_edit(place: Place) -> None:
    ran = place.run("init")
    assert ran.returncode == 0
    assert "[[source]]" in ran.stdout


def test_init_does_not_overwrite_a_configuration(place: Place) -> None:
    place.configure("# mine\n")
    ran = place.run("init", "--folder", str(place.notes))
    assert ran.returncode == 1
    assert "already exists" in ran.stderr and "hopsyncd add" in ran.stderr
    assert (place.home / "config.toml").read_text() == "# mine\n"


def test_a_data_folder_that_cannot_be_made_is_named(place: Place) -> None:
    (place.base / "file").write_text("no folder")
    place.configure(f'[daemon]\ndata_dir = "{place.base}/file/data"\n')
    ran = place.run("serve")
    assert ran.returncode == 1
    assert f"Cannot create the data folder {place.base}/file/data: not a directory" in ran.stderr
    assert "daemon.data_dir" in ran.stderr


@pytest.mark.models
def test_the_config_of_init_serves_its_folder(place: Place) -> None:
    place.write("tide.md", "The tide table hangs beside the stove.\n")
    assert place.run("init", "--folder", str(place.notes)).returncode == 0
    place.start()
    place.until(lambda: place.status()["documents"] == 1)  # a sync that takes long says so
    synced = place.run("sync", "--wait")
    assert (synced.returncode, synced.stderr) == (0, "")
    assert "notes: " in synced.stdout
    answered = place.run("query", "Where does the tide table hang?", "-k", "1")
    assert "notes: tide.md:1" in answered.stdout
    assert "beside the stove" in answered.stdout
    assert place.stop()[0] == 0


@pytest.mark.parametrize("command", [["query", "who?"], ["status"], ["sources"], ["sync"]])
def test_without_a_daemon_a_command_says_how_to_start_one(place: Place, command: list[str]) -> None:
    ran = place.run(*command)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert f"No daemon answers at {place.socket}" in ran.stderr
    assert "hopsyncd serve" in ran.stderr


@pytest.mark.parametrize("command", [["serve"], ["status"], ["query", "who?"]])
def test_a_typo_in_the_config_is_refused_with_line_and_suggestion(
    place: Place, command: list[str]
) -> None:
    place.configure("[watch]\nenabled = true\ndebounce = 100\n" + source("notes", place.notes))
    ran = place.run(*command)
    assert ran.returncode == 1
    assert f"{place.home}/config.toml:3" in ran.stderr
    assert "Did you mean `debounce_ms`?" in ran.stderr


def test_config_is_a_global_option(place: Place) -> None:
    ran = place.run("--config", str(place.base / "none.toml"), "status")
    assert ran.returncode == 1
    assert f"{place.base}/none.toml" in ran.stderr


@pytest.mark.models
def test_query_prints_json_on_request(daemon: Place) -> None:
    answer = daemon.printed("query", "Who repairs clocks in Bergen?", "-k", "2")
    assert answer.keys() >= {"version", "strategy", "degraded", "passages"}
    assert (answer["strategy"], len(answer["passages"])) == ("hop", 2)
    first = answer["passages"][0]
    assert first.keys() >= set("id text source document heading lines score hops".split())
    assert (first["source"], first["document"]) == ("notes", "people/lindqvist.md")
    assert (first["heading"], first["lines"]) == (["Tove Lindqvist"], [3, 3])


@pytest.mark.models
def test_status_and_sources_print_json_on_request(daemon: Place) -> None:
    status = daemon.printed("status")
    assert status.keys() >= {"version", "sources", "counters", "degraded", "problems"}
    assert status["version"] >= 1
    assert status["counters"].keys() >= COUNTERS
    assert all(isinstance(count, int) for count in status["counters"].values())
    assert status["models"]["llm_endpoint"] is None
    sources = daemon.printed("sources")
    # A scan may end between the two commands.
    one, other = (
        [{**of, "scanned": None, "next": None} for of in told["sources"]]
        for told in (sources, status)
    )
    assert one == other
    assert {one["name"] for one in sources["sources"]} == {"notes", "away"}
    daemon.until(lambda: all(one["watching"] for one in daemon.get("/v1/sources")["sources"]))


@pytest.mark.models
def test_sync_prints_json_on_request(daemon: Place) -> None:
    daemon.sync()
    synced = daemon.printed("sync", "--wait", "notes")
    assert synced["version"] == daemon.status()["version"]
    (notes,) = synced["sources"]
    since = daemon.printed("sync", "--wait", "notes")["sources"][0].pop("since")
    assert since == synced["version"]
    assert notes.keys() == {
        *("name", "since", "added", "changed", "moved", "removed", "unreadable", "problem")
    }
    assert daemon.printed("sync") == {"accepted": True}


@pytest.mark.models
def test_status_prints_readable_text(daemon: Place) -> None:
    ran = daemon.run("status")
    assert ran.returncode == 0
    assert f"notes (folder {daemon.notes}): ok" in ran.stdout
    assert "no passage or question leaves this machine" in ran.stdout


@pytest.mark.models
def test_eval_prints_every_measure_of_every_strategy(place: Place) -> None:
    corpus, questions = place.base / "corpus.jsonl", place.base / "questions.jsonl"
    lines = [
        {"id": "a", "title": "Ada", "text": "Ada lives in Upper Wick."},
        {"id": "b", "title": "Upper Wick", "text": "Upper Wick has a windmill."},
        {"id": "c", "title": "Bread", "text": "Bread is baked from flour."},
    ]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    question = {"id": "q", "question": "Where does Ada live?", "answers": ["x"], "gold": ["a", "b"]}
    questions.write_text(json.dumps(question) + "\n")
    files = ("--corpus", str(corpus), "--questions", str(questions))
    result = place.printed("eval", *files, "--strategy", "hop", "--strategy", "bm25")
    assert result["strategies"].keys() == {"hop", "bm25"}
    assert all(scores.keys() == SCORES for scores in result["strategies"].values())
    assert result["strategies"]["hop"]["recall@2"] == 100.0
    assert result["index_s"] > 0
    assert (result["llm_calls"], result["llm_tokens"]) == (0, 0)
    ran = place.run("eval", *files)
    table = ran.stdout
    assert "indexing: " in ran.stderr
    assert all(name in table for name in ("hop", "bm25", "dense", "hybrid", "recall@20", "all@5"))
    assert {path.name for path in (place.home / "data").glob("*")} <= {"cache"}  # the encoder's


@pytest.mark.models
def test_eval_of_the_notes_and_mail_of_a_team_shows_what_the_walk_is_for(place: Place) -> None:
    team = ROOT / "benchmarks/team"
    files = ("--folder", str(team), "--questions", str(team / "questions.jsonl"))
    result = place.printed("eval", *files)
    assert result["notes"] == []
    several = {name: scores["all@5"] for name, scores in result["kinds"]["multi"].items()}
    assert several["hop"] >= several["hybrid"] + 10 and several["hop"] >= several["dense"] + 10


@pytest.mark.models
def test_eval_of_ones_own_index_while_the_daemon_runs(daemon: Place) -> None:
    report, ranks = daemon.base / "report", daemon.base / "ranks.jsonl"
    before = daemon.status()["version"]
    files = ("--report", str(report), "--per-question", str(ranks))
    result = daemon.printed("eval", "--self", "--questions", "3", "--answers", *files)
    assert 1 <= result["questions"] <= 3
    assert result["strategies"].keys() == {"hop", "statement", "topic", "bm25", "dense", "hybrid"}
    assert all("answer_f1" in scores for scores in result["strategies"].values())
    assert any("favour `hop`" in note for note in result["notes"])
    lines = [json.loads(line) for line in ranks.read_text().splitlines()]
    assert all(len(line["gold"]) == 2 for line in lines)
    assert "favour `hop`" in (report / "report.md").read_text()
    assert daemon.status()["version"] == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "Use --corpus or --folder with --questions"),
        (["--self", "--questions", "many"], "a number from 1 to 1000"),
        (["--self", "--folder", "."], "Use --self without a corpus"),
    ],
)
def test_eval_says_which_options_do_not_go_together(
    place: Place, options: list[str], told: str
) -> None:
    ran = place.run("eval", *options)
    assert ran.returncode == 2
    assert told in ran.stderr
