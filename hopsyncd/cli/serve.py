"""`hopsyncd serve`."""

import click

from hopsyncd.config import load_config


@click.command()
@click.pass_context
def serve(context: click.Context) -> None:
    """Run the daemon in the foreground. SIGTERM or Ctrl-C stops it."""
    config = load_config(context.obj)
    # The models' libraries take seconds to import; the other commands do without them.
    from hopsyncd.daemon import run

    run(config)
