"""`hopsyncd serve`."""

import click

from hopsyncd.config import load_config
from hopsyncd.early import import_torch_meanwhile


@click.command()
@click.pass_context
def serve(context: click.Context) -> None:
    """Run the daemon in the foreground. SIGTERM or Ctrl-C stops it, SIGHUP reloads its config.

    Example: hopsyncd serve
    """
    config = load_config(context.obj)
    import_torch_meanwhile()
    # Takes long to import too; the other commands do without it.
    from hopsyncd.daemon import run

    run(config, config_file=context.obj)
