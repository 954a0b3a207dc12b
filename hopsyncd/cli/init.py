"""`hopsyncd init`."""

from pathlib import Path

import click

from hopsyncd.config import config_path, write_config


@click.command()
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder to watch. Can be given several times.",
)
@click.pass_context
def init(context: click.Context, folders: tuple[Path, ...]) -> None:
    """Write a commented config.toml, ready to edit.

    Example: hopsyncd init --folder ~/notes --folder ~/papers
    """
    path = config_path(context.obj)
    write_config(path, folders)
    click.echo(f"Wrote {path}")
    if folders:
        click.echo(f"It watches {', '.join(str(folder.absolute()) for folder in folders)}.")
    else:
        click.echo(
            "It watches nothing yet: `hopsyncd add PATH` adds a [[source]], or write one as its end"
            " shows."
        )
    click.echo("Then start the daemon: hopsyncd serve")
