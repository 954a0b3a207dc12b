"""`hopsyncd completion`, and completion of source names, tags and versions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from hopsyncd.client import Client
from hopsyncd.config.configuration import load_config
from hopsyncd.errors import REPORTABLE

if TYPE_CHECKING:
    from hopsyncd.responses.changes import LoggedVersion

_DEADLINE_S = 0.5  # Completion gives up after this time, because the user waits at the prompt.


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell.

    The script completes commands, options, source names, tags and the 50 newest versions.

    Example: hopsyncd completion bash > ~/.local/share/bash-completion/completions/hopsyncd
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    group = context.find_root().command
    click.echo(kind(group, {}, "hopsyncd", "_HOPSYNCD_COMPLETE").source())


def complete_source(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the names of the sources in the configuration file. Needs no daemon."""
    try:
        sources = load_config(context.find_root().params.get("config_file")).sources
    except REPORTABLE:
        return []
    return [
        CompletionItem(source.name, help=source.location)
        for source in sources
        if source.name.startswith(begun)
    ]


def complete_version(
    context: click.Context, _: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete tags and the newest versions, if a daemon answers in time."""
    items = [CompletionItem("head", help="the newest version")]
    for version in _read_versions(context):
        description = f"version {version['version']}: {version['reason']}"
        items += [CompletionItem(tag, help=description) for tag in version["tags"]]
        items.append(CompletionItem(str(version["version"]), help=version["reason"]))
    return [item for item in items if item.value.startswith(begun)]


def _read_versions(context: click.Context) -> "Sequence[LoggedVersion]":
    try:
        config = load_config(context.find_root().params.get("config_file"))
        return Client(config.daemon.socket, timeout_s=_DEADLINE_S).log(limit=50)["versions"]
    except REPORTABLE:
        return []
