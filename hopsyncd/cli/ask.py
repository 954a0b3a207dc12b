"""`hopsyncd ask`: an answer, where it stands, and how its passages join."""

import textwrap
from typing import Any

import click

from hopsyncd.cli.shared import client_of, json_option, place_text, print_json, printable, warn

_WIDTH = 92


@click.command()
@click.argument("question")
@click.option("-k", default=8, show_default=True, help="From how many passages to answer.")
@click.option(
    "--at",
    default="head",
    help="A version: a number, a tag, or a time such as 2026-11-01T09:00. Default: the newest.",
)
@click.option(
    "--llm",
    "by_llm",
    is_flag=True,
    help="Let the LLM of the configuration answer from the passages found. They are sent to it.",
)
@json_option
@click.pass_context
def ask(
    context: click.Context, question: str, k: int, at: str, by_llm: bool, as_json: bool
) -> None:
    """Answer a question with citations, or say that the documents do not.

    Without --llm the answer is in the documents' own words: the sentences that carry it.
    """
    with client_of(context) as client:
        reply = client.post("/v1/ask", {"question": question, "k": k, "at": at, "llm": by_llm})
    if as_json:
        print_json(reply)
        return
    warn(reply["degraded"])
    if not reply["found"]:
        click.echo("not found in your documents")
    elif reply["by"] == "llm":
        marks = "".join(f"[{one['number']}]" for one in reply["citations"])
        _print(f"{reply['answer']} {marks}")
    else:
        _print_sentences(reply)
    for citation in reply["citations"]:
        _print_citation(citation)
    _print_chain(reply)
    click.secho(f"version {reply['version']}", fg="cyan")


def _print(text: str, indent: str = "") -> None:
    filled = textwrap.fill(printable(text), _WIDTH - len(indent))
    click.echo(textwrap.indent(filled, indent))


def _print_sentences(reply: dict[str, Any]) -> None:
    if reply["short"]:
        click.secho(f"Perhaps: {printable(reply['short'])}", bold=True)
    for sentence in reply["sentences"]:
        _print(f"{sentence['text']} [{sentence['citation']}]", "  ")


def _print_citation(citation: dict[str, Any]) -> None:
    place = "no file at this version"
    if citation["location"]:
        place = place_text(citation)
    click.echo(f"[{citation['number']}] {place}   id {citation['id']}")


def _print_chain(reply: dict[str, Any]) -> None:
    numbers = {one["id"]: f" [{one['number']}]" for one in reply["citations"]}
    for hop in reply["chain"]:
        start, end = (_name(hop[key]) + numbers.get(hop[key]["id"], "") for key in ("from", "to"))
        click.secho(f"    {start} -> {end}   {printable(hop['question'])}", fg="cyan")


def _name(end: dict[str, Any]) -> str:
    return printable(" > ".join(end["heading"]) or str(end["document"]))
