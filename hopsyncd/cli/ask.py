"""`hopsyncd ask`: an answer, its citations, and the hops that join them."""

import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import click

from hopsyncd.cli.output import (
    WholeNumber,
    at_option,
    client_of,
    heading_text,
    json_option,
    place_text,
    print_json,
    text_columns,
    warn,
)
from hopsyncd.client.response import ARROWS, printable


@click.command()
@click.argument("question")
@click.option(
    "-k",
    type=WholeNumber(1, 50),
    default=8,
    show_default=True,
    help="How many passages to answer from.",
)
@at_option
@click.option(
    "--llm",
    "by_llm",
    is_flag=True,
    help="Let the configured LLM answer. The passages found are sent to it.",
)
@json_option
@click.pass_context
def ask(
    context: click.Context, question: str, k: int, at: str, by_llm: bool, as_json: bool
) -> None:
    """Answer a question with citations, or say there is no answer.

    Without --llm the answer is the sentences of your documents that carry it. With --llm, a
    terminal shows the draft while the LLM writes, and then the checked answer.

    Example: hopsyncd ask "Where did the father of Ada Lovelace die?"
    """
    reply = _reply(context, question, k, at, by_llm=by_llm, shown=not as_json)
    if as_json:
        print_json(reply)
        return
    warn(reply["degraded"])
    if not reply["found"]:
        click.echo("not found in your documents")
        if reply["version"]:
            warn(["`hopsyncd query` shows the passages nearest to the question"])
    elif reply["by"] == "llm":
        marks = "".join(f"[{one['number']}]" for one in reply["citations"])
        _print(f"{reply['answer']} {marks}")
    else:
        _print_sentences(reply)
    for citation in reply["citations"]:
        _print_citation(citation)
    _print_chain(reply)
    click.secho(f"version {reply['version']}", fg="cyan")


def _reply(
    context: click.Context, question: str, k: int, at: str, *, by_llm: bool, shown: bool
) -> Mapping[str, Any]:
    with client_of(context) as client:
        if by_llm and shown and sys.stdout.isatty():
            # Takes 0.1 s to import.
            from hopsyncd.cli.progress import ask_and_show

            return ask_and_show(client, question, k, at)
        return client.ask(question, k=k, at=at, llm=by_llm)


def _print(text: str, indent: str = "") -> None:
    filled = textwrap.fill(printable(text), text_columns() - len(indent))
    click.echo(textwrap.indent(filled, indent))


def _print_sentences(reply: Mapping[str, Any]) -> None:
    if reply["short"]:
        click.secho(f"Perhaps: {printable(reply['short'])}", bold=True)
    for sentence in reply["sentences"]:
        _print(f"{sentence['text']} [{sentence['citation']}]", "  ")


def _print_citation(citation: Mapping[str, Any]) -> None:
    place = "no file at this version"
    if citation["location"]:
        place = place_text(citation)
    click.echo(f"[{citation['number']}] {place}   id {citation['id']}")


def _print_chain(reply: Mapping[str, Any]) -> None:
    numbers = {one["id"]: f" [{one['number']}]" for one in reply["citations"]}
    for hop in reply["chain"]:
        start, end = (
            heading_text(hop[key]) + numbers.get(hop[key]["id"], "") for key in ("from", "to")
        )
        arrow = ARROWS[hop["asked_by"]]
        click.secho(f"    {start} {arrow} {end}   {printable(hop['question'])}", fg="cyan")
