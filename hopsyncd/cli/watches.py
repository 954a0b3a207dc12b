"""`hopsyncd watch`, `watches` and `unwatch`: questions whose changes are told."""

import shlex
from collections.abc import Mapping
from typing import Any

import click

from hopsyncd.cli.output import (
    WholeNumber,
    client_of,
    heading_text,
    json_option,
    local_time,
    printed_json,
)
from hopsyncd.client.response import counted, printable


@click.command()
@click.argument("question")
@click.option(
    "--exec",
    "program",
    metavar="CMD",
    help="A program to run at each change, without a shell; it gets the change as JSON on its"
    " standard input.",
)
@click.option(
    "--webhook", metavar="URL", help="An http address of this machine to POST each change to."
)
@click.option("--mcp", is_flag=True, help="Tell the agents that `hopsyncd mcp` serves.")
@json_option
@click.pass_context
def watch(
    context: click.Context,
    question: str,
    program: str | None,
    webhook: str | None,
    mcp: bool,
    as_json: bool,
) -> None:
    """Watch a question, and be told when its answer changes.

    The daemon asks it again after each version that touches what it rests on. A change is another
    answer, or other passages among the first five. Each is recorded once, and `watches` shows it.

    Example: hopsyncd watch "Who maintains the billing service?" --exec ~/bin/tell-me
    """
    try:
        arguments = shlex.split(program or "")
    except ValueError as error:
        why = f"{program} is no command: {str(error).lower()}"
        raise click.BadParameter(why, param_hint="--exec") from error
    with client_of(context) as client:
        done = client.watch(question, exec=arguments, webhook=webhook, mcp=mcp)
    if printed_json(done, as_json):
        return
    click.echo(f"Watched as number {done['watch']['id']}. It finds now:")
    _print_state(done["now"])


@click.command()
@click.argument("number", required=False, type=WholeNumber(1))
@json_option
@click.pass_context
def watches(context: click.Context, number: int | None, as_json: bool) -> None:
    """List the watched questions, or show what changed of one.

    Example: hopsyncd watches 3
    """
    with client_of(context) as client:
        if number is None:
            listed = client.watches()
            if printed_json(listed, as_json):
                return
            for one in listed["watches"]:
                _print_watch(one)
            if not listed["watches"]:
                click.echo('No question is watched: `hopsyncd watch "..."` adds one.')
            return
        shown = client.watch_changes(number)
    if printed_json(shown, as_json):
        return
    _print_watch(shown["watch"])
    _print_state(shown["now"])
    for change in shown["changes"]:
        click.secho(
            f"\n{local_time(change['told'])}: version {change['old']} to {change['new']}", bold=True
        )
        for reason in change["why"]:
            click.echo(f"  {printable(reason)}")
        click.secho("  before", fg="cyan")
        _print_state(change["before"], "    ")
        click.secho("  after", fg="cyan")
        _print_state(change["after"], "    ")


@click.command()
@click.argument("number", type=WholeNumber(1))
@json_option
@click.pass_context
def unwatch(context: click.Context, number: int, as_json: bool) -> None:
    """Watch a question no more, and forget its changes.

    Example: hopsyncd unwatch 3
    """
    with client_of(context) as client:
        done = client.unwatch(number)
    if not printed_json(done, as_json):
        click.echo(f"Question {done['id']} is not watched any more.")


def _print_watch(one: Mapping[str, Any]) -> None:
    told = "".join(f" ({kind})" for kind in one["act"] or ())
    click.secho(f"{one['id']}. {printable(one['question'])}{told}", bold=True)
    last = f", the last {local_time(one['changed'])}" if one["changed"] else ""
    click.echo(
        f"   {counted(one['changes'], 'change')}{last}; compared up to version {one['checked']}"
    )
    if one["error"]:
        click.secho(f"   the last change was not told: {printable(one['error'])}", fg="yellow")


def _print_state(state: Mapping[str, Any] | None, indent: str = "  ") -> None:
    if state is None:
        click.echo(f"{indent}that version is not kept any more")
        return
    click.echo(f"{indent}{printable(state['answer'] or 'not found in your documents')}")
    for one in state["passages"]:
        click.echo(f"{indent}- {heading_text(one)} ({printable(one['document'] or '')})")
