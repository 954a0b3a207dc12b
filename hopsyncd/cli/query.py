"""`hopsyncd query`: passages, where they stand, and the hops that led to them."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import (
    WholeNumber,
    at_option,
    client_of,
    echo_drawn,
    heading_text,
    json_option,
    place_text,
    print_json,
    text_columns,
    warn,
)
from hopsyncd.client.response import ARROWS, counted, printable
from hopsyncd.config.strategy import (
    ALL_STRATEGIES,
    DEFAULT_TOP_K,
    PROFILES,
    REASONERS,
    Profile,
    Reasoner,
    Strategy,
)

if TYPE_CHECKING:
    from rich.tree import Tree

_TEXT_CHARACTERS, _TEXT_LINES = 600, 8


@click.command()
@click.argument("question")
@click.option(
    "-k",
    type=WholeNumber(1, 1000),
    help="How many passages. Default: query.k of the configuration.",
)
@click.option("--strategy", type=click.Choice(ALL_STRATEGIES), help="How to search. Default: hop.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="default",
    help="How `hop` searches: as hopsyncd does, or exactly as the HopRAG paper does.",
)
@click.option(
    "--reasoner",
    type=click.Choice(REASONERS),
    help="What chooses the edges to follow. Default: walk; for the paper's profile, similarity."
    " Only llm and llm-relevance ask the configured LLM.",
)
@click.option(
    "--top-k",
    type=WholeNumber(1, 1000),
    default=DEFAULT_TOP_K,
    show_default=True,
    help="The number of seeds for reasoners other than walk.",
)
@click.option(
    "--n-hop",
    type=WholeNumber(1, 20),
    help="The number of rounds. Default: query.hops; the paper has 4.",
)
@at_option
@click.option("--explain", is_flag=True, help="Draw the hops that led to each passage.")
@json_option
@click.pass_context
def query(
    context: click.Context,
    question: str,
    k: int | None,
    strategy: Strategy | None,
    profile: Profile,
    reasoner: Reasoner | None,
    top_k: int,
    n_hop: int | None,
    at: str,
    explain: bool,
    as_json: bool,
) -> None:
    """Find the passages that answer a question, across documents.

    Example: hopsyncd query "Who directed the film that ...?" -k 5 --explain
    """
    with client_of(context) as client:
        answer = client.query(
            question,
            k=k,
            strategy=strategy,
            profile=profile,
            reasoner=reasoner,
            top_k=top_k,
            n_hop=n_hop,
            at=at,
        )
    if as_json:
        print_json(answer)
        return
    warn(answer["degraded"])
    if not answer["passages"]:
        click.echo("No passage was found.")
    for rank, passage in enumerate(answer["passages"], 1):
        _print_passage(rank, passage, explain)
    if answer["llm"]:
        click.echo(
            f"{counted(answer['llm']['calls'], 'LLM call')},"
            f" {counted(answer['llm']['tokens'], 'token')}",
            err=True,
        )


def _print_passage(rank: int, passage: Mapping[str, Any], explain: bool) -> None:
    click.secho(f"{rank}. {heading_text(passage)}", bold=True)
    click.echo(f"   {place_text(passage)}   score {passage['score']:.4f}   id {passage['id']}")
    if explain and passage["hops"]:
        echo_drawn(_hop_tree(passage["hops"]), "   ")
    elif explain:
        click.secho("   found directly", fg="cyan")
    for line in _beginning(passage["text"]):
        filled = textwrap.fill(printable(line), text_columns() - 3)
        click.echo(textwrap.indent(filled, "   "))
    click.echo()


def _beginning(text: str) -> list[str]:
    """The first lines of a text, without blank lines."""
    start = text if len(text) <= _TEXT_CHARACTERS else text[:_TEXT_CHARACTERS].rsplit(" ", 1)[0]
    lines = [line.expandtabs(4) for line in start.splitlines() if line.strip()]
    cut = len(start) < len(text) or len(lines) > _TEXT_LINES
    return [*lines[:_TEXT_LINES], *(["..."] if cut else [])]


def _hop_tree(hops: Sequence[Mapping[str, Any]]) -> "Tree":
    """The hops to a passage, each below the one before."""
    from rich.text import Text
    from rich.tree import Tree

    tree = below = Tree(Text(heading_text(hops[0]["from"])), guide_style="cyan")
    for hop in hops:
        below = below.add(
            Text.assemble(
                (f"{ARROWS[hop['asked_by']]} ", "cyan"),
                heading_text(hop["to"]),
                (f"   {printable(hop['question'])}", "italic"),
                f" ({hop['share']:.0%} of what reached it)",
            )
        )
    return tree
