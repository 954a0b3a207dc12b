"""`hopsyncd show` and `hopsyncd open`: print a passage or document, or open it in a program."""

import re
import shlex
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from hopsyncd.cli.output import (
    at_option,
    format_heading,
    json_option,
    make_client,
    make_place_formatter,
    print_if_json,
    warn,
)
from hopsyncd.cli.terminal import echo_facts, format_id, mark_words
from hopsyncd.client import Client
from hopsyncd.client.local_files import map_local_sources
from hopsyncd.client.opening import find_target, make_editor_command
from hopsyncd.client.protocol import RequestFailed
from hopsyncd.config.configuration import load_config
from hopsyncd.config.source_kinds import FolderSource
from hopsyncd.errors import NotFound
from hopsyncd.printable import make_printable

_ID = re.compile("[0-7][0-9a-f]{7,15}")
_LINES = re.compile(r":(\d+)(?:-\d+)?\Z")


def find_document(
    client: Client, document: str, source: str | None, at: str
) -> tuple[str, Mapping[str, Any]]:
    """Find a document by its path as answers print it, with or without the source name in front, or
    by its path on this machine.

    A name without folders or without its suffix is enough if only one document has that name.
    Without `source`, all sources are searched. Returns the name of the document's source and the
    daemon's answer. Raises RequestFailed, NotFound, or click.UsageError if several sources have
    the document.
    """
    names = [source] if source else [row["name"] for row in client.sources()["sources"]]
    candidates = {(name, document) for name in names}
    candidates |= {*_find_in_folders(client, document)} if source is None else set()
    if source is None:
        for name in names:
            if document.startswith((f"{name}: ", f"{name}/")):
                candidates.add((name, document[len(name) + 1 :].lstrip()))
    answers: dict[str, Mapping[str, Any]] = {}
    similar_names: dict[str, None] = {}
    for name, path in sorted(candidates):
        try:
            answers[name] = client.document(name, path, at=at)
        except RequestFailed as error:
            if error.status != 404 or source:
                raise
            similar_names |= dict.fromkeys(_read_suggestions(error.hint or ""))
    if not answers and (only := _find_only_named(document, similar_names)):
        warn([f"There is no document {document}. Showing {': '.join(only)}"])
        return only[0], client.document(*only, at=at)
    if not answers:
        raise _missing_error(client, document, candidates, similar_names, at)
    if len(answers) > 1:
        raise click.UsageError(
            f"Several sources have {document}. Put the source before it: {', '.join(answers)}."
        )
    return next(iter(answers.items()))


def _missing_error(
    client: Client,
    document: str,
    candidates: Collection[tuple[str, str]],
    similar_names: Collection[str],
    at: str,
) -> NotFound:
    """Explain why no source has a document. `candidates` are names of sources and paths in them,
    and `similar_names` are documents with similar names."""
    for problem in client.status()["problems"]:
        if (problem["source"], problem["document"]) in candidates:
            return NotFound(f"{document} cannot be read", problem["why"], problem["hint"])
    if reason := _explain_left_out(client, candidates):
        return NotFound(f"{document} is not indexed", *reason)
    if at == "head" and (reason := _explain_removed(client, candidates)):
        return NotFound(f"There is no document {document} in the newest version", *reason)
    names = dict.fromkeys(name for name, _ in sorted(candidates))
    return NotFound(
        f"There is no document {document}",
        f"none of these sources has the document: {', '.join(names)}"
        if names
        else "no source exists",
        f"Did you mean {', '.join(similar_names)}?"
        if similar_names
        else "Give the path as `hopsyncd query` prints it, after the name of the source"
        if names
        else "Add a source with `hopsyncd add PATH`",
    )


def _find_in_folders(client: Client, document: str) -> Iterator[tuple[str, str]]:
    """Yield the source and the path in its folder for a path on this machine."""
    if not document.startswith(("/", "~", "./", "../")):
        return
    file = Path(document).expanduser().absolute()
    for name, source in map_local_sources(client).items():
        folder = source.get("location", "")
        for path, above in ((file, Path(folder)), (file.resolve(), Path(folder).resolve())):
            if folder and path.is_relative_to(above) and path != above:
                yield name, path.relative_to(above).as_posix()


def _explain_removed(
    client: Client, candidates: Iterable[tuple[str, str]]
) -> tuple[str, str] | None:
    """Say in which version a document was removed or renamed, and how to read it. `candidates` are
    names of sources and paths in them."""
    for name, path in sorted(candidates):
        try:
            changes = client.history(name, path, limit=1)["changes"]
        except RequestFailed as error:
            if error.status != 404:
                raise
            continue
        if changes and changes[0]["what"] == "removed":
            number = changes[0]["version"]
            why = f"version {number} removed or renamed the document"
            kept_version = _find_kept(client, name, path, number)
            if kept_version is None:
                return f"{why}, and its last text was not kept", "`hopsyncd log` lists the versions"
            argument = shlex.quote(f"{name}: {path}")
            return why, f"`hopsyncd show {argument} --at {kept_version}` prints its last kept text"
    return None


def _find_kept(client: Client, source: str, path: str, before: int) -> int | None:
    """Return the newest kept version before this version, or None if it lacks the document."""
    kept_version = None
    while kept_version is None and (versions := client.log(limit=100, before=before)["versions"]):
        kept_version = next((row["version"] for row in versions if row["collected"] is None), None)
        before = versions[-1]["version"]
    try:
        if kept_version is not None:
            client.document(source, path, at=str(kept_version))
    except RequestFailed as error:
        if error.status != 404:
            raise
        return None
    return kept_version


def _explain_left_out(
    client: Client, candidates: Iterable[tuple[str, str]]
) -> tuple[str, str] | None:
    """Explain why a file in a folder of this machine's configuration is not indexed, and what to
    do. `candidates` are names of sources and paths in them."""
    if client.is_remote:
        return None
    # Takes 0.3 s to import.
    from hopsyncd.ingest.connector_setup import create_folder_connector, with_pictures

    config = load_config(click.get_current_context().obj)
    folders = {source.name: source for source in config.sources if isinstance(source, FolderSource)}
    for name, path in sorted(candidates):
        if name in folders and (folders[name].path / path).exists():
            folder = with_pictures(folders[name], config)
            if isinstance(folder, FolderSource) and (
                reason := create_folder_connector(folder, config).explain_left_out(path)
            ):
                return reason
    return None


def _read_suggestions(hint: str) -> list[str]:
    """Return the documents that a hint of the daemon suggests, each as `source: path`."""
    _, marker, names = hint.partition("; similar: ")
    return names.split(", ") if marker else []


def _find_only_named(wanted_name: str, places: Iterable[str]) -> tuple[str, str] | None:
    """Return the source and path of the only document in `places` that has the wanted name.

    Case does not matter. A document with a merely similar name is not opened.

    >>> _find_only_named("ada", ["notes: people/ada.md", "notes: people/adam.md"])
    ('notes', 'people/ada.md')
    >>> _find_only_named("ada", ["notes: people/ada.md", "notes: ada.txt"]) is None
    True
    """
    name = wanted_name.casefold().strip("/")
    paths = []
    for place in places:
        source, _, path = place.partition(": ")
        path_below_root = PurePosixPath("/", path.casefold())
        if name and any(
            str(path).endswith(f"/{name}")
            for path in (path_below_root, path_below_root.with_suffix(""))
        ):
            paths.append((source, path))
    return paths[0] if len(paths) == 1 else None


def _find(client: Client, named: str, at: str) -> tuple[dict[str, Any], int | None]:
    """Find the passage or document that the user named. Returns an answer with its passages, and
    the line number if there is one.

    Raises the errors of find_document.
    """
    if _ID.fullmatch(named):
        passage = client.passage(named, at=at)
        return {**passage, "passages": [passage["passage"]]}, None
    document, _, heading = named.partition("#")
    line = _LINES.search(document)
    document = document[: line.start()] if line else document
    _, answer = find_document(client, document, None, at)
    passages: Sequence[Mapping[str, Any]] = answer["passages"]
    number = int(line[1]) if line else None
    if heading:
        title = heading.casefold().strip()
        below = [
            passage
            for passage in passages
            if title in (part.casefold() for part in passage["heading"])
        ]
        if not below:
            headings = dict.fromkeys(part for passage in passages for part in passage["heading"])
            raise NotFound(
                f"There is no heading {heading!r} in {document}",
                f"the headings are: {', '.join(headings)}"
                if headings
                else "the document has no headings",
                "Leave out the heading to see the whole document",
            )
        passages = below
    elif number is not None:
        passages = [
            passage
            for passage in passages
            if passage["lines"] and passage["lines"][0] <= number <= passage["lines"][1]
        ] or passages
    return {**answer, "passages": list(passages)}, number


@click.command()
@click.argument("named", metavar="ID|DOCUMENT[#HEADING]")
@click.option("--mark", default="", help="Highlight the words of this question.")
@click.option(
    "--skipped",
    is_flag=True,
    help="Count what the reader left out of a document, such as navigation.",
)
@at_option
@json_option
@click.pass_context
def show(
    context: click.Context, named: str, mark: str, skipped: bool, at: str, as_json: bool
) -> None:
    """Print a whole passage or document.

    ID is the id of a passage, as `query` prints it, or at least its first 8 characters. DOCUMENT
    is a path, with its source if needed (`notes: people/ada.md`). With :LINE (`people/ada.md:12`),
    only the passage at that line is printed. With #HEADING, only the passages under that heading.

    \b
    Examples: hopsyncd show 68e8242676714bee --mark "Who taught Ada?"
              hopsyncd show "people/ada.md#Youth"
    """
    with make_client(context) as client:
        answer, _ = _find(client, named, at)
        show_place = make_place_formatter(client)
        if print_if_json(answer, as_json, client):
            return
    warn(answer["degraded"])
    if skipped:
        if "skipped" not in answer:
            raise click.UsageError("--skipped needs a document, not the id of a passage.")
        counts = answer["skipped"]
        for kind, count in sorted(counts.items()):
            click.echo(f"{make_printable(kind)}: {count:,}")
        if not counts:
            click.echo("Nothing in this file was skipped.")
        return
    if not answer["passages"]:
        click.echo(f"{make_printable(named)} has no text.")
    above: Sequence[str] = ()
    for passage in answer["passages"]:
        if list(passage["heading"]) != above:
            click.secho(format_heading(passage), bold=True)
            above = list(passage["heading"])
        echo_facts((click.style(show_place(passage), fg="cyan"), format_id(passage["id"])))
        for line in str(passage["text"]).splitlines():
            click.echo(mark_words(make_printable(line.expandtabs(4)), mark, reverse=True))
        click.echo()


@click.command("open")
@click.argument("named", metavar="ID|DOCUMENT[#HEADING]")
@click.option("--print", "only_print", is_flag=True, help="Print what would be opened.")
@at_option
@click.pass_context
def open_(context: click.Context, named: str, only_print: bool, at: str) -> None:
    """Open a passage or document in your editor, or in its default program.

    Text is opened in the editor, at its line. The editor is `open.editor` in the configuration,
    else $VISUAL or $EDITOR, else the system's program for the file.

    Example: hopsyncd open 68e8242676714bee
    """
    with make_client(context) as client:
        answer, line = _find(client, named, at)
        if not answer["passages"] or not answer["passages"][0]["document"]:
            raise NotFound(
                f"Cannot open {named}",
                "no document of this version contains the passage",
                "Choose another version with --at",
            )
        place = answer["passages"][0]
        sources = map_local_sources(client)
    target, is_text = find_target(place, sources)
    if line is None:
        line = place["lines"][0] if place["lines"] else 1
    editor = load_config(context.obj).open.editor
    command = make_editor_command(editor, target, line) if is_text else None
    if only_print:
        click.echo(shlex.join(command) if command else target)
    elif command is None or "://" in command[0]:
        click.launch(command[0] if command else target)
    else:
        subprocess.run(command, check=False)
