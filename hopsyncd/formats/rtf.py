"""Reads RTF: parses its groups and keeps the visible text."""

import re
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from hopsyncd.errors import DocumentUnreadable
from hopsyncd.formats.blocks import Block, make_skipped_block, with_title
from hopsyncd.formats.office_text import find_symbol, read_metadata, with_metadata
from hopsyncd.formats.rtf_story import Story, read_margins
from hopsyncd.formats.rtf_tokens import (
    CHARACTERS,
    SYMBOLS,
    find_charset_encoding,
    find_code_page,
    split_into_tokens,
)

_MAX_DEPTH, _MAX_ENTRIES, _MAX_NESTED_TABLES = 1000, 10_000, 8
_MARGINS = frozenset(b"header headerl headerr headerf footer footerl footerr footerf".split())
_STORIES = frozenset((b"footnote", b"annotation", b"shptxt", b"dptxbxtext", *_MARGINS))
_CAPTURED = frozenset(
    b"fldinst listtext pntext atnauthor title author keywords fonttbl stylesheet".split()
)
_SKIPPED = frozenset(
    b"colortbl pict xe tc nonesttables nonshppict shprslt sp filetbl private template operator"
    b" subject comment doccomm manager company category hlinkbase txe rxe fldtype mctrlPr"
    b" printim revtim buptim creatim objdata ftnsep ftnsepc ftncn aftnsep aftnsepc"
    b" aftncn pntxta pntxtb falt panose fname bkmkstart bkmkend mtype".split()
)
# Destinations that are read although they are marked as optional.
_KNOWN = frozenset(
    b"annotation footnote atnauthor"
    b" fldinst shpinst do nesttableprops shppict moMath moMathPara".split()
)
_HEADING = re.compile(r"heading ([1-9])\b", re.IGNORECASE)
_LINK = re.compile(r'\s*HYPERLINK\s+(?:\\\w\s+)?"?([^"\s]+)"?', re.IGNORECASE)
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.?)\W*)?\d*(?:\W*(?:of|von|/)?\W*\d+)?\W*\Z", re.I
)
_LABEL = re.compile(r"\w*\d|\(?[A-Za-z]{1,5}[.):]|[A-Za-z]{2}")


@dataclass(slots=True)
class _State:
    """The state of a group: inherited from the outer group, and dropped at the end of the group."""

    story: Story
    sink: list[str] | None = None  # receives the text instead of the story
    kind: bytes = b""  # the destination of the text
    opened: bytes = b""  # the destination that this group began
    font: int = -1
    fallback: int = 1
    is_hidden: bool = False
    is_deleted: bool = False
    is_bold: bool = False
    mark: str = ""
    style: int = 0
    outline: int = -1
    is_in_table: bool = False
    nesting: int = 1
    depth: int = -1
    address: list[str] | None = None  # the link address in the enclosing field
    link_start: int = 0


def read_rtf(data: bytes) -> tuple[Block, ...]:
    """Read an RTF document. Line numbers count paragraphs and table rows."""
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not data.startswith(b"{\\rtf"):
        raise DocumentUnreadable(
            "the document",
            "the file has the extension of RTF, but its content is not RTF",
            "Give the file the extension of its real type, or add it to `ignore`",
        )
    return _Reader().read_blocks(data)


class _Reader:
    """Reads an RTF document. `number` counts paragraphs and table rows."""

    def __init__(self) -> None:
        self.number = 0
        self._main = Story(self._take_next_number)
        self._state = _State(self._main)
        self._stack: list[_State] = []
        self._too_deep = 0
        self._bytes = bytearray()
        self._to_skip = 0
        self._half = 0  # the first byte of a two-byte character
        self._is_new = self._is_starred = False
        self._deletions = 0
        self._encoding, self._default_font = "cp1252", -1
        self._fonts: dict[int, tuple[str, str]] = {}
        self._charset = ""
        self._levels: dict[int, int] = {}
        self._author = ""
        self._margins: list[Block] = []
        self._about: list[Element] = []

    def read_blocks(self, data: bytes) -> tuple[Block, ...]:
        for kind, value, number in split_into_tokens(data):
            self._take(kind, value, number)
        self._flush()
        while self._stack:
            self._close()
        blocks = tuple(self._main.finish())
        titles, properties = read_metadata(self._about)
        if not any(block.level == 1 for block in blocks) and titles:
            blocks = with_title(blocks, titles[0], 1)
        skipped = Counter({"deletions": self._deletions})
        known = {" ".join(block.text.split()) for block in blocks}
        margins = [margin for margin in self._margins if not _PAGE_NUMBER.match(margin.text)]
        skipped["page headers and footers that repeat"] += len(self._margins) - len(margins)
        if shown := tuple(read_margins(margins, known, skipped)):
            line = self.number
            blocks += (Block("heading", "", line, line, level=1), *shown)
        blocks = with_metadata(blocks, titles, properties)
        return (*blocks, make_skipped_block(skipped)) if skipped.total() else blocks

    def _take_next_number(self) -> int:
        self.number += 1
        return self.number

    def _take(self, kind: str, value: bytes, number: int | None) -> None:
        if kind in ("text", "hex"):
            self._is_new = self._is_starred = False
            if self._to_skip:
                dropped = min(self._to_skip, len(value))
                self._to_skip -= dropped
                value = value[dropped:]
            if self._state.kind != b"skip":
                self._bytes += value
            return
        if kind == "word" and value == b"u":
            self._flush()
            self._read_unicode(number or 0)
            return
        is_character = value in (CHARACTERS if kind == "word" else SYMBOLS)
        if self._to_skip and is_character and kind in ("word", "symbol"):
            self._to_skip -= 1
            return
        if kind != "symbol" or not is_character:
            self._to_skip = 0
        if kind == "symbol" and value in (b"\\", b"{", b"}"):
            self._bytes += value
            return
        self._flush()
        if kind == "{":
            self._open()
        elif kind == "}":
            self._close()
        elif kind == "symbol":
            self._read_symbol(value)
        else:
            self._read_word(value, number)

    def _open(self) -> None:
        if len(self._stack) >= _MAX_DEPTH:
            self._too_deep += 1
            return
        self._stack.append(self._state)
        self._state = copy(self._state)
        self._state.opened = b""
        self._is_new, self._is_starred = True, False

    def _close(self) -> None:
        self._is_new = False
        if self._too_deep:
            self._too_deep -= 1
            return
        if not self._stack:
            return
        ended, self._state = self._state, self._stack.pop()
        if ended.opened in _STORIES:
            self._end_story(ended)
        elif ended.opened in _CAPTURED:
            self._end_captured(ended.opened, "".join(ended.sink or ()))
        elif ended.opened == b"fldrslt" and ended.address and ended.sink is None:
            ended.story.line.mark_link(ended.address[0], ended.link_start)
        elif ended.kind in (b"fonttbl", b"stylesheet") and ended.sink:
            self._end_entry(ended)

    def _read_symbol(self, value: bytes) -> None:
        if value == b"*":
            self._is_starred = self._is_new
        elif value in (b"\r", b"\n", b"\r\n"):
            self._read_word(b"par", None)
        elif value in SYMBOLS:
            self._add(SYMBOLS[value])

    def _read_unicode(self, number: int) -> None:
        self._is_new = False
        self._to_skip = self._state.fallback
        code = number + 0x10000 if number < 0 else number
        if 0xD800 <= code < 0xDC00:
            self._half = code
            return
        if 0xDC00 <= code < 0xE000 and self._half:
            code = 0x10000 + ((self._half - 0xD800) << 10) + code - 0xDC00
        self._half = 0
        name = self._find_font()[1]
        if 0xF000 <= code < 0xF100:
            self._add(find_symbol(code, name if name.casefold() == "wingdings" else "symbol"))
        elif 0 < code <= 0x10FFFF and not 0xD800 <= code < 0xE000:
            self._add(chr(code))
        else:
            self._add("\ufffd")

    def _find_font(self) -> tuple[str, str]:
        font = self._state.font if self._state.font >= 0 else self._default_font
        return self._fonts.get(font, ("", ""))

    def _flush(self) -> None:
        """Add the collected bytes as text, decoded with the encoding of the current font."""
        if not self._bytes:
            return
        encoding, name = self._find_font()
        data = bytes(self._bytes)
        self._bytes.clear()
        if self._state.kind in (b"fonttbl", b"stylesheet"):
            encoding, name = self._charset, ""
        if name.casefold() in ("symbol", "wingdings"):
            text = "".join(find_symbol(code, name) or chr(code) for code in data)
        else:
            text = data.decode(encoding or self._encoding, "replace")
        self._add(text)

    def _add(self, text: str) -> None:
        state = self._state
        self._half = 0
        if state.kind == b"skip" or self._too_deep or state.is_hidden or state.is_deleted:
            return
        if state.sink is not None:
            state.sink.append(text)
            self._end_listed(text)
            return
        story = state.story
        story.line.add(text, state.mark)
        if text.strip():
            story.is_bold = state.is_bold and story.is_bold is not False
            story.level = self._find_level(state)
            story.depth = max(story.depth, state.depth)

    def _find_level(self, state: _State) -> int:
        if 0 <= state.outline <= 9:
            return state.outline + 1 if state.outline < 9 else 0
        return self._levels.get(state.style, 0)

    def _end_listed(self, text: str) -> None:
        """End a font's entry in the font table if `text` ends with a semicolon, because a group can
        define several fonts."""
        state = self._state
        if state.kind == b"fonttbl" and text.endswith(";"):
            self._end_entry(state)

    def _end_entry(self, state: _State) -> None:
        name = "".join(state.sink or ()).strip().rstrip(";").strip()
        if state.sink is not None:
            state.sink.clear()
        if state.kind == b"fonttbl":
            if len(self._fonts) < _MAX_ENTRIES and state.font >= 0 and name:
                self._fonts[state.font] = (self._charset, name)
            self._charset = ""
        elif len(self._levels) < _MAX_ENTRIES:
            found = _HEADING.match(name)
            level = int(found[1]) if found else 1 if name.casefold() == "title" else 0
            if 0 <= state.outline < 9:
                level = state.outline + 1
            if level and state.style:
                self._levels[state.style] = level

    def _end_story(self, ended: _State) -> None:
        blocks = ended.story.finish()
        if ended.opened in _MARGINS:
            self._margins += blocks
        elif ended.opened in (b"footnote", b"annotation"):
            author = f"{self._author}: " if ended.opened == b"annotation" and self._author else ""
            text = "\n".join(block.text for block in blocks)
            if text:
                line = self.number
                self._state.story.put_beside([Block("note", author + text, line, line)])
        else:
            self._state.story.put_beside(blocks)

    def _end_captured(self, name: bytes, text: str) -> None:
        text = text.strip()
        if name == b"fldinst":
            if self._state.address is not None and (found := _LINK.match(text)):
                self._state.address.append(found[1])
        elif name in (b"listtext", b"pntext"):
            story = self._state.story
            story.label = text if _LABEL.match(text) else ""
            story.depth = max(self._state.depth, 0)
        elif name == b"atnauthor":
            self._author = text
        elif name in (b"title", b"author", b"keywords") and len(self._about) < _MAX_ENTRIES:
            element = Element("creator" if name == b"author" else name.decode())
            element.text = text
            self._about.append(element)

    def _read_word(self, word: bytes, number: int | None) -> None:
        state = self._state
        is_new, self._is_new = self._is_new, False
        is_starred, self._is_starred = self._is_starred, False
        if state.kind == b"skip" or self._too_deep:
            return
        if is_starred and word not in _KNOWN:
            state.kind = b"skip"
        elif word in _SKIPPED:
            if is_new or is_starred:
                state.kind = b"skip"
        elif word in _STORIES or word in _CAPTURED:
            if is_new or is_starred:
                self._enter(word)
        elif action := _ACTIONS.get(word):
            action(self, number)
        elif word in CHARACTERS:
            self._add(CHARACTERS[word])
        elif state.sink is None or state.kind == b"stylesheet":
            self._place(word, number)

    def _enter(self, word: bytes) -> None:
        state = self._state
        state.opened = state.kind = word
        if word in _CAPTURED:
            state.sink = []
            state.is_hidden = False
        elif state.is_deleted or state.is_hidden:
            state.kind = b"skip"
            state.story = Story(self._take_next_number)
        else:
            state.story, state.sink = Story(self._take_next_number), None
            state.is_in_table, state.nesting, state.depth, state.address = False, 1, -1, None
            state.style, state.outline, state.mark = 0, -1, ""

    def _place(self, word: bytes, number: int | None) -> None:
        """Handle control words for paragraphs and tables."""
        state = self._state
        story = state.story
        grid = story.get_grid(state.nesting) if word in _TABLE_WORDS else None
        if word in (b"par", b"sect", b"page"):
            if state.is_in_table or story.is_in_row:
                story.line.add("\n")
            else:
                story.end_paragraph()
        elif word in (b"cell", b"nestcell"):
            story.end_cell(1 if word == b"cell" else max(state.nesting, 2))
        elif word in (b"row", b"nestrow"):
            story.end_row(1 if word == b"row" else max(state.nesting, 2))
        elif grid is None:
            return
        elif word == b"trowd":
            grid.begin_row()
        elif word == b"trhdr":
            grid.is_header = True
        elif word == b"clmrg":
            grid.next_place.goes_on = True
        elif word == b"clvmrg":
            grid.next_place.spans_down = True
        elif word == b"cellx" and len(grid.places) < _MAX_ENTRIES:
            grid.end_place(number or 0)

    def begin_field(self, _: int | None) -> None:
        self._state.address = []

    def begin_result(self, _: int | None) -> None:
        self._state.opened = b"fldrslt"
        self._state.link_start = self._state.story.line.begin()

    def reset_paragraph(self, _: int | None) -> None:
        state = self._state
        state.style, state.outline, state.is_in_table = 0, -1, False
        state.nesting, state.depth = 1, -1

    def reset_characters(self, _: int | None) -> None:
        state = self._state
        state.font, state.is_hidden, state.is_deleted, state.mark = -1, False, False, ""
        state.is_bold = False

    def set_code_page(self, number: int | None) -> None:
        self._encoding = find_code_page(number) if number else self._encoding

    def set_mac(self, _: int | None) -> None:
        self._encoding = "mac_roman"

    def set_pc(self, _: int | None) -> None:
        self._encoding = "cp437"

    def set_pca(self, _: int | None) -> None:
        self._encoding = "cp850"

    def set_default_font(self, number: int | None) -> None:
        self._default_font = number or 0

    def set_font(self, number: int | None) -> None:
        self._state.font = number or 0

    def set_charset(self, number: int | None) -> None:
        self._charset = find_charset_encoding(number or 0)

    def set_font_page(self, number: int | None) -> None:
        self._charset = find_code_page(number) if number else self._charset

    def set_fallback(self, number: int | None) -> None:
        self._state.fallback = max(0, 1 if number is None else number)

    def set_hidden(self, number: int | None) -> None:
        self._state.is_hidden = number != 0

    def set_deleted(self, number: int | None) -> None:
        state = self._state
        is_deleted = number != 0
        self._deletions += is_deleted and not state.is_deleted
        state.is_deleted = is_deleted

    def set_bold(self, number: int | None) -> None:
        self._state.is_bold = number != 0

    def raise_text(self, number: int | None) -> None:
        self._state.mark = "" if number == 0 else "^"

    def lower_text(self, number: int | None) -> None:
        self._state.mark = "" if number == 0 else "_"

    def clear_mark(self, _: int | None) -> None:
        self._state.mark = ""

    def set_style(self, number: int | None) -> None:
        self._state.style = number or 0

    def set_outline(self, number: int | None) -> None:
        self._state.outline = 9 if number is None else number

    def set_in_table(self, number: int | None) -> None:
        self._state.is_in_table = number != 0

    def set_nesting(self, number: int | None) -> None:
        self._state.nesting = min(max(number or 1, 1), _MAX_NESTED_TABLES)
        self._state.is_in_table = bool(number)

    def set_depth(self, number: int | None) -> None:
        self._state.depth = min(max(number or 0, 0), 12)


_TABLE_WORDS = frozenset(b"trowd trhdr clmrg clvmrg cellx".split())
_ACTIONS: dict[bytes, Callable[[_Reader, int | None], None]] = {
    b"field": _Reader.begin_field, b"fldrslt": _Reader.begin_result,
    b"pard": _Reader.reset_paragraph, b"plain": _Reader.reset_characters,
    b"ansicpg": _Reader.set_code_page, b"mac": _Reader.set_mac, b"pc": _Reader.set_pc,
    b"pca": _Reader.set_pca, b"deff": _Reader.set_default_font, b"f": _Reader.set_font,
    b"fcharset": _Reader.set_charset, b"cpg": _Reader.set_font_page,
    b"uc": _Reader.set_fallback, b"v": _Reader.set_hidden, b"deleted": _Reader.set_deleted,
    b"strike": _Reader.set_deleted, b"striked": _Reader.set_deleted, b"b": _Reader.set_bold,
    b"super": _Reader.raise_text, b"up": _Reader.raise_text, b"msup": _Reader.raise_text,
    b"sub": _Reader.lower_text, b"dn": _Reader.lower_text, b"msub": _Reader.lower_text,
    b"nosupersub": _Reader.clear_mark, b"s": _Reader.set_style,
    b"outlinelevel": _Reader.set_outline, b"intbl": _Reader.set_in_table,
    b"itap": _Reader.set_nesting, b"ilvl": _Reader.set_depth,
}  # fmt: skip
