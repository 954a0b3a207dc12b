"""The texts and values of charts, which Word, Excel and PowerPoint keep in the same form."""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import local_name
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.tables import TableBuilder, table_blocks

_LONG_FRACTION = re.compile(r"-?\d+\.\d{14,20}\Z")
_MAX_POINTS = 200  # of one series; the rows of a larger one lie in the sheet


def chart_blocks(chart: Element, line: int) -> Iterator[Block]:
    """A chart's title, the titles of its axes, and its values as a table: a row for each category,
    a column for each series."""
    titles = [_text(title) for title in chart.iterfind(".//{*}title")]
    caption = titles[0] if titles else ""
    if caption:
        yield Block("figure", caption, line, line)
    for axis in filter(None, titles[1:]):
        yield Block("figure", axis, line, line)
    series = [(_name(one), _points(one, ("cat", "xVal")), _points(one, ("val", "yVal")))
              for one in chart.iterfind(".//{*}ser")]  # fmt: skip
    series = [one for one in series if one[2]]
    if not series:
        return
    categories = max((points for _, points, _ in series), key=len)
    builder = TableBuilder()
    builder.begin_row(line, is_header=True)
    builder.add("", is_header=True)
    for name, _, _ in series:
        builder.add(name, is_header=True)
    for at in sorted({at for _, _, values in series for at in values})[:_MAX_POINTS]:
        builder.begin_row(line)
        builder.add(categories.get(at, ""))
        for _, _, values in series:
            builder.add(values.get(at, ""))
    yield from table_blocks(builder.build(), (caption,) if caption else ())


def _text(element: Element) -> str:
    parts = (part.text or "" for part in element.iter() if local_name(part) in ("t", "v"))
    return " ".join("".join(parts).split())


def _name(series: Element) -> str:
    return next((_text(name) for name in series.iterfind("{*}tx")), "")


def _points(series: Element, names: tuple[str, ...]) -> dict[int, str]:
    """The cached texts of a series by their index."""
    points: dict[int, str] = {}
    for name in names:
        for point in series.iterfind(f"{{*}}{name}//{{*}}pt"):
            value = _text(point)
            if value and (at := point.get("idx", "")).isdecimal():
                points[int(at)] = _LONG_FRACTION.sub(_shortened, value)
    return points


def _shortened(number: re.Match[str]) -> str:
    """A number as it was typed: files have 4.4000000000000004 for 4.4."""
    return f"{float(number[0]):.15g}"
