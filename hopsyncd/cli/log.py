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
    local_time,
    printed_json,
    send_long,
)
from hopsyncd.cli.sync import print_outcomes
from hopsyncd.client import Client, RequestFailed, calls
from hopsyncd.client.response import ARROWS, counted, title_of
from hopsyncd.printable import printable
from hopsyncd.text.words import index_terms

_SHOWN = 10  # of each list, unless --all
_FOLDERS = 12
_CHANGED_LINES = 30  # of a document
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}
_ASKING = {*index_terms("who what when where why how which did does is are was were the of to in")}
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
    "limit",
    type=WholeNumber(min=1),
    default=20,
    show_default=True,
    help="How many versions.",
)
@json_option
@click.pass_context
def log(context: click.Context, limit: int, as_json: bool) -> None:
    """List versions: when, why, changes and cost.

    The newest comes first.

    Example: hopsyncd log -n 5
    """
    found = client_of(context).log(limit)
    if printed_json(found, as_json):
        return
    for one in found["versions"]:
        tags = "".join(f" [{printable(tag)}]" for tag in one["tags"])
        tags += " (collected)" if one["collected"] else ""
        reason = printable(one["reason"])
        click.secho(f"{one['version']}{tags}  {local_time(one['created'])}  {reason}", bold=True)
        if one["about"]:
            click.echo(f"    {printable(one['about'])}")
        click.echo(
            f"    documents {_signed(one, 'documents_')}, passages {_signed(one, 'passages_')};"
            f" now {counted(one['documents'], 'document')}, {counted(one['passages'], 'passage')},"
            f" {counted(one['edges'], 'edge')}; questions made for"
            f" {counted(one['counters'].get('passages_generated', 0), 'passage')}"
            + _llm_cost(one["counters"])
        )


def _llm_cost(spent: dict[str, int]) -> str:
    if not spent.get("llm_calls"):
        return ""
    calls, tokens = spent["llm_calls"], spent.get("llm_tokens", 0)
    return f", with {counted(calls, 'LLM call')} and {counted(tokens, 'token')}"


def _signed(counts: Mapping[str, Any], prefix: str = "") -> str:
    """Counts of what was added, changed, removed and renamed: `+3 ~1`, or `as before`."""
    parts = [f"{sign}{counts.get(prefix + kind, 0):,}" for kind, sign in _SIGNS.items()]
    return " ".join(part for part in parts if part[1:] != "0") or "as before"


@click.command()
@click.argument("old", shell_complete=complete_version)
@click.argument("new", default="head", shell_complete=complete_version)
@click.option("--all", "whole", is_flag=True, help="Show every line.")
@click.option("--graph", is_flag=True, help="List the passages and edges that differ too.")
@json_option
@click.pass_context
def diff(
    context: click.Context, old: str, new: str, whole: bool, graph: bool, as_json: bool
) -> None:
    """Show what changed between two versions, sentence by sentence.

    Under each changed document stand its sentences: `-` is gone, `+` is new, the others are around
    them. Passages and edges are counted, and listed with --graph.

    A version is a number, a tag, a time such as 2026-11-01T09:00, or "head".

    Example: hopsyncd diff 40 head --all
    """
    limit = None if whole or as_json else _SHOWN
    found: Mapping[str, Any] = client_of(context).diff(old, new, limit, graph or as_json)
    if printed_json(found, as_json):
        return
    click.secho(f"version {found['from']} to {found['to']}", bold=True)
    counts = found["counts"]
    click.echo(", ".join(f"{kind} {_signed(some)}" for kind, some in counts.items()))
    if sum(counts["documents"].values()) > _SHOWN:
        _print_folders(found["folders"], whole)
    texts = {(one["source"], one["document"]): one["lines"] for one in found["texts"]}
    for what, line in _LINES.items():
        if what != "documents" and not graph:
            continue
        for kind, sign in _SIGNS.items():
            listed = found[what].get(kind, ())
            below = [texts.get((one.get("source"), one.get("document")), ()) for one in listed]
            lines = [line(one) for one in listed]
            _print_list(f"{what} {kind}", sign, lines, counts[what].get(kind, 0), below, whole)


def _print_folders(folders: Sequence[Mapping[str, Any]], whole: bool) -> None:
    click.echo("\ndocuments by folder:")
    shown = folders if whole else folders[:_FOLDERS]
    names = [f"{one['source']}: {printable(one['folder']) or '.'}/" for one in shown]
    width = max(map(len, names))
    for name, one in zip(names, shown, strict=True):
        click.echo(f"  {name:<{width}}  {_signed(one)}")
    if len(folders) > len(shown):
        click.echo(f"  and {len(folders) - len(shown):,} more folders (--all shows them)")


def _print_list(
    title: str,
    sign: str,
    lines: Sequence[str],
    count: int,
    below: Sequence[Sequence[str]],
    whole: bool,
) -> None:
    """Print a list of `count` lines, of which `lines` are the first, each with what is below it."""
    if not count:
        return
    click.echo(f"\n{title}: {count:,}")
    for line, changed in zip(lines, below, strict=True):
        click.echo(f"  {sign} {printable(line)}")
        shown = changed if whole else changed[:_CHANGED_LINES]
        for one in shown:
            click.secho(f"      {printable(one)}", fg=_COLOURS.get(one[:1]))
        if len(changed) > len(shown):
            click.echo(f"      and {len(changed) - len(shown):,} more lines (--all shows them)")
    if count > len(lines):
        click.echo(f"  and {count - len(lines):,} more (--all shows them)")


def _document_line(one: Mapping[str, Any]) -> str:
    was = f"{one['was']} -> " if "was" in one else ""
    return f"{one['source']}: {was}{one['document']}"


def _passage_line(one: Mapping[str, Any]) -> str:
    heading = " > ".join(one["heading"])
    return f"{heading}: {one['start']}" if heading else str(one["start"])


def _edge_line(one: Mapping[str, Any]) -> str:
    ends = (" > ".join(one[end]["heading"]) or one[end]["start"] for end in ("from", "to"))
    return f"{' -> '.join(ends)}   {one['question']}"


_LINES = {"documents": _document_line, "passages": _passage_line, "edges": _edge_line}


@click.command()
@click.argument("question")
@click.argument("old", shell_complete=complete_version)
@click.argument("new", default="head", shell_complete=complete_version)
@click.option(
    "-k", type=WholeNumber(1, 1000), default=10, show_default=True, help="How many passages."
)
@json_option
@click.pass_context
def why(context: click.Context, question: str, old: str, new: str, k: int, as_json: bool) -> None:
    """Ask a question at two versions, and compare the results.

    Shows the rank of each passage at both versions, and the hops to it where they differ. A passage
    that was edited in between counts as one passage.

    Example: hopsyncd why "Who runs the mill?" 40
    """
    client = client_of(context)
    first, second = (client.query(question, k=k, at=at) for at in (old, new))
    ranks = [
        {passage["id"]: (rank, passage) for rank, passage in enumerate(found["passages"], 1)}
        for found in (first, second)
    ]
    edited = _edited(
        _not_at(client, second["version"], ranks[0], ranks[1]),
        _not_at(client, first["version"], ranks[1], ranks[0]),
    )
    rows = [
        _compared(question, ranks[0].get(edited.get(key, key)), ranks[1].get(key))
        for key in dict.fromkeys([*ranks[1], *ranks[0]])
        if key not in edited.values()
    ]
    if printed_json({"from": first["version"], "to": second["version"], "passages": rows}, as_json):
        return
    click.secho(f"rank at {first['version']} -> at {second['version']}", bold=True)
    for row in rows:
        before, after = (row[key] if row[key] else "-" for key in ("rank_from", "rank_to"))
        name = printable(f"{row['title']}  {row['source']}: {row['document']}")
        click.echo(f"  {before!s:>3} -> {after!s:<3} {name}{' (edited)' if row['edited'] else ''}")
        was, now = (_route(row[hops], row["words"]) for hops in ("hops_from", "hops_to"))
        if row["same_hops"]:
            click.echo(f"             {now if row['rank_to'] else was}")
        else:
            click.echo(f"             before: {was}")
            click.echo(f"             now:    {now}")


def _not_at(
    client: Client,
    version: int,
    found: Mapping[str, tuple[int, Any]],
    others: Collection[str],
) -> dict[str, Mapping[str, Any]]:
    """The passages found that the version does not have; it does have the others."""
    gone = {}
    for key, (_, one) in found.items():
        if key in others:
            continue
        try:
            client.passage(key, at=str(version))
        except RequestFailed as error:
            if error.status != 404:
                raise
            gone[key] = one
    return gone


def _edited(
    went: Mapping[str, Mapping[str, Any]], came: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Passages that came, each with the one that stood in its place."""
    gone: dict[tuple[str, ...], list[str]] = {}
    for key, one in went.items():
        gone.setdefault((one["source"], one["document"], *one["heading"]), []).append(key)
    edited = {}
    for key, one in came.items():
        if before := gone.get((one["source"], one["document"], *one["heading"])):
            edited[key] = before.pop(0)
    return edited


def _route(hops: Sequence[Mapping[str, Any]], words: Sequence[str]) -> str:
    """What a rank rests on: the hops over which the passage was reached, or its own words."""
    if not hops and words:
        return f"found directly: it has {printable(', '.join(words))}"
    if not hops:
        return "found directly, by its meaning: it has none of the question's words"
    steps = [f" {ARROWS[hop['asked_by']]} {heading_text(hop['to'])}" for hop in hops]
    return f"{heading_text(hops[0]['from'])}{''.join(steps)}   {printable(hops[-1]['question'])}"


def _compared(
    question: str, old: tuple[int, Any] | None, new: tuple[int, Any] | None
) -> dict[str, Any]:
    shown = (new or old or (0, {}))[1]
    has = {*index_terms(" ".join((*shown["heading"], shown["text"])))}
    asked = re.findall(r"\w+", question)
    hops = [
        [(*hop["from"]["heading"], hop["question"]) for hop in one[1]["hops"]] if one else None
        for one in (old, new)
    ]
    return {
        "id": shown["id"],
        "title": title_of(shown),
        "source": shown["source"],
        "document": shown["document"],
        "words": [word for word in dict.fromkeys(asked) if has & {*index_terms(word)} - _ASKING],
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
    """Name a version (the newest, if none is given). A tagged version is never collected.

    Example: hopsyncd tag before-the-move
    """
    with client_of(context) as client:
        if delete:
            done, said = client.untag(name), f"Deleted the tag {name}."
        else:
            tagged = client.tag(name, version)
            done, said = tagged, f"Version {tagged['version']} is tagged {name}."
    if not printed_json(done, as_json):
        click.echo(said)


@click.command()
@click.argument("version", shell_complete=complete_version)
@_sources_option
@json_option
@click.pass_context
def restore(context: click.Context, version: str, sources: tuple[str, ...], as_json: bool) -> None:
    """Make a new version with the documents of VERSION. Nothing on disk is touched.

    The restored documents are pinned: scans leave them alone as long as their files stay as they
    are now. A file that is edited, created or deleted later is synced as always, which ends the pin
    of its document. `hopsyncd release` ends all pins, so that every document follows its file
    again. No question is generated again.

    Example: hopsyncd restore before-the-move --source notes
    """
    done = send_long(context, calls.restore(version, sources), "restoring")
    if printed_json(done, as_json):
        return
    if not done["changed"]:
        click.echo(f"Nothing to do: the documents are those of version {done['restored']}.")
        return
    click.echo(f"Version {done['version']} has the documents of version {done['restored']}.")
    for source in done["sources"]:
        if source["pinned"]:
            click.echo(
                f"{source['name']}: {counted(source['pinned'], 'document')} pinned: different from"
                " the files until those change, or until `hopsyncd release`."
            )


@click.command()
@_sources_option
@json_option
@click.pass_context
def release(context: click.Context, sources: tuple[str, ...], as_json: bool) -> None:
    """End the pins of `restore`, and sync: every document follows its file again.

    Example: hopsyncd release
    """
    done = send_long(context, calls.release(sources))
    if printed_json(done, as_json):
        return
    print_outcomes(done)
