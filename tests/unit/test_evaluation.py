"""The evaluation: what its files must be, and that its measures are those of the definition."""

import json
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.cli.evaluate import print_table
from hopsyncd.config.values import STRATEGIES, Search
from hopsyncd.errors import BadRequest
from hopsyncd.evaluation.corpus import GoldQuestion, read_corpus, read_questions
from hopsyncd.evaluation.report import (
    Measured,
    format_evaluation,
    format_question_lines,
    write_report,
)
from hopsyncd.evaluation.run import (
    Answers,
    Evaluation,
    Experiment,
    choose_kept_folder,
    evaluate,
    list_searches,
)
from hopsyncd.models.llm.call import LlmCall
from hopsyncd.models.loading import Models
from hopsyncd.models.questions import BuiltinMaker
from store.records import Passage
from tests.fakes.llm import FakeLlm
from tests.fakes.models import CountingMaker, FakeEncoder, FakeLanguage

CORPUS = {
    "a": Passage(("Ada",), "Ada lives in Upper Wick."),
    "b": Passage(("Upper Wick",), "A windmill stands on the hill."),
    **{f"x{n}": Passage((f"Filler {n}",), f"Nothing but filler number {n}.") for n in range(30)},
}


def written(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def models(llm: FakeLlm | None = None) -> Models:
    encoder, language = FakeEncoder(), FakeLanguage()
    return Models(encoder, language, CountingMaker(BuiltinMaker(language, encoder)), llm)


def measured(
    folder: Path,
    *questions: GoldQuestion,
    answers: Answers = "none",
    llm: FakeLlm | None = None,
) -> Evaluation:
    searches: dict[str, Search] = {name: Search(name) for name in STRATEGIES}
    experiment = Experiment(searches, models(llm), answers=answers)
    return evaluate(folder, CORPUS, questions, experiment)


def asked(question: str, *gold: str, answers: tuple[str, ...] = ()) -> GoldQuestion:
    return GoldQuestion("q", question, answers, frozenset(gold))


def test_lines_become_passages_with_their_title_as_heading(tmp_path: Path) -> None:
    lines = [{"id": "a", "title": "T", "text": "x"}, {"id": 2, "title": "", "text": "y"}]
    file = written(tmp_path / "c.jsonl", lines)
    assert read_corpus(file) == {"a": Passage(("T",), "x"), "2": Passage((), "y")}


def test_questions_name_gold_passages(tmp_path: Path) -> None:
    line = {"id": "q1", "question": "who?", "answers": ["me"], "gold": ["a", "b"]}
    (question,) = read_questions(written(tmp_path / "q.jsonl", [line]), CORPUS)
    assert question == GoldQuestion("q1", "who?", ("me",), frozenset({"a", "b"}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"id": "a", "text": "x"}\n\n{"id": "b"}\n', ":3: the key 'text' is missing"),
        ('{"text": "x"}\n', ":1: the key 'id' is missing"),
        ('{"id": "a", "text": "x"}\n["a"]\n', ":2: the line is not a JSON object"),
        ('{"id": "a", "text": "x"}\n{"id":\n', ":2: the line is not valid JSON"),
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', ":2: the id 'a' occurs twice"),
        ("", ":1: the file contains no passage"),
    ],
)
def test_a_bad_corpus_line_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_text(text)
    with pytest.raises(BadRequest) as refused:
        read_corpus(file)
    assert f"{file}{told}" in str(refused.value)
    assert "{id, title, text}" in refused.value.hint


def test_a_corpus_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    file.write_bytes(b'{"id": "a", "text": "x"}\n{"id": "b", "text": "caf\xe9"}\n')
    with pytest.raises(BadRequest, match=r"c\.jsonl:2.*UTF-8"):
        read_corpus(file)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"id": "q", "question": "who?"}, "the key 'gold' is missing"),
        ({"id": "q", "gold": ["a"]}, "the key 'question' is missing"),
        ({"id": "q", "question": "who?", "gold": []}, "`gold` is empty"),
        ({"id": "q", "question": "who?", "gold": ["zz"]}, "ids that are not in the corpus: zz"),
        ({"id": "q", "question": "who?", "gold": 3}, "the wrong type"),
    ],
)
def test_a_bad_question_line_is_named(tmp_path: Path, line: dict[str, Any], told: str) -> None:
    good = {"id": "g", "question": "who?", "gold": ["a"]}
    file = written(tmp_path / "q.jsonl", [good, line])
    with pytest.raises(BadRequest) as refused:
        read_questions(file, CORPUS)
    assert f"{file}:2" in str(refused.value)
    assert told in str(refused.value)


def test_recall_is_the_share_of_gold_passages_found(tmp_path: Path) -> None:
    """By its words the question finds one of its two gold passages first, and only that one."""
    result = measured(tmp_path, asked("Where does Ada live?", "a", "b"))
    words = result.scores["bm25"]
    assert words.recall == {2: 50.0, 5: 50.0, 10: 50.0, 20: 50.0}
    assert words.precision == {2: 50.0, 5: 20.0, 10: 10.0, 20: 5.0}
    assert words.f1[2] == 50.0
    assert (words.recall[5].low, words.recall[5].high) == (50.0, 50.0)
    assert words.whole[5] == 0.0


def test_the_walk_finds_the_second_hop(tmp_path: Path) -> None:
    result = measured(tmp_path, asked("Where does Ada live?", "a", "b"))
    assert result.scores["hop"].recall[5] == 100.0
    assert result.scores["hop"].whole[5] == 100.0


def test_measures_are_means_over_the_questions(tmp_path: Path) -> None:
    found, half = asked("Ada", "a"), asked("Ada", "a", "b")
    words = measured(tmp_path, found, half).scores["bm25"]
    assert words.recall[2] == 75.0
    assert words.whole[5] == 50.0


def test_a_report_says_what_was_indexed_and_how_long_it_took(tmp_path: Path) -> None:
    result = measured(tmp_path, asked("Ada", "a"))
    assert result.scores.keys() == set(STRATEGIES)
    assert result.passages == len(CORPUS)
    assert result.edges > 0
    assert result.index_s > 0
    for scores in result.scores.values():
        assert 0 < scores.ms_p50 <= scores.ms_p95


def test_no_answer_is_made_unless_wanted(tmp_path: Path) -> None:
    result = measured(tmp_path, asked("Ada", "a"))
    assert result.answers["hop"] is None
    assert (result.scores["hop"].llm_calls, result.scores["hop"].llm_tokens) == (0, 0)


def test_answers_are_compared_with_the_gold_ones(tmp_path: Path) -> None:
    """The first is answered with its sentence; the answer to the second is not in the corpus."""
    here = asked("Where does Ada live?", "a", answers=("the Upper Wick",))
    absent = asked("How many moons orbit Neptune?", "b", answers=("14",))
    result = measured(tmp_path, here, absent, answers="extractive")
    scores, (first, second) = result.answers["hop"], result.outcomes["hop"]
    assert scores and first.reply and second.reply
    assert (first.reply.brief, first.em) == ("Ada lives in Upper Wick.", 0)
    assert first.f1 == pytest.approx(4 / 7)
    assert (second.reply.brief, second.em, second.f1) == ("", 0, 0)
    assert (scores.em, scores.refused_wrongly) == (0.0, 50.0)
    assert scores.f1 == pytest.approx(200 / 7)


def test_calls_and_tokens_of_an_llm_are_means_a_question(tmp_path: Path) -> None:
    def play(call: LlmCall) -> str:
        return json.dumps({"found": True, "answer": "Upper Wick", "citations": [1]})

    question = asked("Where does Ada live?", "a", answers=("upper wick",))
    result = measured(tmp_path, question, answers="llm", llm=FakeLlm(play))
    answers, scores = result.answers["bm25"], result.scores["bm25"]
    assert answers and answers.em == 100.0
    assert (scores.llm_calls, scores.llm_tokens) == (1, 120)


def test_a_stored_index_is_built_once_for_a_corpus_and_its_settings(tmp_path: Path) -> None:
    loaded = models()
    assert isinstance(loaded.maker, CountingMaker)
    folder = choose_kept_folder(tmp_path, CORPUS, loaded.maker, 1.0)
    for _ in range(2):
        evaluate(folder, CORPUS, [asked("Ada", "a")], Experiment({"hop": Search()}, loaded))
    assert len(loaded.maker.made) == len(CORPUS)
    changed = CORPUS | {"a": Passage(("Ada",), "Ada lives in Lower Wick.")}
    wider = BuiltinMaker(FakeLanguage(), FakeEncoder(24))
    others = {
        choose_kept_folder(tmp_path, changed, loaded.maker, 1.0),
        choose_kept_folder(tmp_path, CORPUS, wider, 1.0),
        choose_kept_folder(tmp_path, CORPUS, loaded.maker, 2.0),
    }
    assert len(others | {folder}) == 4


def test_a_sweep_contains_each_search_only_once() -> None:
    searches = list_searches(
        ["hop", "bm25", "decompose"],
        ["default", "paper"],
        ["walk", "similarity"],
        [4, 8],
        [2],
    )
    assert list(searches) == [
        "hop reasoner=walk n_hop=2",
        "hop reasoner=similarity top_k=4 n_hop=2",
        "hop reasoner=similarity top_k=8 n_hop=2",
        "hop profile=paper reasoner=similarity top_k=4 n_hop=2",
        "hop profile=paper reasoner=similarity top_k=8 n_hop=2",
        "bm25",
        "decompose",
    ]
    assert searches["bm25"] == Search("bm25")
    assert list_searches(["hop"]) == {"hop": Search()}
    assert list_searches(["hop"], ["paper"], ["walk"]) == {}


def test_a_report_has_its_tables_and_plots(tmp_path: Path) -> None:
    searches = list_searches(["hop", "bm25"], n_hops=[1, 3])
    result = evaluate(
        tmp_path / "store",
        CORPUS,
        [asked("Where does Ada live?", "a", "b", answers=("x",))],
        Experiment(searches, models(), answers="extractive"),
    )
    written = write_report(tmp_path / "r", Measured("Mine", ["A note."], searches, result))
    reply = json.loads((tmp_path / "r/report.json").read_text())
    page = (tmp_path / "r/report.md").read_text()
    assert reply["strategies"].keys() == {"hop n_hop=1", "hop n_hop=3", "bm25"}
    assert reply["strategies"]["bm25"]["precision@5"] == 20.0
    assert "# Mine" in page and "A note." in page
    assert "| hop n_hop=3 | 100.0 (20.6 to 100.0) |" in page and "answer em" in page
    plots = [file for file in written if file.suffix == ".png"]
    assert {file.name for file in plots} == {
        "recall_by_depth.png",
        "recall_at_5.png",
        "recall_by_n_hop.png",
    }
    for file in plots:
        assert file.read_bytes().startswith(b"\x89PNG")
        assert f"({file.name})" in page


def test_the_table_of_the_command_has_the_shares_of_the_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = asked("Where does Ada live?", "a", answers=("the Upper Wick",))
    result = measured(tmp_path, question, answers="extractive")
    print_table(Measured("", ["A note."], {}, result))
    printed = capsys.readouterr().out
    assert "answer em" in printed and "A note." in printed
    assert "interval" not in printed


def test_each_question_is_reported_with_the_ranks_of_its_gold_passages(tmp_path: Path) -> None:
    result = measured(tmp_path, asked("Where does Ada live?", "a", "b"))
    lines = [json.loads(line) for line in format_question_lines(result).splitlines()]
    (words,) = [line for line in lines if line["search"] == "bm25"]
    assert words["gold"] == {"a": 1, "b": None}
    assert len(lines) == len(STRATEGIES)


def test_the_totals_of_the_json_are_over_all_searches(tmp_path: Path) -> None:
    def play(_: LlmCall) -> str:
        return json.dumps({"found": False})

    question = asked("Where does Ada live?", "a", answers=("x",))
    result = measured(tmp_path, question, question, answers="llm", llm=FakeLlm(play))
    told = format_evaluation(Measured("", [], {}, result))
    assert told["questions"] == 2
    assert told["llm_calls"] == 2 * len(STRATEGIES)
