"""`hopsyncd recover`."""

from contextlib import closing

import click

from hopsyncd.cli.output import confirm
from hopsyncd.client.response import counted, printable
from hopsyncd.config.configuration import DATABASE_NAME, load_config


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def recover(context: click.Context, yes: bool) -> None:
    """Go on from a database that lacks what was acknowledged.

    For a database whose log was lost or damaged, or that a backup took the place of: the daemon
    does not start with it by itself. Stop the daemon first. What is lost stays lost: versions, and
    tags, purges and pauses since; their numbers are not used again. The documents as they are now
    come back with the next scans, which also index again what was purged since.

    Example: hopsyncd recover
    """
    # Imports numpy; most commands do without it.
    from store.sqlite.check import check
    from store.sqlite.database import lost_from, open_writer, writer_place
    from store.sqlite.versions import head

    database = load_config(context.obj).daemon.data_dir / DATABASE_NAME
    with writer_place(database):
        why = lost_from(database)
        if why is None:
            click.echo(f"{database} has all that was acknowledged; nothing was changed.")
            return
        click.echo(f"{database}: {why}.")
        if not yes:
            confirm("Go on from what is there, for good?", "Nothing was recovered")
        with closing(open_writer(database, accept_loss=True)) as connection:
            newest = head(connection)
            found = check(connection, deep=True)
    click.echo(f"The newest version is {newest.id if newest else 0}; `hopsyncd serve` goes on.")
    for one in found:
        click.echo(f"{one.invariant}: {printable(one.where)}: {printable(one.detail)}")
    if found:
        click.echo(f"{counted(len(found), 'thing')} in it are wrong: restore a backup instead.")
        context.exit(1)
