"""Prepares an answer for people: evidence cards, results by document, marked words, reasons."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from hopsyncd.display import (
    CELL_SHOWN,
    choose_document_title,
    format_document_name,
    format_title,
    show_cells,
)
from hopsyncd.formats.units import split_into_sentences
from hopsyncd.models.keywords import STOP_WORDS
from hopsyncd.text.words import list_index_terms, map_texts_to_terms
from hopsyncd.web.reading import show_box

Passage = Mapping[str, Any]

_WORD = re.compile(r"\w+")
_CITATION_MARK = re.compile(r"\[(\d{1,3})\]")
_SNIPPET_CHARACTERS = 320
_SHOWN_PER_DOCUMENT = 2
_BOTH_MENTION = "both mention"
_NAME = re.compile(r"\b[A-Z][\w\u2019'-]+(?:(?: of| the| de| von| van)? [A-Z0-9][\w\u2019'-]*)*")
_A_NAME = re.compile(r"\w[\w .\u2019'-]*[\w.]")
_LONGEST_NAME = 60
_ABOUT = re.compile(r"What is said of (.+)\?")
_THEN = re.compile(r"Then asked about (.+)")
_BELOW = " \u203a "


@dataclass(frozen=True, slots=True)
class Card:
    """A cited passage with its sentences of an answer.

    joined_by: the name that this passage shares with an earlier card's passage, or the question
    that led from that passage to this one; empty for the first card, or if no such name or question
    is known. joined_to: the number of the earlier card. is_name: whether joined_by is a name.
    """

    number: int
    passage: Passage
    sentences: Sequence[Markup]
    plain: str
    modified: str | None
    joined_by: str = ""
    joined_to: int = 0
    is_name: bool = False

    @property
    def sentence_text(self) -> Markup:
        """The sentences joined into one string. Code, list items and table rows have lines of their
        own."""
        text, was_laid_out = Markup(""), False
        for sentence in self.sentences:
            is_laid_out = "\n" in sentence or CELL_SHOWN in sentence
            joint = "\n" if is_laid_out or was_laid_out else " "
            text += joint + sentence if text else sentence
            was_laid_out = is_laid_out
        return text


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage in the results, with two lines of its text."""

    passage: Passage
    rank: int
    snippet: Markup
    also: str


@dataclass(slots=True)
class Group:
    """The results from one document. `more` has the results after the first two."""

    source: str | None
    document: str | None
    name: str
    title: str
    modified: str | None
    hits: list[Hit] = field(default_factory=list)

    @property
    def shown(self) -> Sequence[Hit]:
        return self.hits[:_SHOWN_PER_DOCUMENT]

    @property
    def more(self) -> Sequence[Hit]:
        return self.hits[_SHOWN_PER_DOCUMENT:]


@lru_cache(maxsize=64)
def list_question_terms(question: str) -> frozenset[str]:
    """Return the terms of a question to mark in texts, without words such as "the"."""
    words = [word for word in _WORD.findall(question) if word.casefold() not in STOP_WORDS]
    return frozenset(list_index_terms(" ".join(words)))


def mark_words(text: str, terms: frozenset[str]) -> Markup:
    """Convert text to HTML, and mark the words of a question in any form.

    >>> mark_words("She programmed <it>", list_question_terms("Who programs?"))
    Markup('She <mark>programmed</mark> &lt;it&gt;')
    """
    if not terms:
        return escape(text)
    by_word = map_texts_to_terms({word.lower() for word in _WORD.findall(text)})
    words = {word for word, word_terms in by_word.items() if not terms.isdisjoint(word_terms)}
    parts, end = list[Markup](), 0
    for match in _WORD.finditer(text):
        if match[0].lower() in words:
            parts.append(escape(text[end : match.start()]))
            parts.append(Markup("<mark>{}</mark>").format(match[0]))
            end = match.end()
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


def make_snippet(text: str, terms: frozenset[str]) -> Markup:
    """Return the text from the sentence with the most terms, as HTML with the terms marked.

    The result has up to `_SNIPPET_CHARACTERS` characters of the text, about two lines.
    """
    flat = flatten_text(text)
    if len(flat) <= _SNIPPET_CHARACTERS or not terms:
        return mark_words(flat[:_SNIPPET_CHARACTERS], terms)
    parts = list(split_into_sentences(flat))
    by_part = map_texts_to_terms(parts)
    scores = [len(terms & set(by_part[part])) for part in parts]
    best = max(range(len(parts)), key=lambda index: (scores[index], -index))
    start = "… " if best else ""
    cut = "".join(parts[best:])[:_SNIPPET_CHARACTERS]
    return Markup("{}{}").format(start, mark_words(cut, terms))


def flatten_text(text: str) -> str:
    """Put text on one line, with a dot between cells and between lines that are not prose.

    >>> flatten_text("Bring it.\\nSoon.\\n\\n[x] Call Ann\\n[ ] Ask Bo\\n\\na: 1 | b: 2")
    'Bring it. Soon. \u2611 Call Ann \u00b7 \u2610 Ask Bo \u00b7 a: 1 \u00b7 b: 2'
    """
    flat = ""
    lines = (show_box(" ".join(line.split())) for line in show_cells(text).split("\n"))
    for line in filter(None, lines):
        joint = " " if flat.endswith((".", "!", "?", ":", ";", ",")) else CELL_SHOWN
        flat += joint + line if flat else line
    return flat


def make_cards(answer: Mapping[str, Any], modified: Mapping[str, str | None]) -> list[Card]:
    """Arrange the sentences of an answer as cards, one for each cited passage, in order."""
    cited = {citation["number"]: citation for citation in answer["citations"]}
    by_number = dict[int, list[str]]()
    for sentence in answer["sentences"]:
        by_number.setdefault(sentence["citation"], []).append(sentence["text"])
    if not by_number:  # an LLM wrote the answer, so the cards show no sentences
        by_number = {number: [] for number in cited}
    terms = list_question_terms(answer.get("question", ""))
    cards = list[Card]()
    for index, (number, texts) in enumerate(by_number.items()):
        passage = cited[number]
        joint, card, is_name = "", 0, False
        for before in reversed(cards[:index]):
            joint, is_name = join_of(before.passage, passage, answer["chain"])
            if joint:
                card = before.number
                break
        cards.append(
            Card(
                number=number,
                passage=passage,
                sentences=[mark_words(show_cells(text), terms) for text in texts],
                plain=" ".join(texts) or passage["text"],
                modified=modified.get(make_document_key(passage)),
                joined_by=joint,
                joined_to=card,
                is_name=is_name,
            )
        )
    return cards


def link_citations(
    text: str, citations: Iterable[Mapping[str, Any]], address: Callable[[str], str]
) -> Markup:
    """Convert an LLM's answer to HTML. Marks such as [1] become links to the cited passages.

    >>> link_citations("In <it> [1].", [{"number": 1, "id": "0a", "document": "a.md",
    ...     "heading": [], "origin": None}], "/passage/{}".format)
    Markup('In &lt;it&gt; <a class="cite" href="/passage/0a" data-open="0a" \
aria-label="Source 1: a.md">[1]</a>.')
    """
    cited = {str(citation["number"]): citation for citation in citations}
    parts, end = list[Markup](), 0
    for match in _CITATION_MARK.finditer(text):
        passage = cited.get(match[1])
        if passage is None:
            continue
        parts.append(escape(text[end : match.start()]))
        parts.append(
            Markup(
                '<a class="cite" href="{}" data-open="{}" aria-label="Source {}: {}">{}</a>'
            ).format(
                address(passage["id"]),
                passage["id"],
                match[1],
                choose_document_title(passage),
                match[0],
            )
        )
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def join_of(first: Passage, second: Passage, hops: Iterable[Mapping[str, Any]]) -> tuple[str, bool]:
    """Return the name or question that connects two passages, and whether it is a name.

    >>> ends = [{"id": id_, "heading": [], "text": id_} for id_ in "ab"]
    >>> hop = {"from": ends[0], "to": ends[1], "asked_by": "from", "question": "Who was he?"}
    >>> join_of(*ends, [hop])
    ('Who was he?', False)
    >>> join_of(*ends, [{**hop, "question": "What is said of December?"}])
    ('December', True)
    """
    if name := find_shared_name(first, second):
        return name, True
    ends = {first["id"], second["id"]}
    for hop in hops:
        is_joint = {hop["from"]["id"], hop["to"]["id"]} == ends
        if is_joint and hop["question"] and hop["asked_by"] != "follow_up":
            about = _ABOUT.fullmatch(str(hop["question"]))
            if about is None:
                return str(hop["question"]), False
            return (about[1], True) if _A_NAME.fullmatch(about[1]) else ("", False)
    return "", False


def find_shared_name(first: Passage, second: Passage) -> str:
    """Return the name that connects two passages, or "" if no name does.

    The name is a title of one passage in the text of the other, or the longest name that both texts
    have.

    >>> ada = {"heading": ["Ada"], "text": "She was a daughter of Lord Byron."}
    >>> byron = {"heading": ["Lord Byron", "Life"], "text": "He died at Missolonghi."}
    >>> find_shared_name(ada, byron), find_shared_name(byron, ada)
    ('Lord Byron', 'Lord Byron')
    >>> texts = "The a is old.", "The b is old."
    >>> find_shared_name(*({"heading": ["Bay of Corfu"], "text": text} for text in texts))
    'Bay of Corfu'
    """
    for text, other in ((first, second), (second, first)):
        for title in reversed(other["heading"][:1] + other["heading"][1:][-1:]):
            if len(title) <= _LONGEST_NAME and (match := _match_whole_words(text["text"], title)):
                return match
    names = [
        {match[0] for match in _NAME.finditer(_join_heading_and_text(text))}
        for text in (first, second)
    ]
    shared = {name for name in names[0] & names[1] if name.casefold() not in STOP_WORDS}
    return max(shared, key=lambda name: (len(name), name), default="")


def _join_heading_and_text(passage: Passage) -> str:
    # Line breaks, because a name never spans two lines.
    return "\n".join((*passage["heading"], passage["text"]))


def _match_whole_words(text: str, words: str) -> str:
    match = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE)
    return match[0] if match and words.strip() else ""


def make_document_key(passage: Passage) -> str:
    """Return the document as SOURCE/PATH, or "" if no document has the passage."""
    return f"{passage['source']}/{passage['document']}" if passage["document"] else ""


def group_by_document(
    passages: Sequence[Passage], question: str, modified: Mapping[str, str | None]
) -> list[Group]:
    """Group the results by document, in the order of each document's best passage."""
    terms = list_question_terms(question)
    groups = dict[str, Group]()
    for rank, passage in enumerate(passages, 1):
        key = make_document_key(passage) or passage["id"]
        title = format_title(passage) if not passage["document"] else choose_document_title(passage)
        group = groups.setdefault(
            key,
            Group(
                passage["source"],
                passage["document"],
                format_document_name(passage) if passage["document"] else "",
                title,
                modified.get(key),
            ),
        )
        below = passage["heading"][1:] if passage["document"] else []
        group.hits.append(
            Hit(passage, rank, make_snippet(passage["text"], terms), _BELOW.join(below))
        )
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class Reason:
    """A step by which a passage was found, in words."""

    start: str
    start_id: str
    verb: str
    name: str
    end: str
    end_id: str

    @property
    def is_shared(self) -> bool:
        """Whether both passages mention the name."""
        return self.verb == _BOTH_MENTION


def explain_hops(hops: Iterable[Mapping[str, Any]]) -> list[Reason]:
    """Describe the hops in sentences such as "Ada Lovelace mentions Lord Byron".

    Of several hops between the same two passages, only the first is described.

    >>> names = ("Grace Hopper", "Harvard Mark I", "Jacquard loom")
    >>> ends = [{"id": name, "heading": [name], "document": None} for name in names]
    >>> hop = {"from": ends[0], "to": ends[1], "asked_by": "follow_up"}
    >>> about = {"question": "Then asked about Harvard Mark"}
    >>> steps = explain_hops([hop | about, hop | about | {"to": ends[2]}])
    >>> [(step.verb, step.name) for step in steps]
    [('mentions', 'Harvard Mark I'), ('led on to', '')]
    """
    reasons = dict[tuple[str, str], Reason]()
    for hop in hops:
        ends = hop["from"], hop["to"]
        verb, name = _describe_hop(hop)
        start, end = (choose_document_title(end) for end in ends)
        key = (ends[0]["id"], ends[1]["id"])
        reasons.setdefault(key, Reason(start, key[0], verb, name, end, key[1]))
    return list(reasons.values())


def _describe_hop(hop: Mapping[str, Any]) -> tuple[str, str]:
    """Return the verb of a hop, and its name or question."""
    question = str(hop["question"])
    match hop["asked_by"]:
        case "link":
            return "links to", ""
        case "backlink":
            return "is linked from", ""
        case "follow_up":
            about = _THEN.fullmatch(question)
            if about is None or about[1].endswith("?"):
                return "led on to", ""
            name = _complete_name(hop, about[1])
            is_about = any(_match_whole_words(title, name) for title in hop["to"]["heading"])
            return ("mentions", name) if is_about else ("led on to", "")
        case "both":
            about = _ABOUT.fullmatch(question)
            return _BOTH_MENTION, _complete_name(hop, about[1]) if about else question
        case "to":
            return "answers", question
        case _:
            return "raises", question


def _complete_name(hop: Mapping[str, Any], name: str) -> str:
    """Return the title of one of the hop's passages if it begins with `name`, otherwise `name`.

    A question may have only the beginning of a title.
    """
    titles = (title for end in (hop["to"], hop["from"]) for title in end["heading"][:1])
    start = f"{name} ".casefold()
    return next((title for title in titles if f"{title} ".casefold().startswith(start)), name)
