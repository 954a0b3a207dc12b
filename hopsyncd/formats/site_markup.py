"""Removes the markup that site generators add to Markdown: admonitions, tabs, shortcodes,
components.

It supports Docusaurus, MkDocs, Hugo, Jekyll and MDX. Titles and captions stay as text; markup that
only controls the generator is removed. Line numbers do not change.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

_FENCE = re.compile(r"[ \t>]*+(`{3,}+|~{3,}+)([^`]*+)$")
_NAMED = re.compile(r"(?:\{[^{}]*+\}|[\w-]++)?[ \t]*+(?:\[([^\]]++)\]|([^:\[\]{}]*+))")
_QUOTED = re.compile(r"\"([^\"]++)\"[ \t]*+\Z")
_COMPONENT = re.compile(
    r"[ \t]*+<[A-Z][\w.]*+\s(?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*?"
    r"\b(?:label|title|summary)=(?:\"([^\"]++)\"|'([^']++)')"
    r"(?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+>[ \t]*+\Z"
)
_IMPORT = re.compile(r"import\s(?:.+\sfrom\s++)?['\"][^'\"]++['\"];?[ \t]*+\Z")
_IMPORT_BEGINS = re.compile(r"import\s++(?:[\w$]++\s*+,\s*+)?\{[^{}]*+\Z")
_EXPORT = re.compile(r"export\s++(?:const|let|var|function|default|class)\b")
_IS_MDX = re.compile(r"^(?:import\s.*['\"];?[ \t]*+$|[ \t]*+</?[A-Z]\w|\{/\*)", re.MULTILINE)
_ATTRIBUTES = re.compile(r"\{[ \t]*+[#.:][^{}]*+\}\Z")
_CODE_TAG = re.compile(
    r"[ \t]*+(?:\{%[ \t]*+(end)?highlight\b[ \t]*+(\w*+)[^%]*+%\}"
    r"|\{\{[<%][ \t]*+(/)?[ \t]*+highlight\b[ \t]*+(\w*+)[^{}]*+\}\})[ \t]*+\Z"
)
_COMMENTS = (
    (re.compile(r"\{/\*"), re.compile(r"\*/\}")),
    (
        re.compile(r"\{%-?[ \t]*+comment[ \t]*+-?%\}"),
        re.compile(r"\{%-?[ \t]*+endcomment[ \t]*+-?%\}"),
    ),
)
_TAG = re.compile(
    r"(?P<code>`++[^`]*+`++)|\{%-?[ \t]*+(?P<jekyll>\w[\w-]*+)?[^%\n{}]{0,500}%\}"
    r"|\{\{[<%][ \t]*+(?P<hugo>\w[\w-]*+)?[^{}\n]{0,500}[>%]\}\}"
)
_SHOWN = re.compile(r"\b(?:title|caption|label|summary)=(?:\"([^\"]++)\"|'([^']++)')")
_FIRST = re.compile(r"[<%][ \t]*+[\w-]++[ \t]++\"([^\"]++)\"")
_IS_TEXT = re.compile(r"\{%[ \t]*+\w++[ \t]++(?:\"[^\"%]++\"|'[^'%]++')[ \t]*+%\}")
_TITLED = frozenset("tab details expand collapse accordion notice callout admonition".split())
_PICTURES = frozenset("figure image img picture include".split())
_NO_SHORTCODES = frozenset(
    "if elsif else endif unless endunless for endfor raw endraw assign capture endcapture case when"
    " endcase post_url link ref relref highlight endhighlight".split()
)
_MOST_IMPORT_LINES = 40
_MAX_LINE_CHARACTERS = 1000  # longer lines are text
_INDENT = 4
_SIGNS = (":::", "!!!", "???", '=== "', "{", "import ", "label=", "title=", "summary=")


def remove_site_markup(text: str) -> tuple[str, Counter[str]]:
    r"""Remove the markup of site generators. Return the text, and the number of omissions by kind.

    >>> remove_site_markup(":::tip[Save often]\nAnd early.\n:::")[0]
    'Save often:\nAnd early.\n'
    >>> remove_site_markup('!!! note "Save often"\n    And early.')[0]
    'Save often:\nAnd early.'
    """
    skipped: Counter[str] = Counter()
    if not any(sign in text for sign in _SIGNS):
        return text, skipped
    lines = text.split("\n")
    codes = [*_mark_code_lines(lines)]
    if "{/*" in text or "comment" in text:
        for begin, end in _COMMENTS:
            lines = _remove_comments(lines, codes, begin, end, skipped)
    if _IS_MDX.search(text):
        lines = _remove_imports(lines, codes, skipped)
    indents: list[int] = []  # the indentation of the text of each open admonition
    read: list[str] = []
    for line, is_code in zip(lines, codes, strict=True):
        bare = line.lstrip()
        while bare and indents and len(line) - len(bare) < indents[-1] + _INDENT:
            indents.pop()
        line_text = line[_INDENT * len(indents) :] if indents else line
        shown, is_admonition = line_text, False
        if not is_code and len(line_text) <= _MAX_LINE_CHARACTERS:
            shown, is_admonition = _read_line(line_text, skipped)
        read.append(shown)
        if is_admonition:
            indents.append(len(line) - len(bare))
    return "\n".join(read), skipped


def _mark_code_lines(lines: Sequence[str]) -> Iterator[bool]:
    """Yield whether each line belongs to fenced code. The fences count as code."""
    mark = ""
    for line in lines:
        found = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if mark:
            yield True
            if found and found[1].startswith(mark) and not found[2].strip():
                mark = ""
        else:
            mark = found[1] if found else ""
            yield bool(mark)


def _remove_comments(
    lines: Sequence[str],
    codes: Sequence[bool],
    begin: re.Pattern[str],
    end: re.Pattern[str],
    skipped: Counter[str],
) -> list[str]:
    """Remove the comments that begin outside code, between matches of `begin` and `end`. `codes`
    says whether each line is code. An unclosed comment counts as text."""
    last = max((index for index, line in enumerate(lines) if end.search(line)), default=-1)
    remaining: list[str] = []
    is_inside = False
    for index, (line, is_code) in enumerate(zip(lines, codes, strict=True)):
        parts: list[str] = []
        start = 0
        while not is_code or is_inside:
            found = (end if is_inside else begin).search(line, start)
            if not found or (not is_inside and index > last):
                break
            parts += [] if is_inside else [line[start : found.start()]]
            skipped["comments"] += not is_inside
            start, is_inside = found.end(), not is_inside
        remaining.append("".join(parts) + ("" if is_inside else line[start:]))
    return remaining


def _remove_imports(
    lines: Sequence[str], codes: Sequence[bool], skipped: Counter[str]
) -> list[str]:
    """Remove the imports and exports of MDX outside code. They end at an empty line at the latest.
    `codes` says whether each line is code."""
    remaining: list[str] = []
    expected = 0  # lines of an import or export that may follow
    for line, is_code in zip(lines, codes, strict=True):
        begins = line[:6] in ("import", "export") and len(line) <= _MAX_LINE_CHARACTERS
        is_whole = begins and _IMPORT.match(line)
        begins = begins and bool(is_whole or _IMPORT_BEGINS.match(line) or _EXPORT.match(line))
        if is_code or not (expected or begins):
            remaining.append(line)
            continue
        remaining.append("")
        if begins:
            skipped["imports and exports"] += 1
            expected = 0 if is_whole or line.rstrip().endswith(";") else _MOST_IMPORT_LINES
        else:
            is_last = not line.strip() or line.startswith("}")
            expected = 0 if is_last else expected - 1
    return remaining


def _read_line(line: str, skipped: Counter[str]) -> tuple[str, bool]:
    """Return the visible text of a line, and whether it begins an admonition with indented text."""
    bare = line.strip()
    if bare.startswith(":::"):
        found = _NAMED.match(bare.strip(":").strip())
        return _add_colon(found[1] or found[2] if found else ""), False
    if bare.startswith(("!!! ", "??? ", "???+ ", '=== "')):
        title = _QUOTED.search(bare)
        return _add_colon(title[1] if title else ""), True
    if bare.startswith("<") and (found := _COMPONENT.match(line)):
        return _add_colon(found[1] or found[2]), False
    if "{" not in line:
        return line, False
    if found := _CODE_TAG.match(line):
        return "```" if found[1] or found[3] else f"```{found[2] or found[4] or ''}", False
    if bare.startswith("#") and _ATTRIBUTES.match(bare, start := bare.rfind("{")):
        return bare[:start].rstrip(), False
    return _TAG.sub(lambda tag: _read_shortcode(tag, skipped), line), False


def _add_colon(title: str) -> str:
    title = title.strip()
    return title if not title or title[-1] in ".:!?" else f"{title}:"


def _read_shortcode(tag: re.Match[str], skipped: Counter[str]) -> str:
    """Return the titles and captions in a shortcode, or else the tag itself.

    The tag is later removed with the other markup of its paragraph.
    """
    name = tag["jekyll"] or tag["hugo"]
    if tag["code"] or not name or _IS_TEXT.match(tag[0]):
        return tag[0]
    shown = [found[1] or found[2] for found in _SHOWN.finditer(tag[0])]
    if not shown and name in _TITLED and (first := _FIRST.search(tag[0])):
        shown = [first[1]]
    if shown:
        return ". ".join(dict.fromkeys(shown)) + (". " if name in _PICTURES else ": ")
    skipped["shortcodes"] += name not in _NO_SHORTCODES and not name.startswith("end")
    return tag[0]
