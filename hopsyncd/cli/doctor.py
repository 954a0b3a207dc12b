"""`hopsyncd doctor`."""

from dataclasses import asdict

import click

from hopsyncd.cli.shared import json_option, print_json
from hopsyncd.wording import printable

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Check whether hopsyncd can work here, and what to do if not.

    Works with or without a daemon, changes nothing, and sends no text anywhere. Exit status 1 if
    something fails.

    Example: hopsyncd doctor
    """
    from hopsyncd.doctor.examine import examine

    found = []
    for one in examine(context.obj):
        found.append(one)
        if not as_json:
            click.secho(f"{one.level:4} ", fg=_COLOURS[one.level], nl=False)
            click.echo(f"{printable(one.check)}: {printable(one.detail)}")
            if one.remedy:
                click.echo(f"     {printable(one.remedy)}")
    failed = any(one.level == "fail" for one in found)
    if as_json:
        print_json({"healthy": not failed, "findings": [asdict(one) for one in found]})
    if failed:
        context.exit(1)
