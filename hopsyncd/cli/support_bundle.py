"""`hopsyncd support-bundle`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from hopsyncd.errors import BadRequest


@click.command("support-bundle")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.pass_context
def support_bundle(context: click.Context, file: Path | None) -> None:
    """Write a file about this installation for a bug report.

    The file has versions, configuration, status, findings of `doctor`, metrics, counts and the end
    of the log. It has no text, title, path or name of your documents and sources, no question and
    no key. Read the file before you send it.

    Example: hopsyncd support-bundle
    """
    from hopsyncd.doctor.support_bundle import write_bundle

    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    path = file or Path(f"hopsyncd-support-{now}.tar.gz")
    try:
        names = write_bundle(path, context.obj)
    except OSError as error:
        raise BadRequest(
            f"Cannot write {path}",
            (error.strerror or str(error)).lower(),
            "Name another file: `hopsyncd support-bundle FILE`",
        ) from error
    click.echo(f"Wrote {path}: {', '.join(names)}.")
