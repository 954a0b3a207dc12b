"""Reads the labels and values of charts. Word, Excel and PowerPoint store them in the same form."""

import re
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from hopsyncd.formats.archive import get_local_name
from hopsyncd.formats.blocks import Block
from hopsyncd.formats.numbers import show_value
from hopsyncd.formats.table_text import make_table_blocks
from hopsyncd.formats.tables import TableBuilder

_NUMBER = re.compile(r"[-+]?\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?\Z")
_KIND = re.compile(r"(bar|line|pie|area|scatter|bubble|radar|doughnut|surface|stock)(?:3D)?Chart\Z")
# the most points of a series. The sheet also contains the points of larger series.
_MAX_POINTS = 200


def read_chart(chart: Element, line: int) -> Iterator[Block]:
    """Yield the kind and title of a chart, its axis titles, and its values as a table. All blocks
    get the line number `line`.

    The table has a row for each category and a column for each series.
    """
    of_axes = list(chart.iterfind(".//{*}plotArea//{*}title"))
    titles = [_collect_text(title) for title in of_axes]
    chart_titles = [
        _collect_text(title) for title in chart.iterfind(".//{*}title") if title not in of_axes
    ]
    caption = name_chart(_find_kind(chart), next(iter(chart_titles), ""))
    if caption:
        yield Block("figure", caption, line, line)
    for axis in filter(None, titles):
        yield Block("figure", axis, line, line)
    series = [
        (_name(item), _read_points(item, ("cat", "xVal")), _read_points(item, ("val", "yVal")))
        for item in chart.iterfind(".//{*}ser")
    ]
    series = [entry for entry in series if entry[2]]
    if not series:
        return
    categories = max((points for _, points, _ in series), key=len)
    builder = TableBuilder()
    builder.begin_row(line, is_header=True)
    builder.add("", is_header=True)
    for name, _, _ in series:
        builder.add(name, is_header=True)
    for index in sorted({index for _, _, values in series for index in values})[:_MAX_POINTS]:
        builder.begin_row(line)
        builder.add(categories.get(index, ""))
        for _, _, values in series:
            builder.add(values.get(index, ""))
    yield from make_table_blocks(builder.build(), (caption,) if caption else ())


def _find_kind(chart: Element) -> str:
    """Return the kind of a chart, such as "bar" or "line", or "" if it is unknown."""
    kinds = {
        found[1] for element in chart.iter() if (found := _KIND.match(get_local_name(element)))
    }
    return " and ".join(sorted(kinds))


def name_chart(kind: str, title: str) -> str:
    """Join the kind of a chart and its title.

    >>> name_chart("bar", "Catch"), name_chart("line", ""), name_chart("bar", "Bar chart of cod")
    ('Bar chart: Catch', 'Line chart', 'Bar chart of cod')
    """
    kind_name = f"{kind.capitalize()} chart" if kind else ""
    if not title or kind_name.casefold() in title.casefold():
        return title or kind_name
    return f"{kind_name}: {title}"


def _collect_text(element: Element) -> str:
    parts = (part.text or "" for part in element.iter() if get_local_name(part) in ("t", "v"))
    return " ".join("".join(parts).split())


def _name(series: Element) -> str:
    return next((_collect_text(name) for name in series.iterfind("{*}tx")), "")


def _read_points(series: Element, names: tuple[str, ...]) -> dict[int, str]:
    """Return the labels or values of a series by their index. `names` are the tags of the elements
    to read, such as "cat" or "val".

    Numbers are formatted as in the chart.
    """
    points: dict[int, str] = {}
    for name in names:
        for saved in series.iterfind(f"{{*}}{name}"):
            number_format = saved.findtext(".//{*}formatCode") or "General"
            levels = saved.findall(".//{*}lvl")
            if len(levels) > 1:
                points |= _read_grouped_points(levels)
                continue
            for point in saved.iterfind(".//{*}pt"):
                value = _collect_text(point)
                if value and (index := point.get("idx", "")).isdecimal():
                    points[int(index)] = _show_number(
                        value, point.get("formatCode") or number_format
                    )
    return points


def _read_grouped_points(levels: Sequence[Element]) -> dict[int, str]:
    """Return grouped categories such as "2024 > Q1", outermost group first, by their index.
    `levels` has the innermost level first."""
    texts = [
        {
            int(index): _collect_text(point)
            for point in level
            if (index := point.get("idx", "")).isdecimal()
        }
        for level in levels
    ]
    points: dict[int, str] = {}
    for place, name in texts[0].items():
        path = [name]
        for level in texts[1:]:
            group = max((start for start in level if start <= place), default=None)
            path += [] if group is None else [level[group]]
        points[place] = " > ".join(filter(None, reversed(path)))
    return points


def _show_number(text: str, number_format: str) -> str:
    """Format a number without binary rounding noise: a file may contain 4.4000000000000004 for
    4.4."""
    if not _NUMBER.match(text):
        return text
    return show_value(float(text), number_format)
