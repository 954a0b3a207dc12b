"""`hopsyncd query` and `hopsyncd ask`: passages or an answer, and how they were reached."""

import math
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import (
    WholeNumber,
    at_option,
    chosen_match,
    client_of,
    echo_drawn,
    filter_options,
    filter_texts,
    heading_text,
    json_option,
    linked_places,
    match_options,
    place_text,
    printed_json,
    tell_understood,
    text_columns,
    warn,
)
from hopsyncd.client.calls import ask as ask_call
from hopsyncd.client.response import ARROWS, counted
from hopsyncd.config.values import (
    ALL_STRATEGIES,
    DEFAULT_BEAM,
    DEFAULT_TOP_K,
    METHODS,
    PROFILES,
    REASONERS,
    RERANKS,
    UNITS,
    Method,
    Strategy,
    Unit,
)
from hopsyncd.printable import printable

if TYPE_CHECKING:
    from rich.tree import Tree

    from hopsyncd.answers.found import AskAnswer
    from hopsyncd.client.response import Call


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
    help="How the edges to follow are chosen. Default: walk; for the paper's profile, similarity."
    " Only llm and llm-relevance ask the configured LLM.",
)
@click.option(
    "--top-k",
    type=WholeNumber(1, 1000),
    default=DEFAULT_TOP_K,
    show_default=True,
    help="The number of seeds: for reasoners other than walk, and for statement and topic.",
)
@click.option(
    "--n-hop",
    type=WholeNumber(1, 20),
    help="The number of rounds. Default: query.hops; the paper has 4. For statement and topic, by"
    " how many statements a path grows: 2.",
)
@click.option(
    "--beam",
    type=WholeNumber(1, 100),
    default=DEFAULT_BEAM,
    show_default=True,
    help="For statement and topic: how many paths from each seed grow on.",
)
@click.option(
    "--rerank",
    type=click.Choice(RERANKS),
    default="mean",
    show_default=True,
    help="For statement and topic: what orders the statements in the end: none (the score of their"
    " best path), their own cosine, the mean of both with the cosine and words of their"
    " passages, or the cross-encoder in models.reranker.",
)
@click.option(
    "--unit",
    type=click.Choice(UNITS),
    default="passage",
    show_default=True,
    help="For statement and topic: find passages, or statements with their passages.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="direct",
    show_default=True,
    help="With logic, the configured LLM splits the question, and each part is searched for.",
)
@match_options
@filter_options
@at_option
@click.option("--explain", is_flag=True, help="Draw what led to each passage.")
@json_option
@click.pass_context
def query(
    context: click.Context,
    /,
    question: str,
    explain: bool,
    as_json: bool,
    exact: bool,
    semantic: bool,
    **search: Any,
) -> None:
    """Find the passages that answer a question, across documents.

    The question may hold filters: source:, path:, type:, author:, tag:, property:, since:, before:
    and so on. -tag:draft or --tag '!draft' excludes.

    Example: hopsyncd query "Who directed the film that ...?" -k 5 --explain
    Example: hopsyncd query "how do hotkeys work" --source vault --since 2026-01
    """
    match = chosen_match(exact, semantic)
    with client_of(context) as client:
        answer = client.query(question, match=match, filters=filter_texts(search), **search)
        place_of = linked_places(client)
    if printed_json(answer, as_json):
        return
    warn(answer["degraded"])
    tell_understood(answer)
    if explain:
        _draw_logic(answer["logic"])
    if not answer["passages"]:
        click.echo("No passage was found.")
    elif all(one["strength"] == "weak" for one in answer["passages"]):
        click.secho("All matches are weak.", fg="yellow")
    for rank, passage in enumerate(answer["passages"], 1):
        _print_passage(rank, passage, place_of(passage), explain, search["unit"])
    if cost := answer["llm"]:
        told = f"{counted(cost['calls'], 'LLM call')}, {counted(cost['tokens'], 'token')}"
        click.echo(told, err=True)


def _strength(passage: Mapping[str, Any]) -> str:
    """Its strength, and from where a hop led to it.

    >>> _strength({"strength": "fair", "hops": []})
    'fair'
    """
    if passage["hops"]:
        return f"{passage['strength']}, by way of {heading_text(passage['hops'][-1]['from'])}"
    return str(passage["strength"])


def _print_passage(
    rank: int, passage: Mapping[str, Any], place: str, explain: bool, unit: Unit
) -> None:
    click.secho(f"{rank}. {heading_text(passage)}", bold=True)
    strength = _strength(passage)
    click.echo(f"   {place}   {strength}   id {passage['id']}")
    statements = passage["statements"]
    if explain and statements:
        echo_drawn(_statement_tree(statements), "   ")
    elif explain and passage["hops"]:
        echo_drawn(_hop_tree(passage["hops"]), "   ")
    elif explain:
        click.secho("   found directly", fg="cyan")
    text = statements[-1]["text"] if unit == "statement" and statements else passage["text"]
    for line in _beginning(text):
        filled = textwrap.fill(printable(line), text_columns() - 3)
        click.echo(textwrap.indent(filled, "   "))
    click.echo()


def _beginning(text: str) -> list[str]:
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


def _statement_tree(statements: Sequence[Mapping[str, Any]]) -> "Tree":
    """The path of statements, each below the one that it shares a name with."""
    from rich.text import Text
    from rich.tree import Tree

    tree = below = Tree(Text(printable(statements[0]["text"])), guide_style="cyan")
    for one in statements[1:]:
        below = below.add(
            Text.assemble((f"-- {printable(one['name'])}: ", "cyan"), printable(one["text"]))
        )
    return tree


@click.command()
@click.argument("question")
@click.option(
    "-k",
    type=WholeNumber(1, 50),
    default=8,
    show_default=True,
    help="How many passages to answer from.",
)
@match_options
@filter_options
@at_option
@click.option(
    "--llm",
    "by_llm",
    is_flag=True,
    help="Let the configured LLM answer. The passages found are sent to it.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="direct",
    show_default=True,
    help="With --llm: answer at once, or by logic, where the LLM splits the question and reads the"
    " passages for each part before it asks the next.",
)
@click.option("--strategy", type=click.Choice(ALL_STRATEGIES), help="How to search.")
@click.option("--explain", is_flag=True, help="By logic: draw the question's parts and answers.")
@json_option
@click.pass_context
def ask(
    context: click.Context,
    /,
    question: str,
    k: int,
    at: str,
    by_llm: bool,
    method: Method,
    strategy: Strategy | None,
    explain: bool,
    as_json: bool,
    exact: bool,
    semantic: bool,
    **filters: Sequence[str],
) -> None:
    """Answer a question with citations, or say there is no answer.

    Without --llm the answer is the sentences of your documents that carry it. With --llm, a
    terminal shows the draft while the LLM writes, and then the checked answer.

    Example: hopsyncd ask "Where did the father of Ada Lovelace die?"
    """
    asked = ask_call(
        question,
        k=k,
        at=at,
        llm=by_llm,
        method=method,
        strategy=strategy,
        match=chosen_match(exact, semantic),
        filters=filter_texts(filters),
    )
    reply = _reply(context, asked, drawn=by_llm and not as_json)
    if printed_json(reply, as_json):
        return
    warn(reply["degraded"])
    tell_understood(reply)
    if explain:
        _draw_logic(reply["logic"])
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


def _reply(context: click.Context, asked: "Call[AskAnswer]", *, drawn: bool) -> Mapping[str, Any]:
    with client_of(context) as client:
        if drawn and sys.stdout.isatty():
            # Takes 0.1 s to import.
            from hopsyncd.cli.progress import ask_and_show

            return ask_and_show(client, asked)
        return client.send(asked)


def _draw_logic(logic: Mapping[str, Any] | None) -> None:
    """The question's graph, if it has one: none is drawn where the LLM failed at once."""
    if logic and logic["subproblems"]:
        echo_drawn(_logic_tree(logic))


def _logic_tree(logic: Mapping[str, Any]) -> "Tree":
    """The question's graph by ranks: each part with what it needs, its answer and citations."""
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text("subproblems"), guide_style="cyan")
    for one in sorted(logic["subproblems"], key=lambda one: (one["rank"] or math.inf, one["id"])):
        needs = "".join(f" #{id_}" for id_ in one["after"])
        below = tree.add(
            Text.assemble(
                (f"#{one['id']} ", "cyan"),
                printable(one["question"]),
                (f"   rank {one['rank']}" if one["rank"] else "   never asked", "cyan"),
                (f", needs{needs}" if needs else "", "cyan"),
            )
        )
        if one["query"] not in ("", one["question"]):
            below.add(Text(f"searched: {printable(one['query'])}", style="italic"))
        if one["rank"]:
            cited = "; ".join(heading_text(end) for end in one["citations"])
            answer = printable(one["answer"] or "no answer")
            below.add(Text(f"{answer}   [{cited}]" if cited else answer, style="bold"))
    return tree


def _print(text: str, indent: str = "") -> None:
    """Print the text in the width of the terminal. Rows of a table stay lines of their own."""
    for line in text.splitlines():
        filled = textwrap.fill(printable(line), text_columns() - len(indent))
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
