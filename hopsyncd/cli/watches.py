"""`hopsyncd watch`, `watches` and `unwatch`: questions whose answers are watched for changes."""

import shlex
from collections.abc import Mapping
from typing import Any, cast

import click

from hopsyncd.cli.output import (
    WholeNumber,
    add_question_argument,
    confirm,
    format_heading,
    json_option,
    make_client,
    print_if_json,
)
from hopsyncd.client import Client
from hopsyncd.display import format_document_name, format_relative_time, pluralise, show_cells
from hopsyncd.errors import BadRequest
from hopsyncd.printable import make_printable


@click.command()
@add_question_argument
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
    with make_client(context) as client:
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
    with make_client(context) as client:
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
        answer = client.watch_changes(number)
    if print_if_json(answer, as_json):
        return
    _print_watch(answer["watch"])
    if answer["watch"]["unavailable"]:
        return
    _print_state(answer["now"])
    for change in answer["changes"]:
        _print_change(change)


def _print_change(change: Mapping[str, Any]) -> None:
    versions = f"version {change['old']} to {change['new']}"
    click.secho(f"\n{format_relative_time(change['told'])}: {versions}", bold=True)
    for reason in change["why"]:
        click.echo(f"  {make_printable(reason)}")
    before, after = change["before"], change["after"]
    is_same = bool(before and after) and before["answer"] == after["answer"]
    click.secho("  before", fg="cyan")
    _print_state(before, "    ", "the same answer, from other passages" if is_same else None)
    click.secho("  after", fg="cyan")
    _print_state(after, "    ")


def _allow(client: Client, number: int, yes: bool, as_json: bool) -> None:
    """Show the program or webhook that is off, ask for confirmation, and turn it on."""
    watch = client.watch_changes(number)["watch"]
    disabled = watch["disabled"] or {}
    kind, action = next(iter(disabled.items()), ("", cast(Any, True)))
    if action is True:
        raise BadRequest(
            f"Watch {number} cannot be turned on",
            "the watch has no program or webhook that is turned off",
            'To add a program or webhook, run `hopsyncd watch "..." --exec CMD` or --webhook URL',
        )
    if not yes:
        click.echo(f"At each change of the answer to: {make_printable(watch['question'])}")
        click.echo(f"  {_describe_action(kind, action)}")
        confirm(f"Turn on watch {number}?", f"Watch {number} stays off")
    if kind == "exec":
        answer = client.allow_watch(number, exec=action)
    else:
        answer = client.allow_watch(number, webhook=action)
    if not print_if_json(answer, as_json):
        click.echo(f"Watch {number} is on: {_describe_action(kind, action)}")


def _describe_action(kind: str, action: Any) -> str:
    if kind == "exec":
        return f"run {make_printable(shlex.join(action))}"
    return f"post to {make_printable(action)}"


@click.command()
@click.argument("number", type=WholeNumber(1))
@json_option
@click.pass_context
def unwatch(context: click.Context, number: int, as_json: bool) -> None:
    """Stop watching a question, and delete its changes.

    Example: hopsyncd unwatch 3
    """
    with make_client(context) as client:
        answer = client.unwatch(number)
    if not print_if_json(answer, as_json):
        click.echo(f"Stopped watching question {answer['id']}.")


def _print_watch(watch: Mapping[str, Any], *, with_user: bool = False) -> None:
    actions = "".join(f" ({kind})" for kind in watch["action"] or ())
    user = f" (of {make_printable(watch['user'])})" if with_user and watch["user"] else ""
    click.secho(f"{watch['id']}. {make_printable(watch['question'])}{actions}{user}", bold=True)
    if watch["unavailable"]:
        click.secho(f"   {make_printable(watch['unavailable'])}", fg="yellow")
        return
    last = f", the last one {format_relative_time(watch['changed'])}" if watch["changed"] else ""
    click.echo(
        f"   {pluralise(watch['changes'], 'change')}{last};"
        f" compared up to version {watch['checked']}"
    )
    if watch["error"]:
        click.secho(
            f"   the last change could not be delivered: {make_printable(watch['error'])}",
            fg="yellow",
        )
    for kind, act in (watch["disabled"] or {}).items():
        if act is True:
            kinds = {"exec": "program", "webhook": "webhook"}
            text = (
                f"the {kinds.get(kind, kind)} is unknown on this machine; watch the question again"
            )
        else:
            text = (
                f"off, because it came with the database: {_describe_action(kind, act)}."
                " Turn on with"
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
        click.echo(f"{indent}{make_printable(line)}")
    for passage in state["passages"]:
        place = (
            make_printable(format_document_name(passage)) if passage["document"] else "no document"
        )
        click.echo(f"{indent}- {format_heading(passage)} ({place})")
