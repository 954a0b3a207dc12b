"""`hopsyncd add`, `remove`, `pause` and `resume`."""

import click

from hopsyncd.cli.shared import client_of, json_option, print_json
from hopsyncd.config import config_path


@click.command()
@click.argument("place", metavar="PATH|URL")
@click.option("--name", help="What to call the source. Default: the last part of its place.")
@click.pass_context
def add(context: click.Context, place: str, name: str | None) -> None:
    """Add a source to the configuration: a folder, a git repository, a bucket.

    Its kind is told from the place. Comments and all else in the file stay as they are. The daemon
    takes it up when it starts again.
    """
    from hopsyncd.config_edit import add_source, recognised

    keys = recognised(place)
    file = config_path(context.obj)
    chosen = add_source(file, keys, name)
    click.echo(f'Added "{chosen}" ({keys["kind"]}) to {file}. The daemon takes it up on restart.')


@click.command()
@click.argument("name")
@click.pass_context
def remove(context: click.Context, name: str) -> None:
    """Take a source out of the configuration.

    The daemon leaves it alone from its next start. What is indexed of it stays and is searched on:
    to drop that too, empty the source and sync it before.
    """
    from hopsyncd.config_edit import remove_source

    file = config_path(context.obj)
    remove_source(file, name)
    click.echo(f'Removed "{name}" from {file}. What is indexed of it stays.')


@click.command()
@click.argument("name")
@json_option
@click.pass_context
def pause(context: click.Context, name: str, as_json: bool) -> None:
    """Leave a source alone until `resume`, also over restarts. What is indexed of it is kept."""
    with client_of(context) as client:
        done = client.post("/v1/pause", {"name": name})
    if as_json:
        print_json(done)
    else:
        click.echo(f"{name} is paused; what is indexed of it is served on.")


@click.command()
@click.argument("name")
@json_option
@click.pass_context
def resume(context: click.Context, name: str, as_json: bool) -> None:
    """End a `pause`: the source is scanned at once."""
    with client_of(context) as client:
        done = client.post("/v1/resume", {"name": name})
    if as_json:
        print_json(done)
    else:
        click.echo(f"{name} is resumed and is being scanned.")
