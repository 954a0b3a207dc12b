"""`hopsyncd status` and `hopsyncd top`: the state of the daemon, once or live."""

import select
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from connectors.protocol import HIDDEN_FOLDERS, SECRET
from hopsyncd.cli.output import client_of, echo_drawn, json_option, local_time, printed_json, warn
from hopsyncd.client import Client
from hopsyncd.client.response import counted
from hopsyncd.printable import printable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table


_SHOWN = 10  # documents that cannot be used, in `status`
_EVERY_S = 1.0
_REMEMBERED = 30  # samples, over which rates are taken
_ENDPOINTS = 8
_OWN_REQUESTS = ("status", "stats", "jobs")
_LOAD = {"connections": "connections", "queue": "requests waiting", "refused": "refused"}


@click.command()
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show the served version, the state of the sources, and the LLM's usage.

    Example: hopsyncd status
    """
    now = client_of(context).status()
    if printed_json(now, as_json):
        return
    click.echo(
        f"version {now['version']}: {counted(now['documents'], 'document')},"
        f" {counted(now['passages'], 'passage')}, {counted(now['edges'], 'edge')}"
        f" (budget {now['edge_budget']})"
    )
    # A caller who may not see every source gets no totals.
    if counters := now["counters"]:
        click.echo(
            f"questions made for {counted(counters['passages_generated'], 'passage')},"
            f" texts embedded: {counters['texts_embedded']:,},"
            f" queries answered: {counters['queries']:,}"
        )
    if now["database_bytes"] is not None:
        click.echo(f"database {now['database']} ({now['database_bytes'] / 1e6:.1f} MB)")
        _print_sent(now["llm"], now["models"]["cluster"])
    _print_configuration(now["configuration"])
    _print_watch_problems(now["watch_problems"])
    if now["waiting"]:
        reasons = ", ".join(f"{why} {n:,}" for why, n in now["waiting"].items())
        total = sum(now["waiting"].values())
        click.echo(f"waiting for questions from the LLM: {counted(total, 'passage')} ({reasons})")
    if now["progress"]:
        share, total = now["progress"]["share"], now["progress"]["documents_total"]
        how_far = f"{share:.0%} of {counted(total, 'document')}" if total else "listing it"
        click.echo(f"indexing {now['progress']['source']}: {how_far}")
    for source in now["sources"]:
        _print_source(source)
    for reader in now["unavailable_readers"]:
        reason = f"{printable(reader['why'])}. {printable(reader['hint'])}"
        click.secho(f"{reader['media_type']} cannot be read here: {reason}", fg="yellow")
    _print_set_apart(now)
    if now["skipped"]:
        parts = ", ".join(
            f"{printable(one['kind'])}"
            f" ({one['parts']:,} in {counted(one['documents'], 'document')})"
            for one in now["skipped"]
        )
        click.echo(f"left out on purpose: {parts} (`hopsyncd show FILE --skipped`)")
    shown = now["problems"][:_SHOWN]
    for problem in shown:
        print_problem(problem)
    if (more := sum(one["problems"] for one in now["sources"]) - len(shown)) > 0:
        click.echo(f"  and {more:,} more: `hopsyncd sources NAME` lists those of a source")
    if preparing := now["models"]["preparing"]:
        click.echo(f"{preparing} is being made")
    if due := now["models"]["encoder_due"]:
        click.echo(f"a newer encoder is there, {due}: `hopsyncd rebuild --encoder` switches to it")
    warn(now["degraded"])


def _print_set_apart(now: Mapping[str, Any]) -> None:
    """What is being erased, and what is not read again."""
    if now["purging"]:
        click.echo(f"{counted(now['purging'], 'purge')} under way")
    if now["quarantined"]:
        click.echo(
            "in quarantine, as reading took too long or crashed:"
            f" {counted(now['quarantined'], 'content')}"
        )


def _print_watch_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        click.secho(printable(problem), fg="yellow")


def _print_configuration(configuration: Mapping[str, Any]) -> None:
    if refused := configuration["refused"]:
        click.secho(
            f"the configuration is refused; the old one stays in force: {printable(refused)}",
            fg="yellow",
        )
    if waiting := configuration["restart_needed"]:
        click.secho(f"these take effect at the next start: {', '.join(waiting)}", fg="yellow")


def _print_sent(llm: Mapping[str, Any] | None, cluster: str | None) -> None:
    """What leaves this machine."""
    if cluster:
        click.echo(f"passages of big imports are sent to the Ray cluster {printable(cluster)}")
    if llm is None:
        if not cluster:
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
        click.echo(f"  the LLM is not asked: {llm['ledger_problem']}")


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
    _print_left_out(source["left_out"])
    if source["watch_problem"]:
        label = "file events" if source["watching"] else "no file events"
        click.echo(f"  {label}: {source['watch_problem']}")


def _print_left_out(left_out: Mapping[str, int]) -> None:
    """Print the counts of files and folders that a source leaves out, and how to include them."""
    suffixes, secrets = dict(left_out), {}
    hidden = suffixes.pop(HIDDEN_FOLDERS, 0)
    for kind in [kind for kind in suffixes if kind.startswith(SECRET)]:
        secrets[kind.removeprefix(SECRET)] = suffixes.pop(kind)
    if suffixes:
        click.echo(f"  files of types that are not included: {_counts_text(suffixes)}")
        click.echo('  add a type\'s pattern to `include` to have it read, such as "*.csv"')
    if secrets:
        click.echo(f"  left out because the name looks like a secret: {_counts_text(secrets)}")
        click.echo('  name a file in `not_secret` to have it read, such as "token-guide.txt"')
    if hidden:
        click.echo(f"  hidden folders (names that begin with a dot) that are left out: {hidden:,}")
        click.echo('  name a folder in `include` to have it read, such as ".github/**"')


def _counts_text(counts: Mapping[str, int]) -> str:
    """The highest counts, each with its name: `12 .png, 3 .zip`."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {printable(name)}" for name, count in ordered[:_SHOWN])


def print_problem(problem: Mapping[str, Any]) -> None:
    """A document that cannot be used, why, and what to do."""
    click.echo(
        f"  {problem['source']}: {printable(problem['document'])}:"
        f" {printable(problem['why'])}. {problem['hint']}"
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """What the daemon reported at one moment of the steady clock."""

    at_s: float
    status: Mapping[str, Any]
    stats: Mapping[str, Any]
    jobs: Mapping[str, Any]


@click.command()
@click.option("--once", is_flag=True, help="Print one frame after a second, and exit.")
@click.pass_context
def top(context: click.Context, once: bool) -> None:
    """Watch what the daemon does: syncs, requests, sources.

    It refreshes every second; q or Ctrl-C ends it. Without a terminal it acts as with --once.

    Example: hopsyncd top --once
    """
    with client_of(context) as client:
        samples = deque([_sample(client)], maxlen=_REMEMBERED)
        if once or not sys.stdout.isatty():
            time.sleep(_EVERY_S)
            samples.append(_sample(client))
            echo_drawn(_frame(samples))
            return
        from rich.live import Live

        shown = Live(_frame(samples), screen=True, auto_refresh=False)
        with suppress(KeyboardInterrupt), _key_by_key(), shown as live:
            while not _quits(_EVERY_S):
                samples.append(_sample(client))
                live.update(_frame(samples), refresh=True)


def _sample(client: Client) -> _Sample:
    now_s = time.monotonic()
    return _Sample(now_s, client.status(), client.stats(), client.jobs())


@contextmanager
def _key_by_key() -> Iterator[None]:
    """Make the terminal pass on each key at once, without showing it."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _quits(within_s: float) -> bool:
    """Wait for a key; whether q was pressed."""
    if not sys.stdin.isatty():
        time.sleep(within_s)
        return False
    return bool(select.select([sys.stdin], [], [], within_s)[0]) and sys.stdin.read(1) == "q"


def _frame(samples: Sequence[_Sample]) -> "Group":
    from rich.console import Group
    from rich.text import Text

    now = samples[-1]
    status, stats = now.status, now.stats
    queries = _rate(samples, lambda one: one.stats["queries"])
    load = [f"{stats[name]:,} {what}" for name, what in _LOAD.items() if name in stats]
    lines: list[RenderableType] = [
        Text(
            f"version {status['version']}: {counted(status['documents'], 'document')},"
            f" {counted(status['passages'], 'passage')}, {counted(status['edges'], 'edge')};"
            f" pid {status['pid']}, up since {local_time(status['started'])}"
        ),
        Text(", ".join([f"{_shown(queries)} queries/s", f"{stats['queries']:,} in all", *load])),
        Text(_work(samples), "bold"),
    ]
    lines += [Text(f"note: {printable(why)}", "yellow") for why in status["degraded"]]
    return Group(*lines, Text(), _sources(status["sources"]), Text(), _requests(samples))


def _work(samples: Sequence[_Sample]) -> str:
    """The current sync with its rate and time left, or the next job."""
    running = samples[-1].jobs["running"]
    if not running:
        planned = samples[-1].jobs["jobs"]
        if not planned:
            return "idle"
        return f"idle; next: {planned[0]['job']} at {local_time(planned[0]['next'])}"
    of_this = [one for one in samples if _source(one) == running["source"]]
    total = running["documents_total"]
    text = f"syncing {running['source']}: {running['share']:.0%} of {counted(total, 'document')}"
    rate = _rate(of_this, lambda one: one.jobs["running"]["share"] * total)
    if not rate:
        return text
    left_s = (1 - running["share"]) * total / rate
    return f"{text}, {rate:.1f} documents/s, {_duration(left_s)} left"


def _source(sample: _Sample) -> str | None:
    running = sample.jobs["running"]
    return running["source"] if running else None


def _rate(samples: Sequence[_Sample], count: Callable[[_Sample], float]) -> float | None:
    """How fast a count grows, per second; None with a single sample."""
    if len(samples) < 2:
        return None
    first, last = samples[0], samples[-1]
    return max(count(last) - count(first), 0.0) / (last.at_s - first.at_s)


def _shown(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}"


def _duration(seconds: float) -> str:
    """
    >>> _duration(42), _duration(600), _duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _sources(sources: Sequence[dict[str, Any]]) -> "Table":
    table = _table("source", "kind", "state", "documents", "problems", "scanned")
    for one in sources:
        table.add_row(
            printable(one["name"]),
            one["kind"],
            one["state"],
            f"{one['documents']:,}",
            f"{one['problems']:,}",
            local_time(one["scanned"]),
            style=None if one["state"] == "ok" else "yellow",
        )
    return table


def _requests(samples: Sequence[_Sample]) -> "Table":
    """The most frequent requests, except those of this view itself."""
    table = _table("request", "count", "per s", "errors", "p50 ms", "p95 ms")
    stats = samples[-1].stats["requests"]
    names = sorted(stats.keys() - set(_OWN_REQUESTS))
    for name in sorted(names, key=lambda name: -stats[name]["count"])[:_ENDPOINTS]:
        one = stats[name]
        rate = _rate(samples, partial(_count, name))
        table.add_row(
            name,
            f"{one['count']:,}",
            _shown(rate),
            f"{one['errors']:,}",
            f"{one['p50_ms']:.1f}",
            f"{one['p95_ms']:.1f}",
        )
    return table


def _count(name: str, sample: _Sample) -> float:
    stats = sample.stats["requests"].get(name)
    return float(stats["count"]) if stats else 0.0


def _table(first: str, *others: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name in ("kind", "state", "scanned") else "right")
    return table
