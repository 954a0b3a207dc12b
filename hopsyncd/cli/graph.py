"""`hopsyncd graph`: the passages around a passage or document, as a tree, DOT or JSON."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import (
    WholeNumber,
    at_option,
    format_heading,
    format_place,
    json_option,
    make_client,
    print_if_json,
    verbose_option,
    warn,
)
from hopsyncd.cli.show import find_document
from hopsyncd.cli.terminal import echo_drawn, format_id
from hopsyncd.client import Client
from hopsyncd.display import choose_hop_verb, explain_hop, format_title
from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

_LABEL_CHARACTERS = 60
# Also matches prefixes that are too short, which the daemon reports.
_ID = re.compile("[0-7][0-9a-f]{0,15}")
_DOT_LINES = {"from": "", "link": ", style=dotted", "both": ", dir=none, style=dashed"}


@click.command()
@click.argument("start", metavar="PASSAGE|DOCUMENT", required=False)
@click.option("--document", help="Start from all passages of this document.")
@click.option(
    "--source",
    help="The document's source, if several sources have this path.",
)
@click.option(
    "--hops",
    default=2,
    show_default=True,
    type=WholeNumber(1, 4),
    help="Maximum number of hops from the start.",
)
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=WholeNumber(min=1),
    help="Maximum number of passages around each starting passage. The nearest are kept.",
)
@at_option
@click.option(
    "--format",
    "shape",
    type=click.Choice(["tree", "dot", "json"]),
    default="tree",
    show_default=True,
    help="A tree, DOT for Graphviz, or JSON.",
)
@verbose_option
@json_option
@click.pass_context
def graph(
    context: click.Context,
    start: str | None,
    document: str | None,
    source: str | None,
    hops: int,
    limit: int,
    at: str,
    shape: str,
    verbose: bool,
    as_json: bool,
) -> None:
    """Draw the passages around a passage or a document.

    PASSAGE is an id, as `query` and `ask` print it, or its first characters. DOCUMENT is a path.

    Each passage is drawn once, below a nearer passage, with the relation between the two. With
    --verbose, each relation is a whole question, and edges also show their similarity.

    \b
    Examples: hopsyncd graph 68e8242676714bee --hops 1
              hopsyncd graph people/ada.md --format dot | dot -Tsvg > ada.svg
    """
    if (start is None) == (document is None):
        raise click.UsageError("Give the id of a passage, or the path of a document.")
    with make_client(context) as client:
        if start and _ID.fullmatch(start):
            ids = [start]
        else:
            ids = _list_passages(client, document or start or "", source, at)
        answers = [client.neighbours(id_, hops=hops, limit=limit, at=at) for id_ in ids]
        merged_answer = _merge(answers)
        if print_if_json(merged_answer, as_json or shape == "json", client):
            return
    if shape == "dot":
        click.echo("\n".join(_format_dot_lines(merged_answer)))
    else:
        warn(merged_answer["degraded"])
        for part in answers:
            echo_drawn(_make_tree(part, verbose))
        click.secho(f"version {merged_answer['version']}", fg="cyan")


def _list_passages(client: Client, document: str, source: str | None, at: str) -> list[str]:
    """Return the ids of a document's passages. Raises the errors of `find_document`."""
    name, answer = find_document(client, document, source, at)
    ids = list(dict.fromkeys(passage["id"] for passage in answer["passages"]))
    if not ids:
        raise click.UsageError(f"{name}: {document} has no text, so it has no passages.")
    return ids


def _merge(neighbourhoods: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the neighbourhoods of several passages. Each passage keeps its shortest distance, and
    each edge occurs once."""
    passages: dict[str, Any] = {}
    for passage in sorted(
        (p for part in neighbourhoods for p in part["passages"]), key=lambda p: p["distance"]
    ):
        passages.setdefault(passage["id"], passage)
    edges = {
        json.dumps(edge, sort_keys=True): edge for part in neighbourhoods for edge in part["edges"]
    }
    return {
        "version": neighbourhoods[0]["version"],
        "degraded": neighbourhoods[0]["degraded"],
        "passages": list(passages.values()),
        "edges": list(edges.values()),
    }


def _make_tree(neighbourhood: Mapping[str, Any], verbose: bool) -> "Tree":
    """Make a tree in which each passage is below a nearer passage that an edge connects to it."""
    from rich.tree import Tree

    passages = {passage["id"]: passage for passage in neighbourhood["passages"]}
    start, *more_passages = sorted(passages.values(), key=lambda passage: passage["distance"])
    drawn = {start["id"]: Tree(_format_label(start, "", verbose), guide_style="cyan")}
    for passage in more_passages:
        joints = (
            (edge, neighbour)
            for edge in neighbourhood["edges"]
            for neighbour in ({edge["from"], edge["to"]} - {passage["id"]})
            if passage["id"] in (edge["from"], edge["to"])
            and neighbour in drawn
            and passages[neighbour]["distance"] < passage["distance"]
        )
        edge, above = next(joints, (None, ""))
        if edge:
            verb = choose_hop_verb(edge["asked_by"], is_reversed=edge["from"] != above)
            drawn[passage["id"]] = drawn[above].add(_format_label(passage, verb, verbose, edge))
    return drawn[start["id"]]


def _format_label(
    passage: dict[str, Any], verb: str, verbose: bool, edge: dict[str, Any] | None = None
) -> "Text":
    """Describe a passage in the tree. At a terminal, its place is on a separate line."""
    from rich.text import Text

    label = Text.assemble((f"{verb} " if verb else "", "cyan"), (format_heading(passage), "bold"))
    if edge:
        question = edge["question"] if verbose else explain_hop(edge["question"])
        label.append(f": {make_printable(question)}", "italic")
    if verbose and edge and edge["similarity"] is not None:
        label.append(f" ({edge['similarity']:.2f})")
    place = [format_place({**passage, "lines": None})] if passage["location"] else []
    facts = "   ".join([*place, click.unstyle(format_id(passage["id"]))])
    return label.append(f"{chr(10) if sys.stdout.isatty() else '   '}{facts}", "dim")


def _format_dot_lines(neighbourhood: dict[str, Any]) -> Iterator[str]:
    yield "digraph hopsyncd {"
    yield "  node [shape=box];"
    for passage in neighbourhood["passages"]:
        start = " ".join(passage["start"].split())[:_LABEL_CHARACTERS]
        label = _quote_dot_text(format_title(passage), start)
        yield f"  {_quote_dot_text(passage['id'])} [label={label}];"
    for edge in neighbourhood["edges"]:
        ends = f"{_quote_dot_text(edge['from'])} -> {_quote_dot_text(edge['to'])}"
        yield f"  {ends} [label={_quote_dot_text(edge['question'])}{_DOT_LINES[edge['asked_by']]}];"
    yield "}"


def _quote_dot_text(*lines: str) -> str:
    """Quote lines as a string in the DOT language."""
    escaped = (make_printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
