"""The part of `hopsyncd status` about models: their hosts, their use and their failures."""

from collections.abc import Mapping
from typing import Any

import click

from hopsyncd.cli.output import warn
from hopsyncd.display import LLM_FAILURES, format_duration, format_relative_time, pluralise
from hopsyncd.printable import make_printable


def print_models(models: Mapping[str, Any]) -> None:
    if preparing := models["preparing"]:
        click.echo(f"preparing {preparing}")
    if switch := models["switch"]:
        _print_switch(switch)
    if newer := models["encoder_due"]:
        click.echo(f"a newer encoder is available: {newer}; `hopsyncd rebuild --encoder` uses it")


def _print_switch(switch: Mapping[str, Any]) -> None:
    time_left = "" if switch["left_s"] is None else f", {format_duration(switch['left_s'])} left"
    click.echo(
        f"switching to {make_printable(switch['encoder'])}: {switch['passages_done']:,} of"
        f" {pluralise(switch['passages_total'], 'passage')} ready{time_left}; until then the former"
        " models answer"
    )
    if switch["problem"]:
        warn([switch["problem"]])


def _print_encoder_use(encoder: Mapping[str, Any]) -> None:
    """Print to which host the text of all passages is sent for embedding."""
    limit = _format_usage(encoder["tokens_today"], encoder["max_tokens_per_day"])
    click.echo(
        "every passage and every question is sent to the encoder"
        f" {make_printable(encoder['model'])} at {make_printable(encoder['endpoint'])};"
        f" today {limit} tokens"
    )
    if encoder["failure"]:
        since = format_relative_time(encoder["failing_since"])
        click.secho(
            f"  the encoder has returned no vectors since {since}:"
            f" {make_printable(encoder['failure'])}",
            fg="yellow",
        )
    if encoder["ledger_problem"]:
        click.echo(f"  the encoder is not used: {make_printable(encoder['ledger_problem'])}")


def _print_reranker_use(reranker: Mapping[str, Any]) -> None:
    """Print to which host passages are sent for reranking."""
    limit = _format_usage(reranker["tokens_today"], reranker["max_tokens_per_day"])
    name = f" {make_printable(reranker['model'])}" if reranker["model"] else ""
    click.echo(
        f"questions that use the reranker{name}, and the passages found for them, are sent to"
        f" {make_printable(reranker['endpoint'])}; today {limit} tokens"
    )
    if failure := reranker["failure"] or reranker["ledger_problem"]:
        click.secho(f"  passages are not reranked: {make_printable(failure)}", fg="yellow")


def print_network_use(now: Mapping[str, Any]) -> None:
    """Print which text is sent to other machines."""
    llm, models = now["llm"], now["models"]
    encoder, reranker = models["encoder_endpoint"], models["reranker_endpoint"]
    if encoder:
        _print_encoder_use(encoder)
    if reranker:
        _print_reranker_use(reranker)
    if cluster := models["cluster"]:
        click.echo(f"passages of big imports are sent to the Ray cluster {make_printable(cluster)}")
    if llm is None:
        if not (cluster or encoder or reranker or "://" in now["database"]):
            click.echo("no LLM is configured: no passage or question leaves this machine")
        return
    click.echo(
        f"passages and questions are sent to the LLM {llm['model']} at {llm['endpoint']};"
        f" today {_format_usage(llm['calls_today'], llm['max_calls_per_day'])} calls,"
        f" {_format_usage(llm['tokens_today'], llm['max_tokens_per_day'])} tokens"
    )
    if failure := llm["last_failure"]:
        kind, message = failure["kind"], make_printable(failure["message"])
        kind, when = LLM_FAILURES.get(kind, kind), format_relative_time(failure["at"])
        click.echo(f"  last failure ({kind}, {when}): {message}")
    if llm["ledger_problem"]:
        click.echo(f"  the LLM is not used: {llm['ledger_problem']}")


def _format_usage(used: int, limit: int) -> str:
    return f"{used} of {limit}" if limit else str(used)
