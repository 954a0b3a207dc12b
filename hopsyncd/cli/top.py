"""`hopsyncd status` and `hopsyncd top`: the state of the daemon, printed once or live."""

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
from hopsyncd.cli.model_status import print_models, print_network_use
from hopsyncd.cli.output import json_option, make_client, print_if_json, verbose_option, warn
from hopsyncd.cli.terminal import echo_drawn, echo_line
from hopsyncd.client import Client
from hopsyncd.config.values import MEMBERS
from hopsyncd.display import (
    KEPT_CLOSED,
    LLM_FAILURES,
    TO_OPEN,
    format_duration,
    format_relative_time,
    pluralise,
)
from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table


_SHOWN = 10  # lines of each list in `status`
_GROUPED = 3  # documents with the same problem that are listed together
_EVERY_S = 1.0
_SAMPLES = 30  # the newest samples, from which rates are computed
_ENDPOINTS = 8
_OWN_REQUESTS = ("status", "stats", "jobs")
# Labels, by field of the status.
_LOAD = {"connections": "connections", "queue": "requests waiting", "refused": "refused"}


@click.command()
@verbose_option
@json_option
@click.pass_context
def status(context: click.Context, verbose: bool, as_json: bool) -> None:
    """Show what is indexed, the state of each source and LLM usage.

    Example: hopsyncd status
    """
    now = make_client(context).status()
    if print_if_json(now, as_json):
        return
    counts = f"{pluralise(now['documents'], 'document')}, {pluralise(now['passages'], 'passage')}"
    if verbose:
        counts += f", {pluralise(now['edges'], 'edge')} (at most {now['edge_budget']:,})"
    click.echo(f"version {now['version']} ({format_relative_time(now['created'])}): {counts}")
    # The daemon gives no totals to callers who may not see every source.
    if verbose and (counters := now["counters"]):
        click.echo(
            f"questions generated for {pluralise(counters['passages_generated'], 'passage')},"
            f" texts embedded: {counters['texts_embedded']:,},"
            f" queries answered: {counters['queries']:,}"
        )
    if now["database_bytes"] is not None:
        click.echo(f"database {now['database']} ({now['database_bytes'] / 1e6:.1f} MB)")
        print_network_use(now)
    elif host := now["models"]["llm_endpoint"]:
        click.echo(f"passages and questions are sent to the LLM at {make_printable(host)}")
    _print_role(now["store"], now["database"])
    _print_backups(now["backup"])
    _print_listening(now["listening"])
    _print_audit(now["audit"])
    _print_configuration(now["configuration"])
    _print_watch_problems(now["watch_problems"])
    if waiting := now["waiting"]:
        reasons = ", ".join(f"{LLM_FAILURES.get(why, why)} ({n:,})" for why, n in waiting.items())
        passages = pluralise(sum(waiting.values()), "passage")
        click.echo(f"{passages} waiting for the LLM to write questions: {reasons}")
    if progress := now["progress"]:
        share, total = progress["share"], progress["documents_total"]
        how_far = f"{share:.0%} of {pluralise(total, 'document')}" if total else "listing its files"
        work = "reading {} again" if progress.get("again") else "indexing {}"
        click.echo(f"{work.format(progress['source'])}: {how_far}")
    for source in now["sources"]:
        _print_source(source)
    for reader in now["unavailable_readers"]:
        reason = f"{make_printable(reader['why'])}. {make_printable(reader['hint'])}"
        click.secho(f"{reader['media_type']} cannot be read on this machine: {reason}", fg="yellow")
    _print_purges_and_quarantine(now)
    if now["skipped"]:
        parts = ", ".join(
            f"{make_printable(row['kind'])}"
            f" ({row['parts']:,} in {pluralise(row['documents'], 'document')})"
            for row in now["skipped"]
        )
        click.echo(f"left out by the readers: {parts} (`hopsyncd show FILE --skipped`)")
    print_problems(shown := now["problems"][:_SHOWN])
    if (more := sum(source["problems"] for source in now["sources"]) - len(shown)) > 0:
        click.echo(f"  and {more:,} more; `hopsyncd sources NAME` lists more problems")
    print_models(now["models"])
    warn(now["degraded"])


def _print_audit(audit: Mapping[str, Any]) -> None:
    """Print that requests are recorded, and how many of the records are missing."""
    if audit["enabled"]:
        recorded = "requests and their questions are" if audit["questions"] else "requests are"
        click.echo(
            f"{recorded} recorded for {pluralise(audit['keep_days'], 'day')}: `hopsyncd audit`"
        )
    if audit["problem"]:
        lost = pluralise(audit["lost"], "request")
        reason = make_printable(audit["problem"])
        click.secho(f"  {lost} could not be recorded in the audit log: {reason}", fg="yellow")


def _print_role(store: Mapping[str, Any], database: str) -> None:
    """Print whether this daemon writes a PostgreSQL database or follows another daemon."""
    if "://" not in database:
        return
    server = make_printable(database)
    if store["lost"]:
        click.secho(f"{server} cannot be reached; answers come from the local copy", fg="yellow")
    elif store["role"] == "writer":
        click.echo(f"this daemon is the writer of {server}")
    else:
        behind = (
            f"{pluralise(store['behind'], 'version')} behind" if store["behind"] else "up to date"
        )
        click.echo(f"this daemon follows {server}, where another daemon writes: {behind}")


def _print_backups(backup: Mapping[str, Any] | None) -> None:
    """Print when the newest backup was made, and why the last attempt failed."""
    if backup is None:
        return
    folder = make_printable(backup["folder"])
    newest = f"version {backup['version']}, {format_relative_time(backup['created'])}"
    following = format_relative_time(backup["next"]) if backup["next"] else "on request"
    click.echo(
        f"{pluralise(backup['kept'], 'backup')} in {folder}"
        f"{f': {newest}' if backup['kept'] else ''};"
        f" the next {'now' if following == 'just now' else following}"
    )
    if backup["error"]:
        click.secho(f"  the last backup failed: {make_printable(backup['error'])}", fg="yellow")


def _print_listening(listening: Mapping[str, Any] | None) -> None:
    if listening is None:
        return
    expires = listening["expires"]
    until = f" over TLS, with a certificate until {expires[:10]}" if expires else ""
    click.echo(f"listens on {listening['address']}{until}")
    if listening["problem"]:
        warn([f"the changed certificate is not used: {listening['problem']}"])


def _print_purges_and_quarantine(now: Mapping[str, Any]) -> None:
    if now["purging"]:
        click.echo(f"{pluralise(now['purging'], 'purge')} in progress")
    if now["quarantined"]:
        click.echo(
            f"in quarantine because reading took too long or crashed:"
            f" {pluralise(now['quarantined'], 'file')}"
        )


def _print_watch_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        click.secho(make_printable(problem), fg="yellow")


def _print_configuration(configuration: Mapping[str, Any]) -> None:
    if refused := configuration["refused"]:
        click.secho(
            "the new configuration has a mistake, so the old configuration is used:"
            f" {make_printable(refused)}",
            fg="yellow",
        )
    if waiting := configuration["restart_needed"]:
        click.secho(f"takes effect after a restart: {', '.join(waiting)}", fg="yellow")


def _print_source(source: Mapping[str, Any]) -> None:
    state = click.style(source["state"], fg="green" if source["state"] == "ok" else "yellow")
    words = {"problems": "with problems", "pinned": "restored (`hopsyncd release` unpins them)"}
    counts = "".join(f", {source[key]} {text}" for key, text in words.items() if source[key])
    counts += f", scanned {format_relative_time(source['scanned'])}"
    place = f"{source['name']} ({source['kind']} {source['location']})"
    click.echo(f"{place}: {state}, {pluralise(source['documents'], 'document')}{counts}")
    if source["problem"]:
        click.echo(f"  paused: {make_printable(source['problem'])}. {source['hint']}")
    _print_left_out(source["left_out"])
    _print_rights(source.get("rights"))
    if source["watch_problem"]:
        label = "file events" if source["watching"] else "no file events"
        click.echo(f"  {label}: {source['watch_problem']}")


def _print_rights(rights: Mapping[str, Any] | None) -> None:
    """Print who may see a source and its folders, unless all members may see all of it."""
    if rights and rights.get("kept_closed"):
        click.echo(f"  {KEPT_CLOSED}. {TO_OPEN}")
    if rights is None or (rights["visible_to"] == [MEMBERS] and not rights["paths"]):
        return
    click.echo(f"  visible to {', '.join(rights['visible_to'])}")
    for rule in rights["paths"]:
        click.echo(
            f"  {make_printable(rule['match'])}: visible to {', '.join(rule['visible_to'])}"
            f" ({pluralise(rule['documents'], 'document')})"
        )


def _print_left_out(left_out: Mapping[str, int]) -> None:
    """Print the counts of files and folders that a source skips, and how to include them."""
    suffixes, secrets = dict(left_out), {}
    hidden = suffixes.pop(HIDDEN_FOLDERS, 0)
    for kind in [kind for kind in suffixes if kind.startswith(SECRET)]:
        secrets[kind.removeprefix(SECRET)] = suffixes.pop(kind)
    if suffixes:
        click.echo(f"  files of types that are not included: {_format_counts(suffixes)}")
        named = [suffix for suffix in suffixes if suffix.startswith(".")]
        example = f"*{max(named, key=suffixes.__getitem__)}" if named else "*.csv"
        click.echo(
            "  to have a type read, add its pattern to the groups in `include`, as in"
            f' ["@text", ..., "{example}"]'
        )
    if secrets:
        click.echo(f"  left out because the name looks like a secret: {_format_counts(secrets)}")
        click.echo('  to have a file read, name it in `not_secret`, such as "token-guide.txt"')
    if hidden:
        click.echo(f"  hidden folders (names that begin with a dot) that are left out: {hidden:,}")
        click.echo('  to have a folder read, name it in `ignore` with "!", such as "!.github/"')


def _format_counts(counts: Mapping[str, int]) -> str:
    """Format the highest counts, each with its name: `12 .png, 3 .zip`."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {make_printable(name)}" for name, count in ordered[:_SHOWN])


def print_problems(problems: Sequence[Mapping[str, Any]]) -> None:
    """Print the documents that cannot be read, why, and what to do. Documents of a source with the
    same problem are listed together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        why = f"{make_printable(problem['why'])}. {problem['hint']}"
        groups.setdefault((problem["source"], why), []).append(make_printable(problem["document"]))
    for (source, why), documents in groups.items():
        if len(documents) < _GROUPED:
            for document in documents:
                click.echo(f"  {source}: {document}: {why}")
        else:
            click.echo(f"  {source}: {pluralise(len(documents), 'document')}: {why}")
            echo_line(", ".join(documents), indent="    ", hanging="    ")


@dataclass(frozen=True, slots=True)
class _Sample:
    """The daemon's state at one moment, `taken_s` on the monotonic clock."""

    taken_s: float
    status: Mapping[str, Any]
    stats: Mapping[str, Any]
    jobs: Mapping[str, Any]


@click.command()
@click.option("--once", is_flag=True, help="Print one frame after a second, then exit.")
@click.pass_context
def top(context: click.Context, once: bool) -> None:
    """Show the daemon's syncs, requests and sources live.

    The view refreshes every second. Press q or Ctrl-C to quit. Without a terminal, --once is
    implied.

    Example: hopsyncd top --once
    """
    with make_client(context) as client:
        samples = deque([_take_sample(client)], maxlen=_SAMPLES)
        if once or not sys.stdout.isatty():
            time.sleep(_EVERY_S)
            samples.append(_take_sample(client))
            echo_drawn(_render_frame(samples))
            return
        from rich.live import Live

        display = Live(_render_frame(samples), screen=True, auto_refresh=False)
        with suppress(KeyboardInterrupt), _unbuffered_keys(), display as live:
            while not _wait_for_quit(_EVERY_S):
                samples.append(_take_sample(client))
                live.update(_render_frame(samples), refresh=True)


def _take_sample(client: Client) -> _Sample:
    return _Sample(time.monotonic(), client.status(), client.stats(), client.jobs())


@contextmanager
def _unbuffered_keys() -> Iterator[None]:
    """Make the terminal deliver each key at once, without echo."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wait_for_quit(within_s: float) -> bool:
    """Wait up to `within_s` seconds for a key. Returns whether q was pressed."""
    if not sys.stdin.isatty():
        time.sleep(within_s)
        return False
    return bool(select.select([sys.stdin], [], [], within_s)[0]) and sys.stdin.read(1) == "q"


def _render_frame(samples: Sequence[_Sample]) -> "Group":
    from rich.console import Group
    from rich.text import Text

    now = samples[-1]
    status, stats = now.status, now.stats
    queries = _compute_rate(samples, lambda sample: sample.stats["queries"])
    load = [f"{stats[name]:,} {noun}" for name, noun in _LOAD.items() if name in stats]
    lines: list[RenderableType] = [
        Text(
            f"version {status['version']}: {pluralise(status['documents'], 'document')},"
            f" {pluralise(status['passages'], 'passage')}, {pluralise(status['edges'], 'edge')};"
            f" pid {status['pid']}, started {format_relative_time(status['started'])}"
        ),
        Text(
            ", ".join(
                [f"{_format_rate(queries)} queries/s", f"{stats['queries']:,} in total", *load]
            )
        ),
        Text(_describe_work(samples), "bold"),
    ]
    lines += [Text(f"note: {make_printable(why)}", "yellow") for why in status["degraded"]]
    return Group(
        *lines, Text(), _make_source_table(status["sources"]), Text(), _make_request_table(samples)
    )


def _describe_work(samples: Sequence[_Sample]) -> str:
    """Describe the current sync with its rate and remaining time, or the next job."""
    running = samples[-1].jobs["running"]
    if not running:
        planned = samples[-1].jobs["jobs"]
        if not planned:
            return "idle"
        return f"idle; next: {planned[0]['job']} {format_relative_time(planned[0]['next'])}"
    same_source = [sample for sample in samples if _get_source(sample) == running["source"]]
    total = running["documents_total"]
    text = f"syncing {running['source']}: {running['share']:.0%} of {pluralise(total, 'document')}"
    rate = _compute_rate(same_source, lambda sample: sample.jobs["running"]["share"] * total)
    if not rate:
        return text
    left_s = (1 - running["share"]) * total / rate
    return f"{text}, {rate:.1f} documents/s, {format_duration(left_s)} left"


def _get_source(sample: _Sample) -> str | None:
    running = sample.jobs["running"]
    return running["source"] if running else None


def _compute_rate(samples: Sequence[_Sample], count: Callable[[_Sample], float]) -> float | None:
    """Return how much a count grows per second, or None with fewer than two samples."""
    if len(samples) < 2:
        return None
    first, last = samples[0], samples[-1]
    return max(count(last) - count(first), 0.0) / (last.taken_s - first.taken_s)


def _format_rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}"


def _make_source_table(sources: Sequence[dict[str, Any]]) -> "Table":
    table = _make_table("source", "kind", "state", "documents", "problems", "scanned")
    for source in sources:
        table.add_row(
            make_printable(source["name"]),
            source["kind"],
            source["state"],
            f"{source['documents']:,}",
            f"{source['problems']:,}",
            format_relative_time(source["scanned"]),
            style=None if source["state"] == "ok" else "yellow",
        )
    return table


def _make_request_table(samples: Sequence[_Sample]) -> "Table":
    """Make a table of the most frequent requests, without the requests of `hopsyncd top`."""
    table = _make_table("request", "count", "per s", "errors", "p50 ms", "p95 ms")
    stats = samples[-1].stats["requests"]
    names = sorted(stats.keys() - set(_OWN_REQUESTS))
    for name in sorted(names, key=lambda name: -stats[name]["count"])[:_ENDPOINTS]:
        value = stats[name]
        rate = _compute_rate(samples, partial(_count, name))
        table.add_row(
            name,
            f"{value['count']:,}",
            _format_rate(rate),
            f"{value['errors']:,}",
            f"{value['p50_ms']:.1f}",
            f"{value['p95_ms']:.1f}",
        )
    return table


def _count(name: str, sample: _Sample) -> float:
    stats = sample.stats["requests"].get(name)
    return float(stats["count"]) if stats else 0.0


def _make_table(first: str, *others: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="left" if name in ("kind", "state", "scanned") else "right")
    return table
