"""Reads the files of an evaluation: a corpus, and questions with the ids of gold passages."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopsyncd.errors import BadRequest
from store.records import Passage


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with its gold passages: the corpus lines or quotes that support the answer.

    Its `kind` is `none` if no document answers the question.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    gold: frozenset[str]
    kind: str = ""


def read_corpus(path: Path) -> dict[str, Passage]:
    """Read a corpus of lines {id, title, text}. The title becomes the heading of the passage.

    Raises BadRequest if the file cannot be read or has no passage, if a line is invalid, or if an
    id occurs twice.
    """
    corpus: dict[str, Passage] = {}
    for number, line in read_lines(path):
        try:
            title = str(line.get("title") or "")
            id_, passage = str(line["id"]), Passage((title,) if title else (), str(line["text"]))
        except KeyError as error:
            raise _bad_line_error(path, number, f"the key {error} is missing") from error
        if id_ in corpus:
            raise _bad_line_error(path, number, f"the id {id_!r} occurs twice")
        corpus[id_] = passage
    if not corpus:
        raise _bad_line_error(path, 1, "the file contains no passage")
    return corpus


def read_questions(path: Path, corpus: dict[str, Passage]) -> list[GoldQuestion]:
    """Read questions of lines {id, question, answers, gold: [ids]}.

    Raises BadRequest if the file cannot be read or has no questions, if a line is invalid, or if
    `gold` is empty or has an id that is not in `corpus`.
    """
    questions = []
    for number, line in read_lines(path):
        try:
            question = GoldQuestion(
                str(line["id"]),
                str(line["question"]),
                tuple(str(answer) for answer in line.get("answers", ())),
                frozenset(str(gold) for gold in line["gold"]),
            )
        except (KeyError, TypeError) as error:
            raise _bad_line_error(
                path, number, f"the key {error} is missing or has the wrong type"
            ) from error
        unknown = question.gold - corpus.keys()
        if unknown or not question.gold:
            raise _bad_line_error(
                path,
                number,
                "`gold` has ids that are not in the corpus: " + ", ".join(sorted(unknown))
                if unknown
                else "`gold` is empty",
            )
        questions.append(question)
    if not questions:
        raise _bad_line_error(path, 1, "the file contains no questions")
    return questions


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the JSON object of each line that is not empty.

    Raises BadRequest if the file cannot be read or a line is not a JSON object.
    """
    number = 0
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                line = json.loads(text.decode())
                if not isinstance(line, dict):
                    raise _bad_line_error(path, number, "the line is not a JSON object")
                yield number, line
    except json.JSONDecodeError as error:
        raise _bad_line_error(path, number, f"the line is not valid JSON ({error.msg})") from error
    except UnicodeDecodeError as error:
        raise _bad_line_error(path, number, "the line is not UTF-8") from error
    except OSError as error:
        raise BadRequest(
            f"Cannot read {path}", str(error.strerror).lower(), "Check the path and the permissions"
        ) from error


def _bad_line_error(path: Path, number: int, why: str) -> BadRequest:
    return BadRequest(
        f"Cannot use {path}:{number}",
        why,
        "Corpus lines are {id, title, text}, question lines {id, question, answers, gold: [ids]}",
    )
