"""`hopsyncd add`, `remove`, `pause` and `resume`."""

import click

from hopsyncd.cli.completion import complete_source
from hopsyncd.cli.reload import reload_if_running
from hopsyncd.cli.shared import client_of, json_option, print_json
from hopsyncd.config import config_path


@click.command()
@click.argument("place", metavar="PATH|URL")
@click.option("--name", help="What to call the source. Default: the last part of its place.")
@click.pass_context
def add(context: click.Context, place: str, name: str | None) -> None:
    """Add a source to the configuration: a folder, a git repository, a bucket.

    Its kind is told from the place. Comments and all else in the file stay as they are. A daemon
    that runs takes it up at once.

    Example: hopsyncd add https://example.org/project.git --name project
    """
    from hopsyncd.config_edit import add_source, recognised

    keys = recognised(place)
    file = config_path(context.obj)
    chosen = add_source(file, keys, name)
    took = reload_if_running(context.obj)
    click.echo(f'Added "{chosen}" ({keys["kind"]}) to {file}. {took}')


@click.command()
@click.argument("name", shell_complete=complete_source)
@click.pass_context
def remove(context: click.Context, name: str) -> None:
    """Take a source out of the configuration.

    The daemon leaves it alone from now on. What is indexed of it stays and is searched on: to drop
    that too, empty the source and sync it before.

    Example: hopsyncd remove project
    """
    from hopsyncd.config_edit import remove_source

    file = config_path(context.obj)
    remove_source(file, name)
    took = reload_if_running(context.obj)
    click.echo(f'Removed "{name}" from {file}. What is indexed of it stays. {took}')


@click.command()
@click.argument("name", shell_complete=complete_source)
@json_option
@click.pass_context
def pause(context: click.Context, name: str, as_json: bool) -> None:
    """Leave a source alone until `resume`, also over restarts. What is indexed of it is kept.

    Example: hopsyncd pause project
    """
    with client_of(context) as client:
        done = client.pause(name)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{name} is paused; what is indexed of it is served on.")


@click.command()
@click.argument("name", shell_complete=complete_source)
@json_option
@click.pass_context
def resume(context: click.Context, name: str, as_json: bool) -> None:
    """End a `pause`: the source is scanned at once.

    Example: hopsyncd resume project
    """
    with client_of(context) as client:
        done = client.resume(name)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{name} is resumed and is being scanned.")
