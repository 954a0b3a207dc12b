"""Maps character set labels to the Python codecs that match how the labels are really used."""

import codecs
from functools import cache

# Labels often stand for a superset: pages and mail in "ISO-8859-1" have the quotation marks of
# Windows-1252, and so on (https://encoding.spec.whatwg.org/#names-and-labels). Tried in order.
_IN_PRACTICE = {
    "iso8859-1": ("cp1252",),
    "iso8859-9": ("cp1254",),
    "iso8859-11": ("cp874",),
    "tis-620": ("cp874",),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "euc_kr": ("cp949",),
    "shift_jis": ("cp932", "shift_jis_2004"),
    "big5": ("big5", "cp950", "big5hkscs"),
    "euc_jp": ("euc_jp", "euc_jis_2004"),
    "iso2022_jp": ("iso2022_jp", "iso2022_jp_2004", "iso2022_jp_ext"),
    "utf-8-sig": ("utf-8",),
}
_LABELS = {
    "latin-9": "iso8859-15",
    "ks_c_5601-1987": "cp949",
    "ks-c-5601-1987": "cp949",
    "ksc5601": "cp949",
    "x-windows-949": "cp949",
    "windows-949": "cp949",
    "windows-31j": "cp932",
    "x-sjis": "shift_jis",
    "x-gbk": "gb18030",
    "x-euc-jp": "euc_jp",
    "x-mac-roman": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "x-mac-ce": "mac_latin2",
    "windows-874": "cp874",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "unicode-1-1-utf-7": "utf-7",
    "unicode-1-1-utf-8": "utf-8",
    "utf8mb4": "utf-8",
    "ansinew": "cp1252",  # a name that LaTeX uses
    "applemac": "mac_roman",
    "utf8x": "utf-8",
    "cp-850": "cp850",
}
# Python has these text encodings, but documents do not use them, and some take quadratic time.
_NOT_FOR_DOCUMENTS = frozenset(
    ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem")
)


def list_codecs(label: str) -> tuple[str, ...]:
    """Return the Python codecs for a character set label, in the order to try them. The result is
    empty if the label is unknown.

    >>> list_codecs("ISO-8859-1"), list_codecs("ks_c_5601-1987"), list_codecs("punycode")
    (('cp1252',), ('cp949',), ())
    """
    label = label.strip(" \t\"'").lower()
    name = _find_codec_name(_LABELS.get(label, label))
    if not name or name in _NOT_FOR_DOCUMENTS:
        return ()
    return _IN_PRACTICE.get(name, (name,))


@cache
def _find_codec_name(label: str) -> str:
    for spelling in (label, label.removeprefix("x-"), label.replace("-", "")):
        try:
            codec = codecs.lookup(spelling)
        except (LookupError, ValueError):
            continue
        is_of_text = getattr(codec, "_is_text_encoding", True)
        return codec.name if is_of_text else ""
    return ""
