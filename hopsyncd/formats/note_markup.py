"""Removes markup that note programs add to Markdown: macros, comments, block ids, drawings."""

import re
from collections import Counter

_ADMONITIONS = frozenset(("note", "tip", "important", "warning", "caution"))

_LOGSEQ_MACROS = (
    "embed|query|renderer|video|youtube(?:-timestamp)?|vimeo|bilibili|tweet|twitter|namespace|card"
    "|function|img|pdf|zotero-[a-z-]+|word-count|demo|table"
)

# Inside code, all of these are plain text.
_MACRO = re.compile(
    r"(?P<code>(?<!`)`++[^`]*+`++)"
    r"|\]\(\{%[ \t]*\w+[ \t]+[\"']?(?P<address>[^\"'%\s{}]{1,500})[\"']?[ \t]*%\}"
    r"(?P<rest>[^()\s]{0,200})\)"
    r"|\{%[ \t]*\w+[ \t]+[\"'](?P<shown>[^\"'%\n{}]{1,200})[\"'][ \t]*%\}"  # {% channel "help" %}
    r"|\{%[^%\n{}]{0,500}%\}|\{\{[<%][^{}\n]{0,500}[>%]\}\}"  # tags of Jekyll and Hugo
    r"|(?<=\]\()\{\{[^{}\n]{0,500}\}\}"  # a site's base address
    r"|\{\{cloze (?P<cloze>[^{}\n]{1,500})\}\}"
    rf"|\{{\{{(?:{_LOGSEQ_MACROS})\b[^{{}}\n]{{0,500}}\}}\}}"
    r"|\{:[^{}\n]{0,200}\}"  # attributes of kramdown, sizes of Logseq's pictures
    r"|\[\^[^\]\s^]{1,60}\]:?"  # marks of footnotes
)
_CALLOUT = re.compile(r"\A\[!(\w{1,30})(?:\|[^\]\n]{0,100})?\][+-]?[ \t]*([^\n]*)(\n?)")
_BEGIN = re.compile(r"^[ \t]*#\+BEGIN_(\w+)[ \t]*", re.IGNORECASE | re.MULTILINE)
_END = re.compile(r"[ \t]*#\+END_\w+[ \t]*$", re.IGNORECASE | re.MULTILINE)
_BLOCK_ID = re.compile(r"(?<=\s)\^[\w-]{1,60}\Z")
_HIGHLIGHT = re.compile(r"==(?=\S)([^=\n]{1,300})(?<=\S)==")
_PICTURE = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|bmp|mp4|mov|webm|mp3|wav)(?:#\S*)?\Z", re.IGNORECASE
)
_SIZE = re.compile(r"\d+(?:x\d+)?\Z")


def remove_note_markup(text: str) -> str:
    r"""Remove note markup from a paragraph; the markup of Markdown stays.

    >>> remove_note_markup("[!tip] Save often\nand early. {{embed x}}")
    'Save often:\nand early. '
    >>> remove_note_markup('See [leave]({% page "/leave/" %}#award) or `{{x}}`.')
    'See [leave](/leave/#award) or `{{x}}`.'
    >>> remove_note_markup("Pay {{ invoice.total }}.[^1]")
    'Pay {{ invoice.total }}.'
    """
    text = _CALLOUT.sub(_format_callout, text, count=1)
    if "{" in text or "[^" in text:
        text = _MACRO.sub(_format_macro, text)
    if "#+" in text:
        text = _END.sub("", _BEGIN.sub(_begin, text))
    return _HIGHLIGHT.sub(r"\1", _BLOCK_ID.sub("", text))


_CHANGE = re.compile(
    r"(?P<code>(?<!`)`++[^`]*+`++)"
    r"|\{--(?P<deleted>[^{}]{1,2000})--\}"
    r"|\{\+\+(?P<added>[^{}]{1,2000})\+\+\}|\{==(?P<marked>[^{}]{1,2000})==\}"
    r"|\{~~(?:[^{}~]|~(?!>)){0,2000}~>(?P<after>[^{}]{0,2000}?)~~\}"
    r"|\{>>(?P<comment>[^{}]{1,2000})<<\}"
)
_ANY_CHANGE = re.compile(r"\{(?:--|\+\+|~~|>>|==)")


def accept_changes(text: str) -> tuple[str, Counter[str]]:
    """Apply the changes that CriticMarkup suggests. Return the text, and the deletions and comments
    that were left out, by kind.

    >>> accept_changes("The fee is {~~40~>45~~} crowns{-- a day--}{++ a week++}.{>>Sure?<<}")
    ('The fee is 45 crowns a week.', Counter({'deletions': 2, 'comments': 1}))
    """
    skipped: Counter[str] = Counter()
    if "{" not in text or not _ANY_CHANGE.search(text):
        return text, skipped

    def accept(found: re.Match[str]) -> str:
        if found["code"]:
            return found["code"]
        if found["comment"]:
            skipped["comments"] += 1
        elif found["deleted"] or found["after"] is not None:
            skipped["deletions"] += 1
        return found["added"] or found["marked"] or found["after"] or ""

    return _CHANGE.sub(accept, text), skipped


def choose_embedded_text(name: str, shown: str) -> str:
    """Return the text to show for an embedded file: the caption of a picture, or the text or name
    of another file.

    >>> choose_embedded_text("lucide-x.svg#icon", ""), choose_embedded_text("a.png", "300")
    ('', '')
    >>> choose_embedded_text("a.png", "The mill"), choose_embedded_text("Notes#Mill", "")
    ('The mill', 'Notes#Mill')
    """
    if not _PICTURE.search(name):
        return shown or name
    return "" if _SIZE.match(shown) or _PICTURE.search(shown) else shown


def _format_callout(found: re.Match[str]) -> str:
    title = found[2].strip() or found[1].capitalize()
    joint = "" if (found[2] and not found[3]) or title[-1] in ".:!?" else ":"
    return title + joint + found[3]


def _format_macro(found: re.Match[str]) -> str:
    if found["code"]:
        return found["code"]
    if found["address"]:
        return f"]({found['address']}{found['rest']})"
    return found["shown"] or found["cloze"] or ""


def _begin(found: re.Match[str]) -> str:
    kind = found[1].lower()
    return f"{kind.capitalize()}: " if kind in _ADMONITIONS else ""


_LOGSEQ_KEYS = (
    "id|collapsed|created-at|updated-at|template(?:-including-parent)?|background-color|heading"
    r"|order-list-type|query-[a-z-]+|card-[a-z-]+|logseq\.[\w.-]+|public|publish"
)
_UUID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
_LOGSEQ_BLOCK = re.compile(
    rf"^[ \t]*- (\S.*)\n(?:[ \t]*[a-z-]+::.*\n){{0,5}}?[ \t]*id:: ({_UUID})", re.M
)
_LOGSEQ_REFERENCE = re.compile(rf"\(\({_UUID}\)\)")
_LOGSEQ = re.compile(
    rf"^[ \t]*(?:{_LOGSEQ_KEYS})::[ \t].*$"
    r"|^[ \t]*:LOGBOOK:[ \t]*\n(?:.*\n){0,100}?[ \t]*:END:[ \t]*$"
    rf"|\(\((?P<block>{_UUID})\)\)",
    re.MULTILINE,
)


def remove_logseq_markup(text: str) -> str:
    """Remove the ids, settings and clocks of Logseq, keeping line numbers. A reference to a block
    of the same page becomes the text of the block."""
    if "::" not in text and "((" not in text and ":LOGBOOK:" not in text:
        return text
    blocks = {id_: shown for shown, id_ in _LOGSEQ_BLOCK.findall(text)} if "((" in text else {}

    def replace_markup(found: re.Match[str]) -> str:
        shown = _LOGSEQ_REFERENCE.sub("", blocks.get(found["block"] or "", "")).strip("# ")
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if shown in before or before.endswith("]("):
            shown = ""  # no such block, a block that refers to itself, or a link with its own text
        return shown or "\n" * found[0].count("\n")

    return _LOGSEQ.sub(replace_markup, text)


_CODE_OR_COMMENT = re.compile(
    r"^[ \t>]*+(?P<mark>`{3,}+|~{3,}+)[^\n]*+(?:.*?^[ \t>]*+(?P=mark)[`~]*+[ \t]*$|.*\Z)"
    r"|(?<!`)`++[^`\n]*+`++"
    r"|(?<!\S)%%(?!%)(?P<comment>.*?)%%",
    re.MULTILINE | re.DOTALL,
)


def remove_comments(text: str) -> tuple[str, int]:
    r"""Remove Obsidian's comments, keeping line numbers. Return the text and the number of
    comments.

    >>> remove_comments("Row. %%private%%\n%%\nSecret.\n\n%%\nEnd, `%%x%%`.")
    ('Row. \n\n\n\n\nEnd, `%%x%%`.', 2)
    """
    if "%%" not in text:
        return text, 0
    count = 0

    def replace_comment(found: re.Match[str]) -> str:
        nonlocal count
        if found["comment"] is None:
            return found[0]
        count += 1
        return "\n" * found[0].count("\n")

    return _CODE_OR_COMMENT.sub(replace_comment, text), count


_DRAWING = re.compile(
    r"^(?:#{1,2} Drawing[ \t]*\n+)?```(?:compressed-)?json[ \t]*\n.*?(?:^```[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OF_EXCALIDRAW = re.compile(
    r"^(?:%%[ \t]*|#{1,2} (?:Excalidraw Data|Text Elements|Drawing)[ \t]*|==.{0,20}EXCALIDRAW.*)$",
    re.MULTILINE,
)


def remove_drawings(text: str) -> tuple[str, int]:
    """Remove the drawing data of an Excalidraw file, but not its text. Return the remaining text
    and the number of drawings."""
    text, count = _DRAWING.subn(lambda found: "\n" * found[0].count("\n"), text)
    return _OF_EXCALIDRAW.sub("", text), count
