"""`hopsyncd log`, `diff`, `tag`, `restore` and `release`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from hopsyncd.cli.completion import complete_source, complete_version
from hopsyncd.cli.output import (
    WholeNumber,
    json_option,
    make_client,
    print_if_json,
    send_long,
    verbose_option,
)
from hopsyncd.cli.sync import print_sync_report
from hopsyncd.cli.terminal import echo_line
from hopsyncd.client import calls
from hopsyncd.display import format_document_name, format_relative_time, pluralise
from hopsyncd.printable import make_printable

_SHOWN = 10  # lines of each list, without --all
_FOLDERS = 12
_CHANGED_LINES = 30  # lines shown per document
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}
_READING_ORDER = ("changed", "renamed", "removed", "added")
_INDENT = "    "
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
    help="How many versions to list.",
)
@verbose_option
@json_option
@click.pass_context
def log(context: click.Context, limit: int, verbose: bool, as_json: bool) -> None:
    """List the versions, newest first, and what changed in each.

    --verbose also counts passages, edges and LLM calls. --json shows the exact times.

    Example: hopsyncd log -n 5
    """
    answer = make_client(context).log(limit)
    if print_if_json(answer, as_json):
        return
    for version in answer["versions"]:
        tags = "".join(f" [{make_printable(tag)}]" for tag in version["tags"])
        tags += " (collected)" if version["collected"] else ""
        when, reason = (
            format_relative_time(version["created"]),
            make_printable(version["reason"]),
        )
        echo_line(f"{version['version']}{tags}  {when}  {reason}", hanging=_INDENT, bold=True)
        if version["about"]:
            echo_line(make_printable(version["about"]), indent=_INDENT, hanging=_INDENT)
        elif not verbose and (changed := _format_changes(version, "documents_", "")):
            click.echo(f"{_INDENT}documents {changed}")
        if verbose:
            echo_line(_format_counts(version), indent=_INDENT, hanging=_INDENT, dim=True)


def _format_counts(version: Mapping[str, Any]) -> str:
    """Describe the size of a version, and the cost of making it."""
    counters = version["counters"]
    return (
        f"documents {_format_changes(version, 'documents_')},"
        f" passages {_format_changes(version, 'passages_')};"
        f" total {pluralise(version['documents'], 'document')},"
        f" {pluralise(version['passages'], 'passage')}, {pluralise(version['edges'], 'edge')};"
        f" questions generated for {pluralise(counters.get('passages_generated', 0), 'passage')}"
        + _format_llm_cost(counters)
    )


def _format_llm_cost(counters: Mapping[str, int]) -> str:
    if not counters.get("llm_calls"):
        return ""
    calls, tokens = counters["llm_calls"], counters.get("llm_tokens", 0)
    return f", with {pluralise(calls, 'LLM call')} and {pluralise(tokens, 'token')}"


def _format_changes(counts: Mapping[str, Any], prefix: str = "", nothing: str = "unchanged") -> str:
    """Format the numbers of additions, changes, removals and renames, such as `+3 ~1`.

    Returns `nothing` if all are 0. `prefix` begins the names of the numbers in `counts`.
    """
    parts = [f"{sign}{counts.get(prefix + kind, 0):,}" for kind, sign in _SIGNS.items()]
    return " ".join(part for part in parts if part[1:] != "0") or nothing


@click.command()
@click.argument("old", shell_complete=complete_version)
@click.argument("new", default="head", shell_complete=complete_version)
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show all changes, instead of 10 entries per list and 30 lines per document.",
)
@click.option(
    "--graph",
    "--verbose",
    "-v",
    "graph",
    is_flag=True,
    help="Also list the passages and edges that differ.",
)
@json_option
@click.pass_context
def diff(
    context: click.Context, old: str, new: str, show_all: bool, graph: bool, as_json: bool
) -> None:
    """Show what changed between two versions, sentence by sentence.

    Each changed document is followed by its sentences: `-` marks removed sentences, and `+` marks
    added sentences. Sentences without a mark are context.

    A version is a number, a tag, a time such as 2026-11-01T09:00, or "head".

    Example: hopsyncd diff 40 head --all
    """
    limit = None if show_all or as_json else _SHOWN
    with make_client(context) as client:
        answer: Mapping[str, Any] = client.diff(old, new, limit, graph or as_json)
        if print_if_json(answer, as_json, client):
            return
    click.secho(f"version {answer['from']} to {answer['to']}", bold=True)
    counts = answer["counts"]
    shown = counts if graph else {"documents": counts["documents"]}
    click.echo(", ".join(f"{what} {_format_changes(by_kind)}" for what, by_kind in shown.items()))
    if sum(counts["documents"].values()) > _SHOWN:
        _print_folders(answer["folders"], show_all)
    texts = {(text["source"], text["document"]): text["lines"] for text in answer["texts"]}
    for what, line in _LINES.items():
        if what != "documents" and not graph:
            continue
        for kind in _READING_ORDER:
            sign = _SIGNS[kind]
            items = answer[what].get(kind, ())
            details = [texts.get((item.get("source"), item.get("document")), ()) for item in items]
            lines = [line(item) for item in items]
            count = counts[what].get(kind, 0)
            _print_list(f"{what} {kind}", sign, lines, count, details, show_all)


def _print_folders(folders: Sequence[Mapping[str, Any]], show_all: bool) -> None:
    click.echo("\ndocuments by folder:")
    shown = folders if show_all else folders[:_FOLDERS]
    names = [f"{folder['source']}: {make_printable(folder['folder']) or '.'}/" for folder in shown]
    width = max(map(len, names))
    for name, folder in zip(names, shown, strict=True):
        click.echo(f"  {name:<{width}}  {_format_changes(folder)}")
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
    """Print the first lines of a list of `count` entries, each with its details."""
    if not count:
        return
    click.echo(f"\n{title}: {count:,}")
    for line, below in zip(lines, details, strict=True):
        echo_line(f"{sign} {make_printable(line)}", indent="  ", hanging="    ")
        shown = below if show_all else below[:_CHANGED_LINES]
        for detail in shown:
            echo_sentence(detail)
        if len(below) > len(shown):
            click.echo(f"      and {len(below) - len(shown):,} more lines (--all shows them)")
    if count > len(lines):
        click.echo(f"  and {count - len(lines):,} more (--all shows them)")


def echo_sentence(line: str, indent: str = "      ") -> None:
    """Print a line of a document's diff in the colour of its mark."""
    text = line.removeprefix("@@ ") if line.startswith("@@ ") else line
    color = _COLOURS.get(line[:1])
    echo_line(make_printable(text), indent=indent, hanging=f"{indent} ", fg=color)


def _format_document(document: Mapping[str, Any]) -> str:
    was = f"{document['was']} -> " if "was" in document else ""
    return f"{document['source']}: {was}{format_document_name(document)}"


def _format_passage(passage: Mapping[str, Any]) -> str:
    heading = " > ".join(passage["heading"])
    return f"{heading}: {passage['start']}" if heading else str(passage["start"])


def _format_edge(edge: Mapping[str, Any]) -> str:
    ends = (" > ".join(edge[end]["heading"]) or edge[end]["start"] for end in ("from", "to"))
    return f"{' -> '.join(ends)}   {edge['question']}"


_LINES = {"documents": _format_document, "passages": _format_passage, "edges": _format_edge}


@click.command()
@click.argument("name")
@click.argument("version", default="head", shell_complete=complete_version)
@click.option("--delete", is_flag=True, help="Remove the tag.")
@json_option
@click.pass_context
def tag(context: click.Context, name: str, version: str, delete: bool, as_json: bool) -> None:
    """Give a version a name. A version with a name is never deleted.

    Without VERSION, the newest version is tagged.

    Example: hopsyncd tag before-the-move
    """
    with make_client(context) as client:
        if delete:
            answer, message = client.untag(name), f"Deleted the tag {name}."
        else:
            tagged = client.tag(name, version)
            answer, message = tagged, f"Tagged version {tagged['version']} as {name}."
    if not print_if_json(answer, as_json):
        click.echo(message)


@click.command()
@click.argument("version", shell_complete=complete_version)
@_sources_option
@json_option
@click.pass_context
def restore(context: click.Context, version: str, sources: tuple[str, ...], as_json: bool) -> None:
    """Make a new version with the documents of VERSION. Files on disk are not changed.

    Restored documents are pinned: scans skip them until their files are edited, created or
    deleted. `hopsyncd release` unpins all of them.

    Example: hopsyncd restore before-the-move --source notes
    """
    answer = send_long(context, calls.restore(version, sources), "restoring")
    if print_if_json(answer, as_json):
        return
    if not answer["changed"]:
        click.echo(f"Nothing to do: the documents are the same as in version {answer['restored']}.")
        return
    click.echo(f"Version {answer['version']} has the documents of version {answer['restored']}.")
    for source in answer["sources"]:
        if source["pinned"]:
            click.echo(
                f"{source['name']}: {pluralise(source['pinned'], 'document')} pinned. They differ"
                " from their files until the files change, or until you run `hopsyncd release`."
            )


@click.command()
@_sources_option
@json_option
@click.pass_context
def release(context: click.Context, sources: tuple[str, ...], as_json: bool) -> None:
    """Unpin the documents that `restore` pinned, and sync.

    The next scans index the restored documents from their files again.

    Example: hopsyncd release
    """
    answer = send_long(context, calls.release(sources))
    if print_if_json(answer, as_json):
        return
    print_sync_report(answer)
