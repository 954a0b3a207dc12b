"""What the full-text index counts as a word, in every script."""

import re
import threading

from store.sqlite.database import Connection, memory_database

# Scripts written without spaces: each character is a word, so that part of a phrase can be found.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
_WORD = re.compile(r"\w+")

# As in schema/001_initial.sql.
TOKENIZER = "porter unicode61 remove_diacritics 2"
_TOKENIZERS = threading.local()


def searchable(text: str) -> str:
    """The text with spaces around each character of an unspaced script, for FTS5's tokenizer.

    >>> searchable("in 東京 now").split()
    ['in', '東', '京', 'now']
    """
    return _UNSPACED.sub(r" \1 ", text)


def count_words(text: str) -> int:
    """The number of words in a text."""
    return len(_WORD.findall(searchable(text)))


def index_terms(text: str) -> list[str]:
    """The distinct terms that the full-text index finds in a text, sorted.

    SQLite has no function for this, so a one-row index in memory does it.

    >>> index_terms("The dogs, the dog")
    ['dog', 'the']
    """
    memory = _tokenizer()
    memory.execute("DELETE FROM body")
    memory.execute("INSERT INTO body (rowid, text) VALUES (1, ?)", [searchable(text)])
    return [row[0] for row in memory.execute("SELECT term FROM term ORDER BY term")]


def _tokenizer() -> Connection:
    memory: Connection | None = getattr(_TOKENIZERS, "memory", None)
    if memory is None:
        memory = _TOKENIZERS.memory = memory_database()
        memory.execute(f"CREATE VIRTUAL TABLE body USING fts5(text, tokenize = '{TOKENIZER}')")
        memory.execute("CREATE VIRTUAL TABLE term USING fts5vocab(body, 'row')")
    return memory
