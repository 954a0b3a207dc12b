"""`hopsyncd log`, `diff`, `why`, `tag`, `restore` and `release`."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from hopsyncd.cli.completion import complete_source, complete_version
from hopsyncd.cli.output import (
    WholeNumber,
    client_of,
    heading_text,
    json_option,
    print_if_json,
    send_long,
)
from hopsyncd.cli.sync import print_sync_report
from hopsyncd.client import Client, RequestFailed, calls
from hopsyncd.display import ARROWS, document_name, mail_name, plural, relative_time, title_of
from hopsyncd.printable import printable
from hopsyncd.text.words import index_terms

_SHOWN = 10  # of each list, unless --all
_FOLDERS = 12
_CHANGED_LINES = 30  # shown of each document
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}
_QUESTION_WORDS = {
    *index_terms("who what when where why how which did does is are was were the of to in")
}
_SIGNS = {"added": "+", "changed": "~", "removed": "-", "renamed": ">"}


_sources_option = click.option(
    "--source",
    "sources",
    multiple=True,
    shell_complete=complete_source,
    help="Only this source. Repeatable.",
)


@click.command()
@click.option(
    "-n",
    "--limit",
    "limit",
    type=WholeNumber(min=1),
    default=20,
    show_default=True,
    help="How many versions.",
)
@json_option
@click.pass_context
def log(context: click.Context, limit: int, as_json: bool) -> None:
    """List the versions, the newest first, and what changed in each.

    --json has the exact times.

    Example: hopsyncd log -n 5
    """
    answer = client_of(context).log(limit)
    if print_if_json(answer, as_json):
        return
    for version in answer["versions"]:
        tags = "".join(f" [{printable(tag)}]" for tag in version["tags"])
        tags += " (collected)" if version["collected"] else ""
        when, reason = relative_time(version["created"]), printable(version["reason"])
        click.secho(f"{version['version']}{tags}  {when}  {reason}", bold=True)
        if version["about"]:
            click.echo(f"    {printable(version['about'])}")
        click.echo(
            f"    documents {_changes(version, 'documents_')},"
            f" passages {_changes(version, 'passages_')};"
            f" total {plural(version['documents'], 'document')},"
            f" {plural(version['passages'], 'passage')}, {plural(version['edges'], 'edge')};"
            " questions generated for"
            f" {plural(version['counters'].get('passages_generated', 0), 'passage')}"
            + _llm_cost(version["counters"])
        )


def _llm_cost(counters: Mapping[str, int]) -> str:
    if not counters.get("llm_calls"):
        return ""
    calls, tokens = counters["llm_calls"], counters.get("llm_tokens", 0)
    return f", with {plural(calls, 'LLM call')} and {plural(tokens, 'token')}"


def _changes(counts: Mapping[str, Any], prefix: str = "") -> str:
    """The number of additions, changes, removals and renames, such as `+3 ~1`, or `unchanged`."""
    parts = [f"{sign}{counts.get(prefix + kind, 0):,}" for kind, sign in _SIGNS.items()]
    return " ".join(part for part in parts if part[1:] != "0") or "unchanged"


@click.command()
@click.argument("old", shell_complete=complete_version)
@click.argument("new", default="head", shell_complete=complete_version)
@click.option("--all", "show_all", is_flag=True, help="Show every line.")
@click.option("--graph", is_flag=True, help="Also list the passages and edges that differ.")
@json_option
@click.pass_context
def diff(
    context: click.Context, old: str, new: str, show_all: bool, graph: bool, as_json: bool
) -> None:
    """Show what changed between two versions, sentence by sentence.

    Each changed document is followed by its sentences: `-` marks a removed sentence, `+` an added
    one. Sentences without a mark are context. --graph also lists passages and edges.

    A version is a number, a tag, a time such as 2026-11-01T09:00, or "head".

    Example: hopsyncd diff 40 head --all
    """
    limit = None if show_all or as_json else _SHOWN
    answer: Mapping[str, Any] = client_of(context).diff(old, new, limit, graph or as_json)
    if print_if_json(answer, as_json):
        return
    click.secho(f"version {answer['from']} to {answer['to']}", bold=True)
    counts = answer["counts"]
    click.echo(", ".join(f"{what} {_changes(by_kind)}" for what, by_kind in counts.items()))
    if sum(counts["documents"].values()) > _SHOWN:
        _print_folders(answer["folders"], show_all)
    texts = {(text["source"], text["document"]): text["lines"] for text in answer["texts"]}
    for what, line in _LINES.items():
        if what != "documents" and not graph:
            continue
        for kind, sign in _SIGNS.items():
            items = answer[what].get(kind, ())
            details = [texts.get((item.get("source"), item.get("document")), ()) for item in items]
            lines = [line(item) for item in items]
            count = counts[what].get(kind, 0)
            _print_list(f"{what} {kind}", sign, lines, count, details, show_all)


def _print_folders(folders: Sequence[Mapping[str, Any]], show_all: bool) -> None:
    click.echo("\ndocuments by folder:")
    shown = folders if show_all else folders[:_FOLDERS]
    names = [f"{folder['source']}: {printable(folder['folder']) or '.'}/" for folder in shown]
    width = max(map(len, names))
    for name, folder in zip(names, shown, strict=True):
        click.echo(f"  {name:<{width}}  {_changes(folder)}")
    if len(folders) > len(shown):
        click.echo(f"  and {len(folders) - len(shown):,} more folders (--all shows them)")


def _print_list(
    title: str,
    sign: str,
    lines: Sequence[str],
    count: int,
    details: Sequence[Sequence[str]],
    show_all: bool,
) -> None:
    """Print the first `lines` of a list of `count`, each with the details that belong to it."""
    if not count:
        return
    click.echo(f"\n{title}: {count:,}")
    for line, below in zip(lines, details, strict=True):
        click.echo(f"  {sign} {printable(line)}")
        shown = below if show_all else below[:_CHANGED_LINES]
        for detail in shown:
            click.secho(f"      {printable(detail)}", fg=_COLOURS.get(detail[:1]))
        if len(below) > len(shown):
            click.echo(f"      and {len(below) - len(shown):,} more lines (--all shows them)")
    if count > len(lines):
        click.echo(f"  and {count - len(lines):,} more (--all shows them)")


def _document_line(document: Mapping[str, Any]) -> str:
    was = f"{document['was']} -> " if "was" in document else ""
    return f"{document['source']}: {was}{document_name(document)}"


def _passage_line(passage: Mapping[str, Any]) -> str:
    heading = " > ".join(passage["heading"])
    return f"{heading}: {passage['start']}" if heading else str(passage["start"])


def _edge_line(edge: Mapping[str, Any]) -> str:
    ends = (" > ".join(edge[end]["heading"]) or edge[end]["start"] for end in ("from", "to"))
    return f"{' -> '.join(ends)}   {edge['question']}"


_LINES = {"documents": _document_line, "passages": _passage_line, "edges": _edge_line}


@click.command()
@click.argument("question")
@click.argument("old", shell_complete=complete_version)
@click.argument("new", default="head", shell_complete=complete_version)
@click.option(
    "-k",
    "-n",
    "--limit",
    "k",
    type=WholeNumber(1, 1000),
    default=10,
    show_default=True,
    help="How many passages.",
)
@json_option
@click.pass_context
def why(context: click.Context, question: str, old: str, new: str, k: int, as_json: bool) -> None:
    """Ask a question at two versions, and compare the results.

    Shows the rank of each passage at both versions, and how it was found where that differs. An
    edited passage counts as the same passage.

    Example: hopsyncd why "Who runs the mill?" 40
    """
    client = client_of(context)
    first, second = (client.query(question, k=k, at=at) for at in (old, new))
    ranks = [
        {passage["id"]: (rank, passage) for rank, passage in enumerate(answer["passages"], 1)}
        for answer in (first, second)
    ]
    edited = _match_edited(
        _missing_at(client, second["version"], ranks[0], ranks[1]),
        _missing_at(client, first["version"], ranks[1], ranks[0]),
    )
    rows = [
        _comparison(question, ranks[0].get(edited.get(id_, id_)), ranks[1].get(id_))
        for id_ in dict.fromkeys([*ranks[1], *ranks[0]])
        if id_ not in edited.values()
    ]
    if print_if_json(
        {"from": first["version"], "to": second["version"], "passages": rows}, as_json
    ):
        return
    click.secho(f"rank at {first['version']} -> at {second['version']}", bold=True)
    for row in rows:
        before, after = (row[key] if row[key] else "-" for key in ("rank_from", "rank_to"))
        place = f"{row['source']}: {row.get('document_name', row['document'])}"
        name = printable(f"{row['title']}  {place}")
        click.echo(f"  {before!s:>3} -> {after!s:<3} {name}{' (edited)' if row['edited'] else ''}")
        was, now = (_route(row[hops], row["words"]) for hops in ("hops_from", "hops_to"))
        if row["same_hops"]:
            click.echo(f"             {now if row['rank_to'] else was}")
        else:
            click.echo(f"             before: {was}")
            click.echo(f"             now:    {now}")


def _missing_at(
    client: Client,
    version: int,
    found: Mapping[str, tuple[int, Any]],
    known: Collection[str],
) -> dict[str, Mapping[str, Any]]:
    """The passages in `found` that the version does not contain; it contains those in `known`."""
    missing = {}
    for id_, (_, passage) in found.items():
        if id_ in known:
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
    """The added passages that replaced a removed one: the new ids, each with the old id."""
    places: dict[tuple[str, ...], list[str]] = {}
    for id_, passage in removed.items():
        places.setdefault(_place_key(passage), []).append(id_)
    edited = {}
    for id_, passage in added.items():
        if before := places.get(_place_key(passage)):
            edited[id_] = before.pop(0)
    return edited


def _place_key(passage: Mapping[str, Any]) -> tuple[str, ...]:
    return (passage["source"], passage["document"], *passage["heading"])


def _route(hops: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    """How a passage was found: by the hops to it, or directly by the question's words in it."""
    if not hops and words:
        return f"matched directly by {printable(', '.join(words))}"
    if not hops:
        return "matched directly by meaning; it contains no word of the question"
    steps = [f" {ARROWS[hop['asked_by']]} {heading_text(hop['to'])}" for hop in hops]
    return f"{heading_text(hops[0]['from'])}{''.join(steps)}   {printable(hops[-1]['question'])}"


def _comparison(
    question: str, old: tuple[int, Any] | None, new: tuple[int, Any] | None
) -> dict[str, Any]:
    """A row of `why`: the passage with its rank and route at both versions.

    `old` and `new` are its rank and the passage there, or None if it was not found.
    """
    shown = (new or old or (0, {}))[1]
    terms = {*index_terms(" ".join((*shown["heading"], shown["text"])))}
    words = re.findall(r"\w+", question)
    hops = [
        [(*hop["from"]["heading"], hop["question"]) for hop in side[1]["hops"]] if side else None
        for side in (old, new)
    ]
    name = mail_name(shown.get("origin"), shown["heading"])
    return {
        **({"document_name": name} if name else {}),
        "id": shown["id"],
        "title": title_of(shown),
        "source": shown["source"],
        "document": shown["document"],
        "words": [
            word for word in dict.fromkeys(words) if terms & {*index_terms(word)} - _QUESTION_WORDS
        ],
        "edited": bool(old and new and old[1]["id"] != new[1]["id"]),
        "rank_from": old[0] if old else None,
        "rank_to": new[0] if new else None,
        "same_hops": hops[0] is None or hops[1] is None or hops[0] == hops[1],
        "hops_from": old[1]["hops"] if old else [],
        "hops_to": new[1]["hops"] if new else [],
    }


@click.command()
@click.argument("name")
@click.argument("version", default="head", shell_complete=complete_version)
@click.option("--delete", is_flag=True, help="Remove the tag instead.")
@json_option
@click.pass_context
def tag(context: click.Context, name: str, version: str, delete: bool, as_json: bool) -> None:
    """Give a version a name. A tagged version is never collected.

    Without VERSION, the newest version is tagged.

    Example: hopsyncd tag before-the-move
    """
    with client_of(context) as client:
        if delete:
            done, message = client.untag(name), f"Deleted the tag {name}."
        else:
            tagged = client.tag(name, version)
            done, message = tagged, f"Tagged version {tagged['version']} as {name}."
    if not print_if_json(done, as_json):
        click.echo(message)


@click.command()
@click.argument("version", shell_complete=complete_version)
@_sources_option
@json_option
@click.pass_context
def restore(context: click.Context, version: str, sources: tuple[str, ...], as_json: bool) -> None:
    """Make a new version with the documents of VERSION. Files on disk are not changed.

    Restored documents are pinned: scans skip them until their files change. When a file is edited,
    created or deleted, it is synced as usual and the pin of its document ends. `hopsyncd release`
    ends all pins. No questions are generated again.

    Example: hopsyncd restore before-the-move --source notes
    """
    done = send_long(context, calls.restore(version, sources), "restoring")
    if print_if_json(done, as_json):
        return
    if not done["changed"]:
        click.echo(f"Nothing to do: the documents are the same as in version {done['restored']}.")
        return
    click.echo(f"Version {done['version']} has the documents of version {done['restored']}.")
    for source in done["sources"]:
        if source["pinned"]:
            click.echo(
                f"{source['name']}: {plural(source['pinned'], 'document')} pinned. They differ from"
                " their files until the files change, or until you run `hopsyncd release`."
            )


@click.command()
@_sources_option
@json_option
@click.pass_context
def release(context: click.Context, sources: tuple[str, ...], as_json: bool) -> None:
    """End the pins that `restore` set, and sync.

    Every document follows its file again.

    Example: hopsyncd release
    """
    done = send_long(context, calls.release(sources))
    if print_if_json(done, as_json):
        return
    print_sync_report(done)
