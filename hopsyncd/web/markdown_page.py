"""Renders a Markdown file as HTML. Raw HTML is shown as text, and only http(s) addresses are
links."""

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from hopsyncd.formats.front_matter import remove_front_matter
from hopsyncd.web.reading import show_box

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_CHARACTERS = 64 << 10  # longer files are shown passage by passage
_MAX_NESTING = 12
_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|]{1,200})(?:\|([^\[\]]{1,200}))?\]\]")
_BLOCKS = {"paragraph_open", "heading_open", "list_item_open", "fence", "code_block", "tr_open"}


def render_markdown(text: str, lines: Sequence[int] | None, title: str = "") -> Markup:
    """Render a Markdown file's text as HTML, with the blocks in the range `lines` marked.

    If the first heading equals `title`, the heading is left out, because the title is shown above
    the document.

    >>> print(render_markdown("# Ada\\n\\nShe <b>wrote</b>.", [3, 3]).split("</h2>")[1].strip())
    <p class="marked" id="marked" tabindex="-1">She &lt;b&gt;wrote&lt;/b&gt;.</p>
    """
    body, _ = remove_front_matter(text)
    parser = _make_parser()
    tokens = parser.parse(_WIKI_LINK.sub(lambda found: found[2] or found[1], body))
    if title and [token.type for token in tokens[:2]] == ["heading_open", "inline"]:
        tokens = tokens[3:] if tokens[1].content == title else tokens
    _show_boxes(tokens)
    if lines:
        _mark(tokens, lines[0], lines[-1])
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
    return Markup(parser.renderer.render(tokens, parser.options, {}))


def _show_boxes(tokens: Sequence["Token"]) -> None:
    """Show a box before tasks in lists, and disable links that a browser cannot open.

    >>> print(render_markdown("- [x] Read [b](b.md)", None), end="")
    <ul>
    <li>\u2611 Read <span>b</span></li>
    </ul>
    """
    for before, token in zip(tokens, tokens[2:], strict=False):
        parts = token.children or []
        if before.type == "list_item_open" and parts:
            parts[0].content = show_box(parts[0].content)
    for token in tokens:
        is_text = False
        for part in token.children or []:
            if part.type == "link_open":
                is_text = not _is_web_address(str(part.attrs.get("href", "")))
            if is_text and part.type in ("link_open", "link_close"):
                part.tag, part.attrs = "span", {}


def _mark(tokens: Sequence["Token"], first: int, last: int) -> None:
    """Mark the innermost blocks within the lines from `first` to `last` (inclusive, counted from
    1)."""
    is_first, inside_until = True, 0
    for token in tokens:
        if token.type not in _BLOCKS or token.map is None or token.map[0] < inside_until:
            continue
        start, end = token.map[0] + 1, token.map[1]
        if first <= start and end <= last:
            inside_until = end
            token.attrJoin("class", "marked")
            if is_first:
                token.attrSet("id", "marked")
                token.attrSet("tabindex", "-1")
                is_first = False


@cache
def _make_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # slow to import

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _is_read  # type: ignore[method-assign,assignment]
    parser.add_render_rule("image", _render_image_text)
    return parser


def _is_read(address: str) -> bool:
    """Accept every link, so that links to files are parsed. `_show_boxes` disables them later."""
    return True


def _is_web_address(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def _render_image_text(self: Any, tokens: Sequence["Token"], index: int, *_: Any) -> str:
    """Return a picture's description, to show instead of the picture.

    Documents must not make the browser load pictures from other hosts.
    """
    return str(Markup('<span class="picture">{}</span>').format(tokens[index].content or "picture"))
