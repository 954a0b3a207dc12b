"""`hopsyncd watch`, `watches` and `unwatch`: questions whose answers are watched for changes."""

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
    print_if_json,
    question_argument,
)
from hopsyncd.client import Client
from hopsyncd.display import document_name, plural, relative_time, show_cells
from hopsyncd.errors import BadRequest
from hopsyncd.printable import printable


@click.command()
@question_argument
@click.option(
    "--exec",
    "program",
    metavar="CMD",
    help="Run this program at each change, without a shell. The program gets the change as JSON"
    " on standard input.",
)
@click.option(
    "--webhook", metavar="URL", help="POST each change to this http address on this machine."
)
@click.option("--mcp", is_flag=True, help="Notify the agents that `hopsyncd mcp` serves.")
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
    """Watch a question, and report when its answer changes.

    A change is a different answer, or different passages among the first five. `watches` shows the
    changes.

    Example: hopsyncd watch "Who maintains the billing service?" --exec ~/bin/tell-me
    """
    try:
        arguments = shlex.split(program or "")
    except ValueError as error:
        why = f"{program} is not a valid command line: {str(error).lower()}"
        raise click.BadParameter(why, param_hint="--exec") from error
    with client_of(context) as client:
        answer = client.watch(question, exec=arguments, webhook=webhook, mcp=mcp)
    if print_if_json(answer, as_json):
        return
    click.echo(f"Watching the question as number {answer['watch']['id']}. The current answer:")
    _print_state(answer["now"])


@click.command()
@click.argument("number", required=False, type=WholeNumber(1))
@click.option("--allow", is_flag=True, help="Turn on the question's program or webhook.")
@click.option("--yes", is_flag=True, help="With --allow: skip the confirmation.")
@json_option
@click.pass_context
def watches(
    context: click.Context, number: int | None, allow: bool, yes: bool, as_json: bool
) -> None:
    """List your watched questions, or show a question's changes. Admins see all users' questions.

    A program or webhook that came with a copied or restored database is turned off. --allow shows
    it, asks for confirmation, and turns it on.

    Example: hopsyncd watches 3
    """
    if allow and number is None:
        raise click.UsageError("--allow needs the number of a watched question.")
    with client_of(context) as client:
        if allow and number is not None:
            _allow(client, number, yes, as_json)
            return
        if number is None:
            listed = client.watches()
            if print_if_json(listed, as_json):
                return
            by_others = len({watch["user"] for watch in listed["watches"]}) > 1
            for watch in listed["watches"]:
                _print_watch(watch, with_user=by_others)
            if not listed["watches"]:
                click.echo('You are not watching any questions. `hopsyncd watch "..."` adds one.')
            return
        shown = client.watch_changes(number)
    if print_if_json(shown, as_json):
        return
    _print_watch(shown["watch"])
    if shown["watch"]["unavailable"]:
        return
    _print_state(shown["now"])
    for change in shown["changes"]:
        _print_change(change)


def _print_change(change: Mapping[str, Any]) -> None:
    versions = f"version {change['old']} to {change['new']}"
    click.secho(f"\n{relative_time(change['told'])}: {versions}", bold=True)
    for reason in change["why"]:
        click.echo(f"  {printable(reason)}")
    before, after = change["before"], change["after"]
    is_same = bool(before and after) and before["answer"] == after["answer"]
    click.secho("  before", fg="cyan")
    _print_state(before, "    ", "the same answer, from other passages" if is_same else None)
    click.secho("  after", fg="cyan")
    _print_state(after, "    ")


def _allow(client: Client, number: int, yes: bool, as_json: bool) -> None:
    """Show the program or webhook that is off, ask for confirmation, and turn it on."""
    shown = client.watch_changes(number)["watch"]
    disabled = shown["disabled"] or {}
    kind, action = next(iter(disabled.items()), ("", cast(Any, True)))
    if action is True:
        raise BadRequest(
            f"Watch {number} cannot be turned on",
            "the watch has no program or webhook that is turned off",
            'To add a program or webhook, run `hopsyncd watch "..." --exec CMD` or --webhook URL',
        )
    if not yes:
        click.echo(f"At each change of the answer to: {printable(shown['question'])}")
        click.echo(f"  {_action_text(kind, action)}")
        confirm(f"Turn on watch {number}?", f"Watch {number} stays off")
    if kind == "exec":
        answer = client.allow_watch(number, exec=action)
    else:
        answer = client.allow_watch(number, webhook=action)
    if not print_if_json(answer, as_json):
        click.echo(f"Watch {number} is on: {_action_text(kind, action)}")


def _action_text(kind: str, action: Any) -> str:
    if kind == "exec":
        return f"run {printable(shlex.join(action))}"
    return f"post to {printable(action)}"


@click.command()
@click.argument("number", type=WholeNumber(1))
@json_option
@click.pass_context
def unwatch(context: click.Context, number: int, as_json: bool) -> None:
    """Stop watching a question, and delete its changes.

    Example: hopsyncd unwatch 3
    """
    with client_of(context) as client:
        answer = client.unwatch(number)
    if not print_if_json(answer, as_json):
        click.echo(f"Stopped watching question {answer['id']}.")


def _print_watch(watch: Mapping[str, Any], *, with_user: bool = False) -> None:
    actions = "".join(f" ({kind})" for kind in watch["action"] or ())
    user = f" (of {printable(watch['user'])})" if with_user and watch["user"] else ""
    click.secho(f"{watch['id']}. {printable(watch['question'])}{actions}{user}", bold=True)
    if watch["unavailable"]:
        click.secho(f"   {printable(watch['unavailable'])}", fg="yellow")
        return
    last = f", the last one {relative_time(watch['changed'])}" if watch["changed"] else ""
    click.echo(
        f"   {plural(watch['changes'], 'change')}{last}; compared up to version {watch['checked']}"
    )
    if watch["error"]:
        click.secho(
            f"   the last change could not be delivered: {printable(watch['error'])}", fg="yellow"
        )
    for kind, act in (watch["disabled"] or {}).items():
        if act is True:
            kinds = {"exec": "program", "webhook": "webhook"}
            text = (
                f"the {kinds.get(kind, kind)} is unknown on this machine; watch the question again"
            )
        else:
            text = (
                f"off, because it came with the database: {_action_text(kind, act)}. Turn on with"
                f" `hopsyncd watches {watch['id']} --allow`"
            )
        click.secho(f"   {text}", fg="yellow")


def _print_state(
    state: Mapping[str, Any] | None, indent: str = "  ", instead: str | None = None
) -> None:
    """Print an answer and its first passages. `instead` is printed instead of the answer."""
    if state is None:
        click.echo(f"{indent}that version is no longer stored")
        return
    answer = instead or state["answer"] or "not found in your documents"
    for line in show_cells(answer).splitlines():
        click.echo(f"{indent}{printable(line)}")
    for passage in state["passages"]:
        place = printable(document_name(passage)) if passage["document"] else "no document"
        click.echo(f"{indent}- {heading_text(passage)} ({place})")
