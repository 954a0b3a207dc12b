"""Finds answers by the structure of documents: a numbered item, a dated section, the definition of
a code, the owner of a task, the words of a keyword query.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hopsyncd.retrieve.answering.extractive import find_needs, is_prose
from hopsyncd.retrieve.answering.section_date import find_section_date
from hopsyncd.retrieve.answering.support import Judgement, is_of_related
from hopsyncd.retrieve.numbered_items import find_item, read_item_reference
from hopsyncd.retrieve.query_words import QueryWords, contains_literal, defines, read_query_words
from hopsyncd.retrieve.sentences import PassageTexts, Sentence
from hopsyncd.text.words import list_index_terms


def find_by_structure(
    texts: PassageTexts,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    question: str,
    judgement: Judgement,
) -> Judgement:
    """Return the judgement with the answer that the structure of the documents gives. If it gives
    none, the judgement is returned unchanged."""
    asked = find_needs(question)
    if asked is None and (item := _find_item(texts, sentences, weights, question)):
        return Judgement(True, sentences=(item,))
    if asked and asked.kind in ("date", "moment") and not is_of_related(question):
        dated = find_section_date(texts, sentences, weights, judgement.with_value)
        if dated:
            return Judgement(True, dated.day, dated.sentences)
    query = read_query_words(question)
    defining = _list_defining(texts, sentences, query)
    owning = _list_owning(sentences, weights, question)
    with_value = judgement.with_value | defining | owning
    typed = _list_typed(sentences, query)
    return replace(
        judgement,
        is_found=judgement.is_found or bool(typed or (defining and _asks_for_meaning(query))),
        with_value=with_value,
        leading=frozenset() if asked else defining & typed or defining or typed,
    )


_MEANING = frozenset("do does mean means meaning stand error code fault status".split())


def _asks_for_meaning(query: QueryWords) -> bool:
    """Return whether a question only asks what a code means.

    >>> _asks_for_meaning(read_query_words("What does error E-417 mean?"))
    True
    >>> _asks_for_meaning(read_query_words("Who fixed E-417?"))
    False
    """
    return all(word.lower() in _MEANING for word in query.words) and "what" in query.text.lower()


def _list_typed(sentences: Sequence[Sentence], query: QueryWords) -> frozenset[Sentence]:
    """Return the sentences that contain every part of a keyword query as typed.

    Headers and markup are returned only if no other sentence does. For a question, the result is
    empty.
    """
    if not query.is_keywords:
        return frozenset()
    typed = [
        sentence
        for sentence in sentences
        if all(contains_literal(sentence.text, part.text) for part in query.parts)
    ]
    return frozenset([sentence for sentence in typed if is_prose(sentence.text)] or typed)


def _list_defining(
    texts: PassageTexts, sentences: Sequence[Sentence], query: QueryWords
) -> frozenset[Sentence]:
    """Return the sentences that define a code of the question."""
    codes = [part.text for part in query.literals if part.kind == "code"]
    headings = {id_: texts.passages[id_].heading for id_ in texts.ranked}
    return frozenset(
        sentence
        for sentence in sentences
        if any(defines(headings[sentence.passage], sentence.text, code) for code in codes)
    )


_WHO = re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE)
_LEAST_OF_TASK = 0.25  # of the question's idf, in a task or row that names its owner
_OWNER = re.compile(
    r"(?:^|\| )(?:owner|responsible|assignee|assigned to|contact|lead|manager|who|person|by)s?: ?\w"
    r"|(?<!\S)@\w{2,}"
    r"|(?-i:\((?:[A-Z][\w.-]{1,30}(?:, | and | & | ))*[A-Z][\w.-]{1,30}\)$)"
    r"|(?-i:\s[\u2013\u2014-]\s(?:[A-Z][\w.-]{1,30} ){0,2}[A-Z][\w.-]{1,30}$)",
    re.IGNORECASE | re.MULTILINE,
)


def _list_owning(
    sentences: Sequence[Sentence], weights: Mapping[str, float], question: str
) -> frozenset[Sentence]:
    """Return the sentences that name the owner of the task in a question with "who".

    `weights` is the idf of the question's terms.
    """
    if not _WHO.search(question):
        return frozenset()
    least = _LEAST_OF_TASK * sum(weights.values())
    return frozenset(
        sentence
        for sentence in sentences
        if names_owner(sentence.text)
        and sum(weights.get(term, 0.0) for term in list_index_terms(sentence.text)) >= least
    )


def names_owner(text: str) -> bool:
    """Return whether a task or a row names the person who is responsible for it.

    >>> names_owner("[ ] Order the tent (Ann)"), names_owner("Task: Paint | Owner: Bo")
    (True, True)
    >>> names_owner("[ ] Order the tent (large)")
    False
    """
    return _OWNER.search(text) is not None


def _find_item(
    texts: PassageTexts,
    sentences: Sequence[Sentence],
    weights: Mapping[str, float],
    question: str,
) -> Sentence | None:
    reference = read_item_reference(question)
    if reference is None:
        return None
    passages = [(id_, texts.passages[id_]) for id_ in texts.ranked]
    item = find_item(reference, weights, passages)
    if item is None:
        return None
    beside = next((near for near in sentences if near.passage == item.passage), None)
    return replace(beside, text=item.text) if beside else None
