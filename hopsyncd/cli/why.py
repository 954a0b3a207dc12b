"""`hopsyncd why`: shows how the answer to a question, and its passages, changed between two
versions."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from hopsyncd.cli.completion import complete_version
from hopsyncd.cli.log import echo_sentence
from hopsyncd.cli.output import (
    WholeNumber,
    add_question_argument,
    at_option,
    format_heading,
    json_option,
    make_client,
    print_if_json,
    verbose_option,
)
from hopsyncd.cli.terminal import COMMON_WORDS, echo_line
from hopsyncd.client import Client, RequestFailed
from hopsyncd.display import choose_hop_verb, explain_hop, format_mail_name, format_title
from hopsyncd.printable import make_printable

_DOCUMENTS = 1000  # changed sentences are looked up in this many documents
_SENTENCES = 6  # lines shown per edited document
_NOT_FOUND = "not found in your documents"

_Place = tuple[str, str]


@click.command()
@add_question_argument
@click.argument("old", shell_complete=complete_version)
@at_option
@click.option(
    "-k",
    "-n",
    "--limit",
    "k",
    type=WholeNumber(1, 1000),
    default=10,
    show_default=True,
    help="How many passages to compare.",
)
@verbose_option
@json_option
@click.pass_context
def why(
    context: click.Context,
    question: str,
    old: str,
    at: str,
    k: int,
    verbose: bool,
    as_json: bool,
) -> None:
    """Ask a question at two versions, and show how the answer changed.

    OLD is compared with the newest version, or with the version that --at names. The output has
    both answers, and the passages whose rank or text changed, with the edited sentences. --verbose
    shows all passages, and how each passage was found.

    Example: hopsyncd why "Who runs the mill?" yesterday
    """
    versions = (old, at)
    with make_client(context) as client:
        first, second = (client.query(question, k=k, at=version) for version in versions)
        rows = _compare(client, question, first, second)
        answers = [_read_answer_sentences(client, question, version) for version in versions]
        answer = {
            "from": first["version"],
            "to": second["version"],
            "answer_from": " ".join(answers[0]) or None,
            "answer_to": " ".join(answers[1]) or None,
            "passages": rows,
        }
        if print_if_json(answer, as_json, client):
            return
        diff = client.diff(*versions, limit=_DOCUMENTS, graph=False)
    click.secho(
        f"version {answer['from']} to {answer['to']}: the answer"
        f" {'is the same' if {*answers[0]} == {*answers[1]} else 'changed'}",
        bold=True,
    )
    _print_answers(*answers)
    _print_rows(rows, diff, verbose)


def _read_answer_sentences(client: Client, question: str, at: str) -> list[str]:
    """Return the sentences of the answer at a version, quoted from the documents."""
    reply = client.ask(question, at=at, llm=False)
    return [str(sentence["text"]) for sentence in reply["sentences"]]


def _print_answers(old: Sequence[str], new: Sequence[str]) -> None:
    """Print the sentences of both answers: removed, then kept, then added."""
    if {*old} == {*new}:  # perhaps in another order
        for text in new or [_NOT_FOUND]:
            echo_line(make_printable(text), indent="  ", hanging="  ")
        return
    for text in [text for text in old or [_NOT_FOUND] if text not in new]:
        echo_sentence(f"-{text}", "  ")
    for text in new or [_NOT_FOUND]:
        echo_sentence(f"{' ' if text in old else '+'}{text}", "  ")


def _print_rows(rows: Sequence[Mapping[str, Any]], diff: Mapping[str, Any], verbose: bool) -> None:
    """Print the passages that changed, or all passages with the hops to each."""
    lines = {(text["source"], text["document"]): text["lines"] for text in diff["texts"]}
    kinds = {
        (document["source"], document["document"]): kind
        for kind, documents in diff["documents"].items()
        for document in documents
    }
    moved = [row for row in rows if row["edited"] or row["rank_from"] != row["rank_to"]]
    shown = rows if verbose else moved
    if shown:
        click.echo("\nrank before -> now")
    printed = set[_Place]()
    for row in shown:
        place = (row["source"], row["document"])
        before, after = (row[key] if row[key] else "-" for key in ("rank_from", "rank_to"))
        name = f"{row['title']}  {row['source']}: {row.get('document_name', row['document'])}"
        reason = "edited" if row["edited"] else f"document {kinds[place]}" if place in kinds else ""
        echo_line(
            f"{before!s:>3} -> {after!s:<3} {make_printable(name)}"
            f"{f' ({reason})' if reason else ''}",
            indent="  ",
            hanging=" " * 13,
        )
        if row["edited"] and place not in printed:
            printed.add(place)
            changed = [line for line in lines.get(place, ()) if line[:1] in ("-", "+")]
            for line in changed[:_SENTENCES]:
                echo_sentence(line, " " * 13)
        if verbose:
            _print_routes(row)
    if unchanged := len(rows) - len(shown):
        click.echo()
        echo_line(
            f"{unchanged} of {len(rows)} passages did not change; --verbose shows all passages"
        )


def _print_routes(row: Mapping[str, Any]) -> None:
    """Print how a passage was found at both versions."""
    was, now = (_describe_route(row[hops], row["words"]) for hops in ("hops_from", "hops_to"))
    if row["same_hops"]:
        routes = [now if row["rank_to"] else was]
    else:
        routes = [f"before: {was}", f"now:    {now}"]
    for route in routes:
        echo_line(route, indent=" " * 13, hanging=" " * 15, dim=True)


def _compare(
    client: Client, question: str, first: Mapping[str, Any], second: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Compare the passages of two answers, in the order of the newer answer.

    An edited passage is a single row.
    """
    ranks = [
        {passage["id"]: (rank, passage) for rank, passage in enumerate(answer["passages"], 1)}
        for answer in (first, second)
    ]
    edited = _match_edited(
        _find_missing(client, second["version"], ranks[0], ranks[1]),
        _find_missing(client, first["version"], ranks[1], ranks[0]),
    )
    return [
        _make_row(question, ranks[0].get(edited.get(id_, id_)), ranks[1].get(id_))
        for id_ in dict.fromkeys([*ranks[1], *ranks[0]])
        if id_ not in edited.values()
    ]


def _find_missing(
    client: Client,
    version: int,
    passages: Mapping[str, tuple[int, Any]],
    contained: Collection[str],
) -> dict[str, Mapping[str, Any]]:
    """Return the passages in `passages` that the version does not contain.

    The version contains the passages in `contained`, so they are not looked up.
    """
    missing = {}
    for id_, (_, passage) in passages.items():
        if id_ in contained:
            continue
        try:
            client.passage(id_, at=str(version))
        except RequestFailed as error:
            if error.status != 404:
                raise
            missing[id_] = passage
    return missing


def _match_edited(
    removed: Mapping[str, Mapping[str, Any]], added: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Match added passages with the removed passages that they replaced: new id to old id."""
    places: dict[tuple[str, ...], list[str]] = {}
    for id_, passage in removed.items():
        places.setdefault(_make_place_key(passage), []).append(id_)
    edited = {}
    for id_, passage in added.items():
        if before := places.get(_make_place_key(passage)):
            edited[id_] = before.pop(0)
    return edited


def _make_place_key(passage: Mapping[str, Any]) -> tuple[str, ...]:
    return (passage["source"], passage["document"], *passage["heading"])


def _describe_route(hops: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    """Describe how a passage was found: by hops, or directly by its words from the question."""
    if not hops and words:
        return f"matched directly by {make_printable(', '.join(words))}"
    if not hops:
        return "matched directly by meaning, without a word of the question"
    steps = ", which ".join(
        f"{choose_hop_verb(hop['asked_by'])} {format_heading(hop['to'])}" for hop in hops
    )
    reason = make_printable(explain_hop(hops[-1]["question"]))
    return f"{format_heading(hops[0]['from'])} {steps}: {reason}"


def _make_row(
    question: str, old: tuple[int, Any] | None, new: tuple[int, Any] | None
) -> dict[str, Any]:
    """Make a row of `why`: a passage with its rank and route at both versions.

    `old` and `new` are the rank and the passage at each version, or None if the search did not find
    the passage."""
    # Loads SQLite and NumPy.
    from hopsyncd.text.words import list_index_terms

    asking = {*list_index_terms(COMMON_WORDS)}
    passage = (new or old or (0, {}))[1]
    terms = {*list_index_terms(" ".join((*passage["heading"], passage["text"])))}
    words = re.findall(r"\w+", question)
    hops = [
        [(*hop["from"]["heading"], hop["question"]) for hop in side[1]["hops"]] if side else None
        for side in (old, new)
    ]
    name = format_mail_name(passage.get("origin"), passage["heading"])
    return {
        **({"document_name": name} if name else {}),
        "id": passage["id"],
        "title": format_title(passage),
        "source": passage["source"],
        "document": passage["document"],
        "words": [
            word for word in dict.fromkeys(words) if terms & {*list_index_terms(word)} - asking
        ],
        "edited": bool(old and new and old[1]["id"] != new[1]["id"]),
        "rank_from": old[0] if old else None,
        "rank_to": new[0] if new else None,
        "same_hops": hops[0] is None or hops[1] is None or hops[0] == hops[1],
        "hops_from": old[1]["hops"] if old else [],
        "hops_to": new[1]["hops"] if new else [],
    }
