"""Adds directives and roles that Sphinx and other tools define and docutils does not.

An unknown directive is read as its argument with its content below, and an unknown role as its
text. As a result, no text is lost if a tool is not installed, and the definitions of a document do
not affect the next document.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives, roles, states
from docutils.utils import punctuation_chars

from hopsyncd.formats.blocks import WrittenLink, make_address_link, make_name_link


class described(nodes.General, nodes.Element):  # noqa: N801 - as docutils names its nodes
    """The argument of a directive (the first child, a paragraph) and its content.

    If `is_lead`, the argument is context for the content. If `is_shown`, the argument is also read
    as separate text.
    """


class contents(nodes.General, nodes.Element):  # noqa: N801
    """A table of contents; `links` are its entries."""


class linked(nodes.Inline, nodes.TextElement):  # noqa: N801
    """The text of a link; `link` is its WrittenLink."""


_CODE = frozenset(
    "code code-block sourcecode parsed-literal doctest testcode testoutput prompt".split()
)
_DROPPED = frozenset(
    "include literalinclude raw highlight index meta sectnum contents default-role role testsetup"
    " testcleanup youtube header footer title date".split()
)
_MODULES = frozenset({"module", "currentmodule"})
# The argument of these directives is no lead of their content.
_ASIDE = frozenset("versionadded versionchanged deprecated versionremoved only rubric".split())
# Alternatives, each with its own content.
_TABS = frozenset({"tab", "tab-item"})
# The text that the manual shows for the directive, before the version.
_VERSIONED = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_OF_DOCUTILS = frozenset(
    "admonition attention caution danger error hint important note tip warning image figure topic"
    " sidebar line-block math rubric epigraph highlights pull-quote compound container table"
    " csv-table list-table replace unicode".split()
)
_ROLES = {
    "": "title-reference",
    "sup": "superscript",
    "superscript": "superscript",
    "sub": "subscript",
    "subscript": "subscript",
    "math": "math",
    "code": "code",
    "literal": "literal",
}
_TITLED = re.compile(r"(.*?)\s*<([^<>]+)>\Z", re.DOTALL)
_ADDRESS_SIGN = re.compile(r"\w:\S|@")
# Sphinx describes a Python class with the directive that docutils uses for names of CSS classes.
_PYTHON_CLASS = re.compile(r"[A-Z.(]")
_DOCUMENTS = {"pep": "PEP", "rfc": "RFC"}


class _AnyOptions(dict[str, Callable[[str], Any]]):
    """Accepts all options of a directive, even those that it does not define."""

    def __missing__(self, name: str) -> Callable[[str], Any]:
        return str


class _Skipped(Directive):
    """Skips a directive that has no text for readers."""

    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[Any] = _AnyOptions({"": str})
    has_content = True

    def run(self) -> list[nodes.Node]:
        return []


class _Module(_Skipped):
    """Keeps only the content of a directive that names a module."""

    def run(self) -> list[nodes.Node]:
        holder = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, holder)
        return [*holder.children]


class _Code(_Skipped):
    """Keeps the code in a directive unchanged."""

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        if not text.strip():
            return []
        block = nodes.literal_block(text, text)
        block.line = self.content_offset + 1
        return [block]


class _Contents(_Skipped):
    """Reads the entries of a `toctree` as links."""

    def run(self) -> list[nodes.Node]:
        links = []
        for line in self.content:
            shown, target = _split_title(line.strip(), "")
            links.append(make_address_link(target, shown) if target else None)
        node = contents(links=tuple(filter(None, links)))
        node.line = self.lineno
        return [node]


class _Described(_Skipped):
    """Parses a directive into its argument and the content below it."""

    def run(self) -> list[nodes.Node]:
        name = self.name.lower().rpartition(":")[2]
        argument = self.arguments[0] if self.arguments else ""
        if name == "class" and not _PYTHON_CLASS.search(argument):
            argument = ""
        if name in _VERSIONED:
            version, *explained = argument.split(None, 1) or [""]
            argument = ": ".join([f"{_VERSIONED[name]} {version}", *explained])
        node = described(is_lead=name not in _ASIDE, is_shown=name not in _TABS)
        node.line = self.lineno
        inline, messages = self.state.inline_text(argument, self.lineno)
        paragraph = nodes.paragraph(argument, "", *inline)
        paragraph.line = self.lineno
        node += paragraph
        node += [message for message in messages if message.astext()]
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


def _make_tolerant(known: type[Directive]) -> type[Directive]:
    """Make a subclass of a docutils directive that accepts unknown options and records its line."""

    def run(self: Directive) -> list[nodes.Node]:
        found: list[nodes.Node] = known.run(self)
        for node in found:
            node.line = node.line or self.lineno
        return found

    options = _AnyOptions(known.option_spec or {"": str})
    return type(known.__name__, (known,), {"option_spec": options, "run": run})


def _find_directive(
    name: str, language: Any, document: nodes.document
) -> tuple[type[Directive], list[nodes.system_message]]:
    plain = name.lower().rpartition(":")[2]
    if plain in _CODE:
        return _Code, []
    if plain == "toctree":
        return _Contents, []
    if plain in _MODULES:
        return _Module, []
    if name.lower() in _DROPPED:
        return _Skipped, []
    if name.lower() in _OF_DOCUTILS:
        found, messages = _docutils_directive(name, language, document)
        if found:
            return _make_tolerant(found), messages
    return _Described, []


def _find_role(
    name: str, language: Any, lineno: int, reporter: Any
) -> tuple[Callable[..., Any], list[nodes.system_message]]:
    known = _ROLES.get(name.lower())
    return (roles._role_registry[known] if known else _show_role), []


def _show_role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: object = None,
    content: Sequence[str] = (),
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Show a role's text, as a link if it names a document or a section."""
    shown, target = _split_title(nodes.unescape(text), None)
    role = name.lower().rpartition(":")[2]
    link: WrittenLink | None = None
    if role in _DOCUMENTS:
        number = target.partition("#")[0]
        link = make_name_link(f"{_DOCUMENTS[role]} {number}", shown)
        shown = shown if shown != target else f"{_DOCUMENTS[role]} {shown}"
    elif role in ("doc", "download"):
        link = make_address_link(target, shown)
    elif role in ("ref", "term", "numref"):
        link = make_name_link(target, shown)
    else:
        shown = shown.lstrip("~!")
    return [linked(rawtext, shown, link=link)], []


def _split_title(text: str, untitled: str | None) -> tuple[str, str]:
    """Split `text <target>` into text and target. If there is only a target, the text is
    `untitled`, or the target if `untitled` is None."""
    found = _TITLED.match(text)
    if found and found[1]:
        return found[1], found[2]
    return (text if untitled is None else untitled), text


class _States(dict[str, states.RSTState]):
    """Creates each state of a docutils state machine when the machine first enters it.

    docutils creates fifteen states for each nested list or cell, and enters two or three. Creating
    all of them took a third of the reading time.
    """

    def __init__(self, machine: states.NestedStateMachine, classes: Iterable[type]) -> None:
        super().__init__()
        self._machine = machine
        self._classes = {state.__name__: state for state in classes}

    def __missing__(self, name: str) -> states.RSTState:
        state = self[name] = self._classes[name](self._machine, self._machine.debug)
        if hasattr(self._machine, "memo"):  # the state machine is already running
            state.runtime_init()
        return state


def make_inliner() -> states.Inliner:
    """Create an inline parser that runs the slow search for addresses only where an address may
    occur.

    A subclass cannot do this, because docutils reads the attributes of its own class.
    """
    inliner = states.Inliner()
    find_addresses = inliner.implicit_inline

    def implicit_inline(text: str, lineno: int) -> list[nodes.Node]:
        if text and not _ADDRESS_SIGN.search(text):
            return [nodes.Text(text)]
        found: list[nodes.Node] = find_addresses(text, lineno)
        return found

    inliner.implicit_inline = implicit_inline
    return inliner


class _Machine(states.NestedStateMachine):
    def add_states(self, state_classes: Iterable[type]) -> None:
        self.states = _States(self, state_classes)


_docutils_directive = directives.directive


def install() -> None:
    """Make docutils look up directives and roles in this module, for the whole process.

    The lookups of docutils would keep the definitions of a document for later documents.
    """
    directives.directive = _find_directive
    roles.role = _find_role
    states.RSTState.nested_sm = _Machine
    punctuation_chars.match_chars = lru_cache(1000)(punctuation_chars.match_chars)
