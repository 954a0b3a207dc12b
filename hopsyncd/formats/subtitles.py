"""Reads subtitles and transcripts (SubRip, WebVTT): the spoken text and its start times."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

from hopsyncd.formats.blocks import Block

_TIMES = re.compile(
    r"[ \t]*(?:(\d{1,3}):)?(\d\d):(\d\d)[.,]\d{1,3}[ \t]*-->"
    r"[ \t]*(?:(\d{1,3}):)?(\d\d):(\d\d)[.,]\d{1,3}"
)
_SPEAKER = re.compile(r"<v(?:\.[\w.]+)?[ \t]+([^<>]{1,100})>")
_MARKUP = re.compile(r"</?(?:[biuc]|ruby|rt|v|lang|font)\b[^<>]*>|<[\d:.]+>|\{\\[^{}]{1,40}\}")
_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"'\u201d\u2019)\]]*\Z")
_ENOUGH_CHARACTERS, _MOST_CHARACTERS = 200, 600
_PAUSE_S = 4


@dataclass(frozen=True, slots=True)
class _Cue:
    text: str
    begin_s: int
    end_s: int
    first_line: int
    last_line: int


def read_subtitles(text: str) -> tuple[Block, ...]:
    """Read subtitles. Cues are joined into paragraphs, which end with a sentence or at a pause.

    Each paragraph begins with its time. Cue numbers, styles and author's notes are left out.
    """
    return tuple(_join_cues(_read_cues(text.split("\n"))))


def _read_cues(lines: list[str]) -> Iterator[_Cue]:
    index = 0
    previous = ""
    while index < len(lines):
        found = _TIMES.match(lines[index])
        index += 1
        if not found:
            continue
        first = index
        while index < len(lines) and lines[index].strip() and not _TIMES.match(lines[index]):
            index += 1
        shown = _SPEAKER.sub(r"\1: ", " ".join(lines[first:index]))
        shown = " ".join(unescape(_MARKUP.sub("", shown)).split())
        # Live captions repeat the previous line until it scrolls away.
        is_repeated = bool(previous) and f"{shown} ".startswith(f"{previous} ")
        new = shown[len(previous) :].strip() if is_repeated else shown
        if new:
            hours, minutes, seconds, *end = (int(part or 0) for part in found.groups())
            begin_s = hours * 3600 + minutes * 60 + seconds
            yield _Cue(new, begin_s, end[0] * 3600 + end[1] * 60 + end[2], first, max(first, index))
            previous = shown


def _join_cues(cues: Iterator[_Cue]) -> Iterator[Block]:
    waiting: list[_Cue] = []
    length = 0
    for cue in cues:
        if waiting and (
            cue.begin_s - waiting[-1].end_s >= _PAUSE_S
            or length + len(cue.text) > _MOST_CHARACTERS
            or (length >= _ENOUGH_CHARACTERS and _END.search(waiting[-1].text))
        ):
            yield _make_paragraph(waiting)
            waiting, length = [], 0
        waiting.append(cue)
        length += len(cue.text) + 1
    if waiting:
        yield _make_paragraph(waiting)


def _make_paragraph(cues: list[_Cue]) -> Block:
    hours, rest = divmod(cues[0].begin_s, 3600)
    time = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    text = "\n".join(cue.text for cue in cues)
    return Block("paragraph", f"[{time}] {text}", cues[0].first_line, cues[-1].last_line)
