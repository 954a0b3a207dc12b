"""`hopsyncd query` and `hopsyncd ask`: passages or an answer, and how they were found."""

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import (
    WholeNumber,
    add_filter_options,
    add_match_options,
    add_question_argument,
    at_option,
    choose_match,
    format_heading,
    format_place,
    json_option,
    make_client,
    make_place_formatter,
    print_if_json,
    print_understood,
    take_filters,
    warn,
)
from hopsyncd.cli.terminal import (
    choose_color,
    echo_drawn,
    echo_facts,
    echo_line,
    format_id,
    mark_words,
    measure_text_columns,
    spinner,
    wrap,
)
from hopsyncd.client import Client
from hopsyncd.client.calls import ask as ask_call
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
from hopsyncd.display import (
    choose_document_title,
    choose_hop_verb,
    describe_doubt,
    explain_hop,
    pluralise,
)
from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from rich.tree import Tree

    from hopsyncd.client.call import Call
    from hopsyncd.responses.results import AskAnswer


_TEXT_CHARACTERS, _TEXT_LINES = 600, 8
_SIMILAR_LINES = 5
_CLOSEST = 2  # passages shown if no answer was found


@click.command()
@add_question_argument
@click.option(
    "-k",
    "-n",
    "--limit",
    "k",
    type=WholeNumber(1, 1000),
    help="How many passages to return. Default: query.k in the configuration.",
)
@click.option(
    "--strategy",
    type=click.Choice(ALL_STRATEGIES),
    help="How to search. Default: query.strategy in the configuration.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="default",
    help="How `hop` searches: as hopsyncd does, or exactly as in the HopRAG paper.",
)
@click.option(
    "--reasoner",
    type=click.Choice(REASONERS),
    help="How `hop` chooses the edges to follow. Default: walk, or similarity with --profile"
    " paper. Only llm and llm-relevance call the configured LLM.",
)
@click.option(
    "--top-k",
    type=WholeNumber(1, 1000),
    default=DEFAULT_TOP_K,
    show_default=True,
    help="The number of start passages for statement, topic and reasoners other than walk.",
)
@click.option(
    "--n-hop",
    type=WholeNumber(1, 20),
    help="The number of hops. Default: query.hops in the configuration, 4 with --profile paper,"
    " or 2 statements for statement and topic.",
)
@click.option(
    "--beam",
    type=WholeNumber(1, 100),
    default=DEFAULT_BEAM,
    show_default=True,
    help="For statement and topic: how many paths to continue from each start.",
)
@click.option(
    "--rerank",
    type=click.Choice(RERANKS),
    default="mean",
    show_default=True,
    help="For statement and topic, how to rank statements: none (by path score), cosine, mean (of"
    " path score, cosine, and the passage's cosine and word score) or cross-encoder (the reranker"
    " in [models]). For hop, cross-encoder also uses the reranker to order the results.",
)
@click.option(
    "--unit",
    type=click.Choice(UNITS),
    default="passage",
    show_default=True,
    help="For statement and topic: return passages, or statements with their passages.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="direct",
    show_default=True,
    help="With logic, the configured LLM splits the question, and each part is searched.",
)
@add_match_options
@add_filter_options
@at_option
@click.option("--explain", is_flag=True, help="Show how each passage was found.")
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

    The question may contain filters: `source:vault` is the same as `--source vault`. -tag:draft or
    --tag '!draft' excludes documents with this tag.

    Example: hopsyncd query "Who directed the film that ...?" -k 5 --explain
    Example: hopsyncd query "how do hotkeys work" --source vault --since 2026-01
    """
    match = choose_match(exact, semantic)
    with make_client(context) as client:
        with spinner("searching"):
            answer = client.query(question, match=match, filters=take_filters(search), **search)
        show_place = make_place_formatter(client)
        if print_if_json(answer, as_json, client):
            return
    warn(answer["degraded"])
    print_understood(answer)
    if explain:
        _draw_logic(answer["logic"])
    if not answer["passages"]:
        click.echo("No passage was found.")
    elif all(passage["strength"] == "weak" for passage in answer["passages"]):
        click.secho("All matches are weak.", fg="yellow")
    for rank, passage in enumerate(answer["passages"], 1):
        place = show_place(passage)
        _print_passage(rank, passage, place, explain, search["unit"], question)
    if cost := answer["llm"]:
        text = f"{pluralise(cost['calls'], 'LLM call')}, {pluralise(cost['tokens'], 'token')}"
        click.echo(text, err=True)


def _describe_strength(passage: Mapping[str, Any]) -> str:
    """Describe the strength of a match, and the passage from which a hop led to it.

    >>> _describe_strength({"strength": "fair", "hops": []})
    'fair'
    """
    parts = [passage["strength"] or ""]
    if passage["hops"]:
        parts.append(
            f"found through {make_printable(choose_document_title(passage['hops'][-1]['from']))}"
        )
    return ", ".join(filter(None, parts))


def _print_passage(
    rank: int, passage: Mapping[str, Any], place: str, explain: bool, unit: Unit, question: str
) -> None:
    echo_line(f"{rank}. {format_heading(passage)}", hanging="   ", bold=True)
    echo_facts(filter(None, (place, _describe_strength(passage), format_id(passage["id"]))), "   ")
    statements = passage["statements"]
    if explain and statements:
        echo_drawn(_make_statement_tree(statements), "   ")
    elif explain and passage["hops"]:
        echo_drawn(_make_hop_tree(passage["hops"]), "   ")
    elif explain:
        click.secho("   matched directly", fg="cyan")
    text = statements[-1]["text"] if unit == "statement" and statements else passage["text"]
    for line in _shorten(text):
        wrapped = wrap(make_printable(line), measure_text_columns(), "   ")
        marked = sys.stdout.isatty() and choose_color(os.environ) is not False
        click.echo(mark_words(wrapped, question, bold=True) if marked else wrapped)
    if similar := passage.get("similar"):
        click.secho(f"   and {len(similar)} similar", fg="cyan")
        for similar_place in similar[:_SIMILAR_LINES]:
            echo_facts((format_place(similar_place), format_id(similar_place["id"])), "     ")
        if len(similar) > _SIMILAR_LINES:
            click.echo(f"     and {len(similar) - _SIMILAR_LINES} more")
    click.echo()


def _shorten(text: str) -> list[str]:
    start = text if len(text) <= _TEXT_CHARACTERS else text[:_TEXT_CHARACTERS].rsplit(" ", 1)[0]
    lines = [line.expandtabs(4) for line in start.splitlines() if line.strip()]
    is_cut = len(start) < len(text) or len(lines) > _TEXT_LINES
    return [*lines[:_TEXT_LINES], *(["..."] if is_cut else [])]


def _make_hop_tree(hops: Sequence[Mapping[str, Any]]) -> "Tree":
    """Make a tree of the hops to a passage, each below the previous hop."""
    from rich.text import Text
    from rich.tree import Tree

    tree = below = Tree(Text(format_heading(hops[0]["from"])), guide_style="cyan")
    for hop in hops:
        below = below.add(
            Text.assemble(
                (f"{choose_hop_verb(hop['asked_by'])} ", "cyan"),
                format_heading(hop["to"]),
                (f": {make_printable(explain_hop(hop['question']))}", "italic"),
                f" ({hop['share']:.0%} of its score)",
            )
        )
    return tree


def _make_statement_tree(statements: Sequence[Mapping[str, Any]]) -> "Tree":
    """Make a tree of the statements that led to a passage.

    Each statement is below a statement with which it shares a name.
    """
    from rich.text import Text
    from rich.tree import Tree

    tree = below = Tree(Text(make_printable(statements[0]["text"])), guide_style="cyan")
    for statement in statements[1:]:
        name, text = (
            make_printable(statement["name"]),
            make_printable(statement["text"]),
        )
        below = below.add(Text.assemble((f"-- {name}: ", "cyan"), text))
    return tree


@click.command()
@add_question_argument
@click.option(
    "-k",
    "-n",
    "--limit",
    "k",
    type=WholeNumber(1, 50),
    help="How many passages to use for the answer. Default: 8, or up to 20 for an LLM.",
)
@add_match_options
@add_filter_options
@at_option
@click.option(
    "--llm/--no-llm",
    "by_llm",
    default=None,
    help="Whether the LLM in [llm] gets the passages and writes the answer. Default: yes, if an LLM"
    " is configured.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="direct",
    show_default=True,
    help="direct: the LLM answers in one step. logic: the LLM splits the question, and answers each"
    " part before the next search.",
)
@click.option("--strategy", type=click.Choice(ALL_STRATEGIES), help="How to search.")
@click.option(
    "--explain",
    is_flag=True,
    help="With --method logic: show the parts of the question and their answers.",
)
@json_option
@click.pass_context
def ask(
    context: click.Context,
    /,
    question: str,
    k: int | None,
    at: str,
    by_llm: bool | None,
    method: Method,
    strategy: Strategy | None,
    explain: bool,
    as_json: bool,
    exact: bool,
    semantic: bool,
    **filters: Sequence[str],
) -> None:
    """Answer a question from your documents, with citations.

    If the documents do not answer the question, `ask` says so. If [llm] names an LLM, the LLM
    writes the answer from the passages found. Without an LLM, with --no-llm, or if the LLM fails,
    the answer is quoted from the passages.

    Example: hopsyncd ask "Who built the machine that Grace Hopper programmed?"
    Example: hopsyncd ask --no-llm "When is the bakery closed?"
    """
    call = ask_call(
        question,
        k=k,
        at=at,
        llm=by_llm,
        method=method,
        strategy=strategy,
        match=choose_match(exact, semantic),
        filters=take_filters(filters),
        passages=not as_json,
    )
    with make_client(context) as client:
        reply = _ask(client, call, show_draft=by_llm is not False and not as_json)
        show_place = format_place if reply["found"] else make_place_formatter(client)
        if print_if_json(reply, as_json, client):
            return
    warn(reply["degraded"])
    print_understood(reply)
    if explain:
        _draw_logic(reply["logic"])
    if not reply["found"]:
        click.echo("Your documents do not seem to answer this.")
        _print_closest(reply, question, show_place)
    elif reply["by"] == "llm":
        marks = "".join(f"[{citation['number']}]" for citation in reply["citations"])
        _print_wrapped(f"{reply['answer']} {marks}")
    else:
        _print_sentences(reply)
    for citation in reply["citations"]:
        _print_citation(citation)
    _print_chain(reply)
    click.secho(f"version {reply['version']}", fg="cyan")
    if reply["by"] == "llm" and (cost := _format_cost(reply["llm"])):
        click.echo(cost, err=True)


def _print_closest(
    reply: Mapping[str, Any], question: str, show_place: Callable[[Mapping[str, Any]], str]
) -> None:
    """Print the closest passages, which may answer a question although no answer was found.

    If no passage is strong or fair, only the first passage is printed.
    """
    found = reply["passages"]
    close = [passage for passage in found if passage["strength"] in ("strong", "fair")]
    if found:
        click.echo("The closest passages:" if len(close) > 1 else "The closest passage:")
    for rank, passage in enumerate(close[:_CLOSEST] or found[:1], 1):
        _print_passage(rank, passage, show_place(passage), False, "passage", question)


def _ask(client: Client, call: "Call[AskAnswer]", *, show_draft: bool) -> Mapping[str, Any]:
    with spinner("asking"):
        if not (show_draft and sys.stdout.isatty()):
            return client.send(call)
        events = client.stream_events(call)
        for event in events:
            if event["event"] == "answer":
                return event["answer"]
            if event.get("by") == "llm" or event.get("questions"):
                break
    # Takes 0.1 s to import.
    from hopsyncd.cli.progress import show_draft as follow

    return follow(event, events)


def _format_cost(cost: Mapping[str, Any]) -> str:
    """Describe the cost of an answer. Returns "" if no LLM was asked.

    >>> _format_cost({"calls": 1, "cached": 0, "tokens": 1870, "price": 0.0004, "currency": "USD"})
    '1 LLM call, 1,870 tokens, 0.0004 USD'
    """
    if not cost["calls"]:
        return ""
    text = f"{pluralise(cost['calls'], 'LLM call')}, {pluralise(cost['tokens'], 'token')}"
    if price := cost.get("price"):
        text += f", {price:.6f}".rstrip("0") + f" {make_printable(cost['currency'])}"
    return text


def _draw_logic(logic: Mapping[str, Any] | None) -> None:
    """Draw the parts of a question, if the LLM has split it into parts."""
    if logic and logic["subproblems"]:
        echo_drawn(_make_logic_tree(logic))


def _make_logic_tree(logic: Mapping[str, Any]) -> "Tree":
    """Make a tree of a question's parts in the order of their answers, with the citations."""
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text("subproblems"), guide_style="cyan")
    for part in sorted(
        logic["subproblems"], key=lambda part: (part["rank"] or math.inf, part["id"])
    ):
        needs = "".join(f" #{id_}" for id_ in part["after"])
        below = tree.add(
            Text.assemble(
                (f"#{part['id']} ", "cyan"),
                make_printable(part["question"]),
                (f"   step {part['rank']}" if part["rank"] else "   not searched", "cyan"),
                (f", needs{needs}" if needs else "", "cyan"),
            )
        )
        if part["query"] not in ("", part["question"]):
            below.add(Text(f"searched: {make_printable(part['query'])}", style="italic"))
        if part["rank"]:
            cited = "; ".join(format_heading(end) for end in part["citations"])
            answer = make_printable(part["answer"] or "no answer")
            below.add(Text(f"{answer}   [{cited}]" if cited else answer, style="bold"))
    return tree


def _print_wrapped(text: str, indent: str = "") -> None:
    """Print text wrapped to the terminal's width. Existing line breaks, as in tables, are kept."""
    for line in text.splitlines():
        click.echo(wrap(make_printable(line), measure_text_columns(), indent))


def _print_sentences(reply: Mapping[str, Any]) -> None:
    if doubt := describe_doubt(reply["citations"]):
        echo_line(doubt, fg="yellow")
    if reply["short"]:
        click.secho(f"Perhaps: {make_printable(reply['short'])}", bold=True)
    for sentence in reply["sentences"]:
        title = f" ({sentence['title']})" if sentence["title"] else ""
        _print_wrapped(f"{sentence['text']} [{sentence['citation']}]{title}", "  ")


def _print_citation(citation: Mapping[str, Any]) -> None:
    place = "in no document at this version"
    if citation["location"]:
        place = format_place(citation)
    echo_facts((f"[{citation['number']}] {place}", format_id(citation["id"])))


def _print_chain(reply: Mapping[str, Any]) -> None:
    numbers = {citation["id"]: f" [{citation['number']}]" for citation in reply["citations"]}
    sources = {citation["id"]: citation["source"] for citation in reply["citations"]}
    for hop in reply["chain"]:
        places = [(sources.get(hop[key]["id"]), hop[key]["document"]) for key in ("from", "to")]
        if places[0] == places[1]:  # two passages of one document
            continue
        start, end = (
            make_printable(choose_document_title(hop[key])) + numbers.get(hop[key]["id"], "")
            for key in ("from", "to")
        )
        reason = make_printable(explain_hop(hop["question"]))
        line = f"{start} {choose_hop_verb(hop['asked_by'])} {end}: {reason}"
        echo_line(line, indent="    ", hanging="        ", fg="cyan")
