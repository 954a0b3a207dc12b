"""Collects the inline text of a paragraph, heading or cell from HTML events."""

import re
from collections.abc import Callable
from itertools import accumulate

from hopsyncd.formats.blocks import Links, make_address_link
from hopsyncd.formats.html_tree import Element, Event
from hopsyncd.formats.inline import add_brackets, write_subscript, write_superscript
from hopsyncd.formats.tex_formulas import read_formulas

LISTS = frozenset(("ul", "ol", "menu", "dl"))
HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_NAMES = (
    "address article aside blockquote body center dd details div dt fieldset figcaption figure"
    " footer form head header hr html legend li main nav option p pre section summary title table"
    " thead tbody tfoot tr td th caption"
)
BLOCKS = frozenset(_BLOCK_NAMES.split()).union(LISTS, HEADINGS)
_BLANKS = re.compile(r"[^\S\n]+")
_MARK = "\0"  # marks the start of a link; no text contains it
_BOLD = frozenset(("b", "strong"))
_MARKED: dict[str, Callable[[str, str], str]] = {
    "sup": write_superscript,
    "sub": write_subscript,
    "raised": lambda text, _: f"^{add_brackets(text)}",
    "lowered": lambda text, _: f"_{add_brackets(text)}",
    "over": lambda text, _: add_brackets(text),
    "under": lambda text, _: f"/{add_brackets(text)}",
    "root": lambda text, _: f"√{add_brackets(text)}",
}
_MATH = frozenset(
    "mi mn mo mrow mtext msup msub msubsup mfrac msqrt munder munderover mover mstyle".split()
)
_MATH_MARKS = frozenset(("msup", "msub", "msubsup", "munder", "munderover"))
_INLINE_ELEMENTS = _BOLD | _MATH | {*_MARKED, "a", "img", "ruby", "input", "q"}
_FORMULA_NAMES = frozenset("math tex latex equation mwe-math-fallback-image-inline".split())
_MAX_ALT_CHARACTERS = 500
_MAX_HREF_CHARACTERS = 4000
_FILE_NAME = re.compile(r"\.\w{3,4}\Z")
_NOTE_NUMBER = re.compile(r"[\[(]?(\d{1,3}|[*†‡a-z])[\])]?\Z")


class InlineText:
    """Collects the text of a block, with its links, superscripts and pronunciations."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.has_text = False
        self.lines = (0, 0)  # the lines where the text begins and ends
        self.is_plain = False  # whether some text is not bold
        self.is_linked = True  # whether all of the text is in links
        self.links: list[tuple[str, list[str]]] = []  # addresses, with the pieces of visible text
        self.readings: list[str] = []
        self.pictures: list[str] = []  # the visible text of images
        self.signs: list[str] = []  # also texts of one word, such as "Yes" in a table
        self._href, self._is_shown = "", False
        self._bold = 0
        self._marked: list[tuple[int, str]] = []  # open superscripts and subscripts

    def begin(self) -> None:
        """Begin a new block. A link or bold text that is still open continues in the new block."""
        self.parts, self.has_text = [], False
        self.is_plain, self.is_linked = False, True
        self.links, self._is_shown = [], False
        self.readings, self.pictures, self.signs, self._marked = [], [], [], []

    def take(self, event: Event, *, pre: bool = False) -> bool:
        """Handle an event of inline text. Returns False if the event is not part of inline text. If
        `pre`, a `br` element becomes a line break instead of a space."""
        if event.kind == "text":
            self._add_text(event)
        elif event.kind == "link":
            if event.value:
                self.links.append((event.value[:_MAX_HREF_CHARACTERS], []))
                self.parts.append(_MARK)
        elif event.value == "br":
            self.parts += ["\n" if pre else " "] if event.kind == "open" else []
        elif event.value in _INLINE_ELEMENTS:
            self._add_element(event.value, event.element, event.line, opens=event.kind == "open")
        else:
            return False
        return True

    def _add_element(self, name: str, element: Element, line: int, *, opens: bool) -> None:
        if name == "a":
            href = (element.get("href") or "") if opens else ""
            self._href, self._is_shown = href if len(href) <= _MAX_HREF_CHARACTERS else "", False
            if _is_note_reference(element):
                self._mark("sup", opens=opens)
        elif name in _BOLD:
            self._bold = max(0, self._bold + (1 if opens else -1))
        elif name == "q":
            self.parts.append('"')
        elif name in _MARKED or name in _MATH:
            for mark in [name] if name in _MARKED else _list_marks_in_formula(element):
                self._mark(mark, opens=opens)
        elif opens and name == "img":
            self._add_picture(element, line)
        elif opens and name == "ruby":
            self.readings.append(_find_pronunciation(element))
        elif opens and name == "input":
            self._add_box(element, line)

    def _add_text(self, event: Event) -> None:
        text = event.value
        if not self.parts and text.isspace():
            return
        text = text.replace(_MARK, "\ufffd")
        is_shown = bool(text.strip())
        self.parts.append(self._add_link_text(text) if self._href and is_shown else text)
        if not is_shown:
            return
        begin = event.line + text[: len(text) - len(text.lstrip())].count("\n")
        end = event.line + text.rstrip().count("\n")
        self.lines = (self.lines[0] if self.has_text else begin, end)
        self.has_text = True
        self.is_plain = self.is_plain or not self._bold
        self.is_linked = self.is_linked and bool(self._href)

    def _add_link_text(self, text: str) -> str:
        """Record text inside a link. Returns the text, with a mark where the link begins in this
        block."""
        if self._is_shown:
            self.links[-1][1].append(text)
            return text
        self._is_shown = True
        self.links.append((self._href, [text]))
        bare = text.lstrip()
        return text[: len(text) - len(bare)] + _MARK + bare

    def _mark(self, name: str, *, opens: bool) -> None:
        """Begin superscript or subscript text if `opens`, or else end it. `name` is the tag."""
        if opens:
            self._marked.append((len(self.parts), name))
            return
        if not self._marked or self._marked[-1][0] >= len(self.parts):
            del self._marked[-1:]
            return
        start, name = self._marked.pop()
        text = "".join(self.parts[start:])
        before = next((part for part in reversed(self.parts[:start]) if part.strip(_MARK)), "")
        before = before.rstrip(_MARK)
        if _MARK in text:
            target = self.links[-1][0] if self.links else ""
            number = _NOTE_NUMBER.match(text.replace(_MARK, "").strip())
            marked = f"[{number[1]}]" if number and "#" in target else text
            self.parts[start:] = [_MARK + marked if marked != text else text]
        else:
            self.parts[start:] = [_MARKED[name](text, before)]

    def _add_picture(self, image: Element, line: int) -> None:
        alt = " ".join((image.get("alt") or "").split())[:_MAX_ALT_CHARACTERS]
        if not alt:
            return
        names = (image.get("class") or "").lower().split()
        if not _FORMULA_NAMES.isdisjoint(names):
            self._add_text(Event("text", alt, line))
        else:
            self.pictures += [alt] if " " in alt and not self._href else []
            self.signs += [] if _FILE_NAME.search(alt) else [alt]
            self.lines = self.lines if self.has_text else (line, line)

    def _add_box(self, element: Element, line: int) -> None:
        """Add the state of a checkbox: `[x]` or `[ ]`."""
        if (element.get("type") or "").lower() == "checkbox" and not self.has_text:
            state = "[x] " if element.get("checked") is not None else "[ ] "
            self._add_text(Event("text", state, line))

    def take_text(self, *, pre: bool = False) -> tuple[str, Links]:
        """Return the collected text and its links with their offsets. `begin` starts a new text. If
        `pre`, the text is preformatted."""
        if not self.parts:
            return "", ()
        text = self._tidy(pre=pre)
        if not self.links:
            return text, ()
        pieces = text.split(_MARK)
        offsets = accumulate(map(len, pieces))
        found = [
            (offset, make_address_link(href, "".join(shown)))
            for offset, (href, shown) in zip(offsets, self.links, strict=False)
        ]
        return "".join(pieces), tuple((offset, link) for offset, link in found if link)

    def _tidy(self, *, pre: bool) -> str:
        text = "".join(self.parts)
        if pre:
            return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")).rstrip()
        if "\\" in text or "$$" in text:
            text = _MARK.join(map(read_formulas, text.split(_MARK)))
        if "\n" not in text:
            return _BLANKS.sub(" ", text).strip()
        lines = (_BLANKS.sub(" ", line).strip() for line in text.split("\n"))
        return "\n".join(line for line in lines if line)


def _is_note_reference(link: Element) -> bool:
    """Whether a link is a note reference by its role alone, as in EPUB, without a `sup` element."""
    is_marked = "noteref" in (link.get("epub:type") or "") or link.get("role") == "doc-noteref"
    return is_marked and next(link.iterancestors("sup"), None) is None and link.find("sup") is None


def _list_marks_in_formula(element: Element) -> list[str]:
    """Return the marks by which a part of a MathML formula is attached to the previous part, outer
    mark first."""
    around = element.getparent()
    marks = []
    if around is not None and around.tag == "mfrac":
        marks.append("over" if around[0] is element else "under")
    elif around is not None and around.tag in _MATH_MARKS and around[0] is not element:
        is_raised = element is around[-1] and around.tag not in ("msub", "munder")
        marks.append("raised" if is_raised else "lowered")
    return [*marks, "root"] if element.tag == "msqrt" else marks


def _find_pronunciation(ruby: Element) -> str:
    """Return the pronunciation in a `ruby` element, to be written after the text, or "" if there is
    none."""
    base: list[str] = [ruby.text or ""]
    reading_parts: list[str] = []
    for part in ruby:
        is_reading = part.tag in ("rt", "rtc")
        if isinstance(part.tag, str) and part.tag != "rp":
            (reading_parts if is_reading else base).extend(part.itertext())
        base.append(part.tail or "")
    text, reading = ("".join("".join(parts).split()) for parts in (base, reading_parts))
    return f"{text} ({reading})" if text and reading else ""
