"""Detects the character set of text from its declarations and its bytes.

`chardet` is used last. For single sentences in 27 languages and 46 character sets, its guess is
right in 96 % of cases; the guess of charset-normalizer is right in 69 %.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise

from connectors.charset_labels import list_codecs
from hopsyncd.formats import import_library

# Enough to detect a character set. Detection takes about 30 ms, whatever the bytes are.
_SAMPLE_BYTES = 32 * 1024
_JUDGED_BYTES = 8 * 1024
_DECLARED_WITHIN_BYTES = 4096

_XML_PROLOG = re.compile(rb"""\A\s*<\?xml\s[^<>]{0,200}?\bencoding\s*=\s*["']([\w.:-]{1,40})""")
_META = re.compile(
    rb"""<meta\s(?:[^<>]{0,500}?[\s;"'])??charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE
)
_HTML_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
# PEP 263, Emacs and Vim; LaTeX.
_COOKIE = re.compile(rb"\b(?:file)?(?:en)?coding[:=][ \t]*([\w.-]{1,40})")
_COMMENTED = re.compile(rb"\s*(?:#|//|/\*|;|%|--|\"|\.\.|<!--|\{-|\(\*|REM\b|-\*-)")
_LATEX = re.compile(rb"^[^%\n]{0,200}\\usepackage\[([\w-]{1,40})\]\{inputenc\}", re.MULTILINE)

_ESCAPED = re.compile(rb"\x1b(?:\$[@B]|\([JI]|\$\(|\$\)C)")

_WORD = re.compile(
    r"[^\W\d_]{1,40}(?:[\u00a1-\u00b6\u00b8-\u00bf\u00d7\u00f7\u2200-\u25ff][^\W\d_]{1,40}){0,4}"
)
_MOST_WORDS = 500
_MOST_JUDGED = 10  # character sets to compare
_LEAST_WORDS = 4
_ODD = 0.3
# Symbols in real texts: box drawing, and punctuation of East Asia.
_USUAL_SIGN = re.compile(r"[\u2500-\u259f\u3000-\u303f\uff00-\uff65]")
_ALPHABETS = frozenset(("LATIN", "GREEK", "CYRILLIC", "HEBREW", "ARABIC", "ARMENIAN", "GEORGIAN"))
_FOREIGN = _ALPHABETS - {"LATIN"}
_ASCII_LETTER = re.compile(rb"[A-Za-z]")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
# The weight of each character set's confidence. Other character sets get _RARE.
_PRIOR = {"cp1252": 1.2} | dict.fromkeys(
    "cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp874 iso8859-2 iso8859-5 iso8859-6"
    " iso8859-7 iso8859-8 iso8859-13 iso8859-15 koi8-r koi8-u cp866 gb18030 big5 cp932 euc_jp cp949"
    " utf-8 utf-16 utf-16-le utf-16-be utf-32".split(),
    1.0,
)
_RARE = 0.6
_EBCDIC = frozenset("cp037 cp273 cp424 cp500 cp875 cp1026 cp1140".split())


def list_declared_charsets(data: bytes, kind: str) -> Iterator[str]:
    """Yield the character set labels that the content declares. `kind` is its media type."""
    head = data[:_DECLARED_WITHIN_BYTES]
    if found := _XML_PROLOG.match(head):
        yield found[1].decode("ascii")
    if kind == "text/html":
        for label in _META.findall(_HTML_COMMENT.sub(b"", head))[:1]:
            name = label.decode("ascii").lower()
            # A `<meta>` that can be read is not in UTF-16, whatever it says.
            yield "utf-8" if name.startswith(("utf-16", "utf-32")) else name
        return
    lines = head.split(b"\n")[:2] + data[-500:].split(b"\n")[-5:]
    for line in lines:
        if _COMMENTED.match(line) and (found := _COOKIE.search(line)):
            yield found[1].decode("ascii").removesuffix("-unix").removesuffix("-dos")
            break
    if found := _LATEX.search(head):
        yield found[1].decode("ascii")


def detect_escaped_charset(data: bytes) -> str | None:
    """Return ISO-2022-JP or ISO-2022-KR if the bytes contain its escape sequences, else None."""
    found = _ESCAPED.search(data)
    return None if not found else "iso2022_kr" if found[0] == b"\x1b$)C" else "iso2022_jp"


def detect_utf_16(data: bytes) -> str | None:
    """Return the codec of UTF-16 text without a byte order mark, or None for other data.

    In UTF-16, all NULs are at even or all at odd offsets, as halves of ASCII and Latin-1
    characters. Data under 100 bytes must consist mostly of such characters.
    """
    if len(data) < 4:
        return None
    sample = data[: _SAMPLE_BYTES - _SAMPLE_BYTES % 2]
    even, odd = sample[::2], sample[1::2]
    for high, low, codec in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if b"\0" in low or b"\0" not in high:
            continue
        halves = bytes(byte for byte, other in zip(low, high, strict=False) if not other)
        try:
            text = sample.decode(codec, "ignore")
            data[: len(data) & ~1].decode(codec)
        except UnicodeDecodeError:
            continue
        if len(sample) < 100 and 4 * len(halves) < 3 * len(low):
            continue
        if not _CONTROL.search(halves.decode("latin-1")) and _is_assigned(text):
            return codec
    return None


_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


def _is_assigned(text: str) -> bool:
    unassigned = sum(
        unicodedata.category(character) in ("Cn", "Co", "Cs") for character in text[:10_000]
    )
    return unassigned * 100 < min(len(text), 10_000)


def guess_codecs(data: bytes) -> Iterator[str]:
    """Yield the probable codecs of the bytes, most probable first. Yields nothing if the bytes are
    not text.

    The guess is based on a sample that begins near the first non-ASCII byte.
    """
    chardet = import_library("chardet")
    found = _BEYOND_ASCII.search(data)
    start = max(found.start() - 2000, 0) if found else 0
    start += data[start : start + 2000].find(b"\n") + 1 if start else 0
    sample = data[start : start + _SAMPLE_BYTES]
    likely: dict[str, float] = {}
    for result in chardet.detect_all(sample, ignore_threshold=True):
        for codec in list_codecs(result["encoding"] or ""):
            confidence = float(result["confidence"]) * _PRIOR.get(codec, _RARE)
            likely[codec] = max(confidence, likely.get(codec, 0.0))
    judged: list[tuple[float, str]] = []
    is_ascii_mostly = len(_ASCII_LETTER.findall(sample)) > 20 * len(_BEYOND_ASCII.findall(sample))
    for codec, confidence in sorted(likely.items(), key=lambda pair: -pair[1])[:_MOST_JUDGED]:
        if codec in _EBCDIC and sample.count(b"\x40") <= sample.count(b"\x20"):
            continue  # 0x40 is a space in EBCDIC, 0x20 in ASCII
        text = sample[:_JUDGED_BYTES].decode(codec, "replace")
        share = measure_odd_share(text)
        if share <= _ODD and not _is_heap_of_signs(text):
            # A few letters of another alphabet in a long text are less likely than an accent.
            is_foreign = is_ascii_mostly and any(
                _find_script(character) in _FOREIGN for character in text
            )
            judged.append((confidence * (1 - share) ** 2 * (0.3 if is_foreign else 1), codec))
    yield from (codec for _, codec in sorted(judged, key=lambda pair: -pair[0]))


def measure_odd_share(text: str) -> float:
    """Return the share of non-ASCII words in `text` that no language would contain, from 0 to 1.

    Such words mix two alphabets, have a capital after a small letter, or contain a symbol.
    """
    words = [word for word in islice(_WORD.findall(text), _MOST_WORDS) if not word.isascii()]
    return sum(map(_is_odd, words)) / max(len(words), _LEAST_WORDS)


def _is_odd(word: str) -> bool:
    return (
        not word.isalpha()
        or len({script for character in word if (script := _find_script(character)) in _ALPHABETS})
        > 1
        or any(a.islower() and b.isupper() for a, b in pairwise(word) if not b.isascii())
    )


def _is_heap_of_signs(text: str) -> bool:
    """Whether `text` consists mostly of non-ASCII characters, and has too many symbols for any
    language."""
    beyond = [
        character
        for character in text[:2000]
        if character > "\x7f" and not _USUAL_SIGN.match(character)
    ]
    signs = sum(unicodedata.category(character)[0] in "SPC" for character in beyond)
    return 2 * len(beyond) > min(len(text), 2000) and 5 * signs > len(beyond)


@cache
def _find_script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]
