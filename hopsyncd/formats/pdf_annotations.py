"""Reads the objects of a PDF page that are not page text: form fields, notes, stamps, links and
pictures."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from hopsyncd.formats.blocks import join_lines
from hopsyncd.formats.pdf_spans import Box, Span
from hopsyncd.formats.pdf_text import turn_box

_MAX_ANNOTATIONS = 5_000  # the most annotations of a page that are read.
_MAX_LINKS = 500
_MAX_BYTES = 200_000  # the most bytes of a field's value that are read.
_MAX_OPTIONS = 1_000
_PASSWORD = 1 << 13  # a flag of text fields
_HIDDEN = 2 | 32  # the flags Hidden and NoView
_MAX_OBJECTS = 20_000
_FORMS_WITHIN = 3  # form objects are searched for pictures to this depth
_THIN = 3.0  # points: thinner shapes are lines
_LEAST_FILL = 6.0  # points: the minimum width and height of a background
_MAX_FILLS = 1000  # backgrounds per page
_WHITE = 250  # of 255: the minimum of red, green and blue
_MAX_SEGMENTS = 5_000  # per page, in paths with many lines
_SIMPLE_PATH = 6  # the maximum number of segments in a line or rectangle
_BACKGROUND = 0.8  # A shape that covers this share of the page's width and height is a background.
_LINE_HEIGHT = 11.0
_SEPARATE_NOTES = ("HIGHLIGHT", "UNDERLINE", "SQUIGGLY", "STRIKEOUT", "TEXT", "CARET", "INK")
_DRAWN_NOTES = ("LINE", "SQUARE", "CIRCLE", "POLYGON", "POLYLINE", "FILEATTACHMENT")
_IN_PLACE = ("FREETEXT", "STAMP")


@dataclass(slots=True)
class Annotations:
    """The annotations of a page: `spans` are text on the page, `notes` are comments with their
    authors. `drawn` are the positions of stamps and signatures whose text is only drawn."""

    spans: list[Span] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    links: list[tuple[Box, str]] = field(default_factory=list)
    drawn: list[int] = field(default_factory=list)


class AnnotationReader:
    """Reads the annotations of a page, which is rotated by `quarters` quarter turns.

    `raw` is pypdfium2's module of PDFium functions.
    """

    def __init__(self, document: Any, page: Any, raw: Any, quarters: int) -> None:
        self._raw, self._document, self._page, self._quarters = raw, document, page, quarters
        self._form = document.formenv.raw if document.formenv else None
        self._kinds = {
            getattr(raw, f"FPDF_ANNOT_{name}"): name
            for name in (*_SEPARATE_NOTES, *_DRAWN_NOTES, *_IN_PLACE, "WIDGET", "LINK")
        }

    def read(self) -> Annotations:
        """Read the page's annotations in file order."""
        raw, found = self._raw, Annotations()
        count = min(raw.FPDFPage_GetAnnotCount(self._page.raw), _MAX_ANNOTATIONS)
        for index in range(count):
            annotation = raw.FPDFPage_GetAnnot(self._page.raw, index)
            if not annotation:
                continue
            try:
                if not raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN:
                    self._read(annotation, found)
                    if self._is_drawn(annotation):
                        found.drawn.append(index)
            finally:
                raw.FPDFPage_CloseAnnot(annotation)
        return found

    def _read(self, annotation: Any, found: Annotations) -> None:
        kind = self._kinds.get(self._raw.FPDFAnnot_GetSubtype(annotation), "")
        if kind == "LINK":
            is_room = len(found.links) < _MAX_LINKS
            if is_room and (target := self._find_target(annotation)):
                found.links.append((self._read_box(annotation), target))
        elif kind == "WIDGET":
            self._place(
                found, self._read_box(annotation), self._read_value(annotation), is_value=True
            )
        elif kind in _IN_PLACE:
            self._place(
                found, self._read_box(annotation), self._read_string(annotation, b"Contents")
            )
        elif kind and (contents := join_lines(self._read_string(annotation, b"Contents"))):
            author = join_lines(self._read_string(annotation, b"T"))
            found.notes.append(f"{author}: {contents}" if author else contents)

    def _place(self, found: Annotations, box: Box, text: str, *, is_value: bool = False) -> None:
        """Add the lines of `text` to `found` as spans in a box, one below the other. `is_value`
        marks the value of a form field."""
        lines = [line for line in map(join_lines, text.splitlines()) if line]
        if not lines:
            return
        left, bottom, right, top = box
        height = min((top - bottom) / len(lines), _LINE_HEIGHT)
        # A single line is centered in its box, as fields show it.
        top = (top + bottom + height) / 2 if len(lines) == 1 else top
        for index, line in enumerate(lines):
            above = top - index * height
            span = Span(line, left, above - height, right, above, is_value=is_value)
            found.spans.append(span)

    def _read_value(self, annotation: Any) -> str:
        """Return the visible value of a form field. A checked box has the value `[x]`."""
        raw = self._raw
        if not self._form:
            return self._read_string(annotation, b"V")
        kind = raw.FPDFAnnot_GetFormFieldType(self._form, annotation)
        if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
            return "[x]" if raw.FPDFAnnot_IsChecked(self._form, annotation) else "[ ]"
        if kind in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
            if chosen := "\n".join(self._list_selected_options(annotation)):
                return chosen
        elif kind != raw.FPDF_FORMFIELD_TEXTFIELD:
            return ""
        if raw.FPDFAnnot_GetFormFieldFlags(self._form, annotation) & _PASSWORD:
            return ""
        return self._read_text(raw.FPDFAnnot_GetFormFieldValue, self._form, annotation)

    def _list_selected_options(self, annotation: Any) -> Iterator[str]:
        raw, form = self._raw, self._form
        count = min(raw.FPDFAnnot_GetOptionCount(form, annotation), _MAX_OPTIONS)
        for index in range(count):
            if raw.FPDFAnnot_IsOptionSelected(form, annotation, index):
                yield self._read_text(raw.FPDFAnnot_GetOptionLabel, form, annotation, index)

    def _is_drawn(self, annotation: Any) -> bool:
        """Whether an annotation has no text except in its drawing: a signature, or a stamp without
        contents."""
        raw = self._raw
        kind = self._kinds.get(raw.FPDFAnnot_GetSubtype(annotation), "")
        if kind == "WIDGET":
            of_field = raw.FPDFAnnot_GetFormFieldType(self._form, annotation) if self._form else 0
            is_alone = of_field == raw.FPDF_FORMFIELD_SIGNATURE
        else:
            is_alone = kind in _IN_PLACE and not self._read_string(annotation, b"Contents").strip()
        return bool(is_alone and raw.FPDFAnnot_GetObjectCount(annotation) > 0)

    def _find_target(self, annotation: Any) -> str:
        raw = self._raw
        link = raw.FPDFAnnot_GetLink(annotation)
        action = raw.FPDFLink_GetAction(link) if link else None
        if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
            return ""
        length = raw.FPDFAction_GetURIPath(self._document.raw, action, None, 0)
        if not 1 < length <= _MAX_BYTES:
            return ""
        buffer = ctypes.create_string_buffer(length)
        raw.FPDFAction_GetURIPath(self._document.raw, action, buffer, length)
        return buffer.value.decode("utf-8", "replace")

    def _read_box(self, annotation: Any) -> Box:
        rect = self._raw.FS_RECTF()
        self._raw.FPDFAnnot_GetRect(annotation, ctypes.byref(rect))
        left, right = sorted((rect.left, rect.right))
        bottom, top = sorted((rect.bottom, rect.top))
        return turn_box((left, bottom, right, top), self._quarters)

    def _read_string(self, annotation: Any, key: bytes) -> str:
        return self._read_text(self._raw.FPDFAnnot_GetStringValue, annotation, key)

    def _read_text(self, read: Any, *arguments: Any) -> str:
        """Read a UTF-16 string from PDFium. `read` is a function of PDFium that takes `arguments`,
        a buffer and the buffer's length. Returns "" if the string is too long."""
        length = read(*arguments, None, 0)
        if not 2 < length <= _MAX_BYTES:
            return ""
        buffer = (self._raw.FPDF_WCHAR * (length // 2 + 1))()
        read(*arguments, buffer, length)
        return bytes(buffer)[: length - 2].decode("utf-16-le", "replace")


def read_drawn_notes(
    document: Any, page: Any, raw: Any, number: int, drawn: Sequence[int]
) -> list[str]:
    """Return the text that the stamps and signatures at the positions `drawn` show, as one note.

    PDFium reads this text only as a part of the page. So all other annotations are removed, and the
    drawings are made a part of the page `number`. This changes the document only in memory.
    """
    if not drawn:
        return []
    with closing(page.get_textpage()) as text_page:
        before = text_page.get_text_range()
    for index in reversed(range(raw.FPDFPage_GetAnnotCount(page.raw))):
        if index not in drawn:
            raw.FPDFPage_RemoveAnnot(page.raw, index)
    raw.FPDFPage_Flatten(page.raw, raw.FLAT_NORMALDISPLAY)
    with closing(document[number - 1]) as whole, closing(whole.get_textpage()) as text_page:
        after = text_page.get_text_range()
    added = join_lines(after.removeprefix(before)) if after.startswith(before) else ""
    return [added] if added else []


@dataclass(slots=True)
class Drawn:
    """The drawings of a page: ruling lines, filled boxes with their colours, and the share of the
    page that pictures cover."""

    rules: list[Box] = field(default_factory=list)
    fills: list[tuple[Box, int]] = field(default_factory=list)  # boxes of colour, as painted
    pictured: float = 0.0


def read_drawing(page: Any, raw: Any, quarters: int) -> Drawn:
    """Find the ruling lines, filled boxes and pictures of a page, which is rotated by `quarters`
    quarter turns."""
    found, edges = Drawn(), [ctypes.c_float() for _ in range(4)]
    to_edges = [ctypes.byref(edge) for edge in edges]
    width, height = page.get_size()
    area, room = max(width * height, 1.0), _MAX_SEGMENTS
    count, has_forms = min(raw.FPDFPage_CountObjects(page.raw), _MAX_OBJECTS), False
    for index in range(count):
        shape = raw.FPDFPage_GetObject(page.raw, index)
        kind = raw.FPDFPageObj_GetType(shape)
        has_forms = has_forms or kind == raw.FPDF_PAGEOBJ_FORM
        if kind not in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_IMAGE):
            continue
        if not raw.FPDFPageObj_GetBounds(shape, *to_edges):
            continue
        left, bottom, right, top = (edge.value for edge in edges)
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            found.pictured += (right - left) * (top - bottom) / area
            continue
        segments = raw.FPDFPath_CountSegments(shape)
        boxes = [(left, bottom, right, top)]
        if segments > _SIMPLE_PATH:
            boxes = list(_find_lines(shape, raw, segments)) if segments <= room else []
            room -= segments
        for box in (turn_box(box, quarters) for box in boxes):
            is_background = (
                box[2] - box[0] > _BACKGROUND * width and box[3] - box[1] > _BACKGROUND * height
            )
            if not is_background:
                found.rules.append(box)
        if len(boxes) == 1 and right - left > _LEAST_FILL < top - bottom:
            _add_fill(found, shape, raw, turn_box(boxes[0], quarters))
    if has_forms and not found.pictured:
        shown = page.get_objects((raw.FPDF_PAGEOBJ_IMAGE,), max_depth=_FORMS_WITHIN)
        found.pictured = 0.01 if any(True for _ in shown) else 0.0
    return found


def _add_fill(found: Drawn, shape: Any, raw: Any, box: Box) -> None:
    """Add the box and the fill colour of a path to `found`, if the path is filled. White counts as
    no colour."""
    mode, stroked = ctypes.c_int(), ctypes.c_int()
    if len(found.fills) >= _MAX_FILLS:
        return
    if not raw.FPDFPath_GetDrawMode(shape, ctypes.byref(mode), ctypes.byref(stroked)):
        return
    color = [ctypes.c_uint() for _ in range(4)]
    if mode.value and raw.FPDFPageObj_GetFillColor(shape, *map(ctypes.byref, color)):
        red, green, blue, opacity = (channel.value for channel in color)
        is_white = min(red, green, blue) >= _WHITE or not opacity
        found.fills.append((box, 0 if is_white else 1 + (red << 16 | green << 8 | blue)))


def _find_lines(shape: Any, raw: Any, segments: int) -> Iterator[Box]:
    """Yield the vertical and horizontal lines among the segments of a path as thin boxes. Yields
    nothing if the path has curves. `segments` is the number of segments."""
    x, y, matrix = ctypes.c_float(), ctypes.c_float(), raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(shape, ctypes.byref(matrix)):
        return
    found: list[Box] = []
    begin = last = (0.0, 0.0)
    for index in range(segments):
        segment = raw.FPDFPath_GetPathSegment(shape, index)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_BEZIERTO:
            return
        raw.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        point = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        if kind == raw.FPDF_SEGMENT_MOVETO:
            begin = point
        else:
            found.append(_make_box(last, point))
        if raw.FPDFPathSegment_GetClose(segment):
            found.append(_make_box(point, begin))
        last = point
    yield from (box for box in found if min(box[2] - box[0], box[3] - box[1]) < _THIN)


def _make_box(corner: tuple[float, float], other: tuple[float, float]) -> Box:
    left, right = sorted((corner[0], other[0]))
    bottom, top = sorted((corner[1], other[1]))
    return left, bottom, right, top
