"""Decides whether the retrieved sentences can answer a question about somebody's relative.

"Who is Olga's grandmother?" resembles a page that names only Olga's mother. The sentences must say
that somebody is a grandmother, or have two statements of kinship in a row: Olga's mother is Vera,
and Vera's mother is Anna. For "Who is Olga's father?", a statement about a parent or a child is
enough, because "Olga, daughter of Ivan" answers too.
"""

import re
from collections.abc import Sequence

from hopsyncd.retrieve.sentences import Sentence
from hopsyncd.text.words import list_index_terms

_OF_PARENTS = "mother father parents? sons? daughters? child children".split()
_OF_SPOUSES = "husband wife spouse".split()
_OF_SIBLINGS = "brothers? sisters? siblings?".split()
_OF_OTHERS = (
    "grand(?:mother|father|parent|son|daughter|child)s? grandchildren uncles? aunts? cousins?"
    r" nephews? nieces? (?:mother|father|son|daughter|brother|sister)s?-in-law"
).split()
_ASKED = re.compile(
    r"\b(?:(?:great-?|step-?)*"
    rf"({'|'.join(_OF_OTHERS)})|({'|'.join(_OF_PARENTS)})|({'|'.join(_OF_SPOUSES)})"
    rf"|({'|'.join(_OF_SIBLINGS)}))\b",
    re.IGNORECASE,
)
_PARENTS = frozenset(
    list_index_terms(
        "mother father parent parents son sons daughter daughters child children born mum mom dad"
    )
)
_SPOUSES = frozenset(
    list_index_terms(
        "husband wife wives spouse married marry marries marriage widow widower wed partner engaged"
        " couple"
    )
)
_SIBLINGS = (
    frozenset(list_index_terms("brother brothers sister sisters sibling siblings twin")) | _PARENTS
)


def lacks_kinship(question: str, sentences: Sequence[Sentence]) -> bool:
    """Return whether a question asks for a relative, but the sentences state no such kinship."""
    asked = _ASKED.search(question)
    if asked is None:
        return False
    terms = {sentence: frozenset(list_index_terms(sentence.text)) for sentence in sentences}
    asked_terms = frozenset(list_index_terms(asked[0]))
    if any(asked_terms & words for words in terms.values()):
        return False
    other, parent, spouse, _ = asked.groups()
    if other:
        every = _PARENTS | _SPOUSES | _SIBLINGS
        stating = [sentence for sentence, words in terms.items() if every & words]
        return not _have_chain(stating, question)
    sufficient = _PARENTS if parent else _SPOUSES if spouse else _SIBLINGS
    return not any(sufficient & words for words in terms.values())


def _have_chain(sentences: Sequence[Sentence], question: str) -> bool:
    """Return whether two of the sentences share a name that is not in the question."""
    asked = frozenset(list_index_terms(question))
    seen: set[str] = set()
    for sentence in sentences:
        names = {name for name in sentence.names if not asked.issuperset(list_index_terms(name))}
        if names & seen:
            return True
        seen |= names
    return False
