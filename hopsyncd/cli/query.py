"""`hopsyncd query`: passages, where they stand, and how they were reached."""

import textwrap
from typing import Any

import click

from hopsyncd.cli.shared import client_of, json_option, place_text, print_json, printable, warn
from hopsyncd.strategy import ALL_STRATEGIES, DEFAULT_TOP_K, PROFILES, REASONERS

_TEXT_CHARACTERS = 600
_ARROWS = {"from": "->", "to": "<-", "both": "--", "link": "=>", "backlink": "<="}


@click.command()
@click.argument("question")
@click.option("-k", type=int, help="How many passages. Default: query.k of the configuration.")
@click.option("--strategy", type=click.Choice(ALL_STRATEGIES), help="How to search. Default: hop.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="default",
    help="How `hop` searches: hopsyncd's way, or the HopRAG paper's to the letter.",
)
@click.option(
    "--reasoner",
    type=click.Choice(REASONERS),
    help="What chooses the edges to follow. Default: walk; for the paper's profile, similarity."
    " Only the llm ones ask the configured LLM.",
)
@click.option(
    "--top-k",
    type=int,
    default=DEFAULT_TOP_K,
    show_default=True,
    help="How many seeds a reasoner other than walk begins with.",
)
@click.option("--n-hop", type=int, help="How many rounds. Default: query.hops; the paper's is 4.")
@click.option(
    "--at",
    default="head",
    help="A version: a number, a tag, or a time such as 2026-11-01T09:00. Default: the newest.",
)
@click.option("--explain", is_flag=True, help="Show the hops that led to each passage.")
@json_option
@click.pass_context
def query(
    context: click.Context,
    question: str,
    k: int | None,
    strategy: str | None,
    profile: str,
    reasoner: str | None,
    top_k: int,
    n_hop: int | None,
    at: str,
    explain: bool,
    as_json: bool,
) -> None:
    """Find the passages that answer a question, across documents."""
    with client_of(context) as client:
        answer = client.post(
            "/v1/query",
            {
                "question": question,
                "k": k,
                "strategy": strategy,
                "profile": profile,
                "reasoner": reasoner,
                "top_k": top_k,
                "n_hop": n_hop,
                "at": at,
            },
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
            f"{answer['llm']['calls']} LLM calls, {answer['llm']['tokens']} tokens", err=True
        )


def _print_passage(rank: int, passage: dict[str, Any], explain: bool) -> None:
    click.secho(f"{rank}. {_name(passage)}", bold=True)
    click.echo(f"   {place_text(passage)}   score {passage['score']:.4f}   id {passage['id']}")
    if explain:
        _print_hops(passage["hops"])
    shown = textwrap.shorten(passage["text"], _TEXT_CHARACTERS, placeholder=" ...")
    click.echo(textwrap.indent(textwrap.fill(printable(shown), 92), "   "))
    click.echo()


def _print_hops(hops: list[dict[str, Any]]) -> None:
    if not hops:
        click.secho("   found directly", fg="cyan")
    for depth, hop in enumerate(hops):
        start, end = (_name(hop[key]) for key in ("from", "to"))
        arrow = _ARROWS[hop["asked_by"]]
        click.secho(
            f"   {'   ' * depth}{start} {arrow} {end}   {printable(hop['question'])}"
            f" ({hop['share']:.0%} of what reached it)",
            fg="cyan",
        )


def _name(end: dict[str, Any]) -> str:
    return printable(" > ".join(end["heading"]) or str(end["document"]))
