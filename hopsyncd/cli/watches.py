"""`hopsyncd watch`, `watches` and `unwatch`: questions whose changes are told."""

import shlex
from collections.abc import Mapping
from typing import Any, cast

import click

from hopsyncd.cli.output import (
    WholeNumber,
    client_of,
    confirm,
    heading_text,
    json_option,
    local_time,
    printed_json,
)
from hopsyncd.client import Client
from hopsyncd.client.response import counted
from hopsyncd.errors import BadRequest
from hopsyncd.printable import printable


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
    """Watch a question, and record when its answer changes.

    The daemon asks it again after each version that can change its answer. A change is another
    answer, or other passages among the first five. `watches` shows each change.

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
@click.option("--allow", is_flag=True, help="Turn on the program or webhook that is off.")
@click.option("--yes", is_flag=True, help="With --allow: do not ask.")
@json_option
@click.pass_context
def watches(
    context: click.Context, number: int | None, allow: bool, yes: bool, as_json: bool
) -> None:
    """List the watched questions, or show what changed of one.

    A program or webhook that came with a copied, restored or older record is off. With --allow you
    see it, and turn it on.

    Example: hopsyncd watches 3
    """
    if allow and number is None:
        raise click.UsageError("--allow needs the number of a watched question")
    with client_of(context) as client:
        if allow and number is not None:
            _allow(client, number, yes, as_json)
            return
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


def _allow(client: Client, number: int, yes: bool, as_json: bool) -> None:
    """Show what is off, ask, and turn on exactly that."""
    shown = client.watch_changes(number)["watch"]
    off = shown["off"] or {}
    kind, what = next(iter(off.items()), ("", cast(Any, True)))
    if what is True:
        raise BadRequest(
            f"Watch {number} cannot be turned on",
            "it has no program or webhook that is off",
            'Watch the question anew: `hopsyncd watch "..." --exec CMD`, or with --webhook URL',
        )
    if not yes:
        click.echo(f"At each change of: {printable(shown['question'])}")
        click.echo(f"  {_action_text(kind, what)}")
        confirm("Turn it on?", "It stays off")
    if kind == "exec":
        done = client.allow_watch(number, exec=what)
    else:
        done = client.allow_watch(number, webhook=what)
    if not printed_json(done, as_json):
        click.echo(f"Watch {number} is on: {_action_text(kind, what)}")


def _action_text(kind: str, what: Any) -> str:
    if kind == "exec":
        return f"run {printable(shlex.join(what))}"
    return f"post to {printable(what)}"


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
    for kind, what in (one["off"] or {}).items():
        if what is True:
            kinds = {"exec": "program", "webhook": "webhook"}
            text = f"its {kinds.get(kind, kind)} is not known on this machine; watch it anew"
        else:
            text = (
                f"off, as it came with the record: {_action_text(kind, what)}; turn it on with"
                f" `hopsyncd watches {one['id']} --allow`"
            )
        click.secho(f"   {text}", fg="yellow")


def _print_state(state: Mapping[str, Any] | None, indent: str = "  ") -> None:
    if state is None:
        click.echo(f"{indent}that version is not kept any more")
        return
    click.echo(f"{indent}{printable(state['answer'] or 'not found in your documents')}")
    for one in state["passages"]:
        click.echo(f"{indent}- {heading_text(one)} ({printable(one['document'] or '')})")
