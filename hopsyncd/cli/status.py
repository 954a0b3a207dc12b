"""`hopsyncd status`."""

from collections.abc import Mapping
from typing import Any

import click

from hopsyncd.cli.shared import client_of, json_option, print_json, warn
from hopsyncd.wording import counted, printable

_SHOWN = 10  # documents that cannot be used


@click.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Say what is served, how the sources are, and what was spent.

    Example: hopsyncd status
    """
    with client_of(context) as client:
        now = client.status()
    if as_json:
        print_json(now)
        return
    click.echo(
        f"version {now['version']}: {counted(now['documents'], 'document')},"
        f" {counted(now['passages'], 'passage')}, {counted(now['edges'], 'edge')}"
        f" (budget {now['edge_budget']})"
    )
    # Whoever may not see every source is not told of the whole.
    if counters := now["counters"]:
        click.echo(
            f"questions made for {counted(counters['passages_generated'], 'passage')},"
            f" texts embedded: {counters['texts_embedded']:,},"
            f" queries answered: {counters['queries']:,}"
        )
    if now["database_bytes"] is not None:
        click.echo(f"database {now['database']} ({now['database_bytes'] / 1e6:.1f} MB)")
        _print_llm(now["llm"])
    _print_configuration(now["configuration"])
    if now["waiting"]:
        reasons = ", ".join(f"{why} {n:,}" for why, n in now["waiting"].items())
        total = sum(now["waiting"].values())
        click.echo(f"waiting for questions from the LLM: {counted(total, 'passage')} ({reasons})")
    if now["progress"]:
        share, total = now["progress"]["share"], now["progress"]["documents_total"]
        how_far = f"{share:.0%} of {counted(total, 'document')}" if total else "it is being listed"
        click.echo(f"indexing {now['progress']['source']}: {how_far}")
    for source in now["sources"]:
        _print_source(source)
    for reader in now["unavailable_readers"]:
        told = f"{printable(reader['why'])}. {printable(reader['hint'])}"
        click.secho(f"{reader['media_type']} cannot be read here: {told}", fg="yellow")
    if now["quarantined"]:
        click.echo(
            f"in quarantine, reading them was given up: {counted(now['quarantined'], 'content')}"
        )
    shown = now["problems"][:_SHOWN]
    for problem in shown:
        print_problem(problem)
    if (more := sum(one["problems"] for one in now["sources"]) - len(shown)) > 0:
        click.echo(f"  and {more:,} more: `hopsyncd sources NAME` lists those of a source")
    warn(now["degraded"])


def _print_configuration(configuration: Mapping[str, Any]) -> None:
    if refused := configuration["refused"]:
        click.secho(
            f"the configuration is refused, the old one holds: {printable(refused)}", fg="yellow"
        )
    if waiting := configuration["restart_needed"]:
        click.secho(f"waiting for the next start: {', '.join(waiting)}", fg="yellow")


def _print_llm(llm: Mapping[str, Any] | None) -> None:
    if llm is None:
        click.echo("nothing leaves this machine: no LLM endpoint is configured")
        return
    click.echo(
        f"LLM {llm['model']} at {llm['endpoint']}, which passages and questions are sent to;"
        f" today {_of(llm['calls_today'], llm['max_calls_per_day'])} calls,"
        f" {_of(llm['tokens_today'], llm['max_tokens_per_day'])} tokens"
    )
    if failure := llm["last_failure"]:
        message = printable(failure["message"])
        click.echo(f"  last failure ({failure['kind']}, {failure['at']}): {message}")
    if llm["ledger_problem"]:
        click.echo(f"  nothing is asked: {llm['ledger_problem']}")


def _of(spent: int, limit: int) -> str:
    return f"{spent} of {limit}" if limit else str(spent)


def _print_source(source: Mapping[str, Any]) -> None:
    state = click.style(source["state"], fg="green" if source["state"] == "ok" else "yellow")
    click.echo(
        f"{source['name']} ({source['kind']} {source['location']}): {state},"
        f" {counted(source['documents'], 'document')}, {source['problems']} with problems"
    )
    if source["problem"]:
        click.echo(f"  paused: {printable(source['problem'])}. {source['hint']}")
    if source["watch_problem"]:
        click.echo(f"  no file events: {source['watch_problem']}")


def print_problem(problem: Mapping[str, Any]) -> None:
    """A document that cannot be used, why, and what to do."""
    click.echo(
        f"  {problem['source']}: {printable(problem['document'])}:"
        f" {printable(problem['why'])}. {problem['hint']}"
    )
