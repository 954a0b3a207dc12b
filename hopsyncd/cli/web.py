"""`hopsyncd web`: the page in a browser."""

import webbrowser
from pathlib import Path
from tempfile import NamedTemporaryFile

import click

from hopsyncd.cli.output import client_of
from hopsyncd.config.configuration import load_config

_HOST = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=None,
    help="A page of its own on this port of this machine; 0 is one that is free.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.pass_context
def web(context: click.Context, port: int | None, no_browser: bool) -> None:
    """Show the page in a browser: the one that the daemon keeps up, or its own, until Ctrl-C.

    It listens on this machine alone. The address opens the page once.

    Example: hopsyncd web
    """
    # Slow to import, and the other commands do without it.
    from hopsyncd.api.server import bound_address, loopback_server
    from hopsyncd.web.listener import KEPT_NAME, Door, kept_address, opener
    from hopsyncd.web.pages import make_page

    client = client_of(context)
    client.health()  # tells here that there is no daemon
    config = load_config(context.obj)
    kept = config.daemon.data_dir / KEPT_NAME
    if port is None and (address := kept_address(kept)):
        click.echo(address)
        if not no_browser:
            webbrowser.open(kept.as_uri())
        return
    with bound_address(_HOST, port or 0, "Take another port, or leave it out") as listener:
        listener.listen()  # the browser may come before we serve
        door = Door(f"{_HOST}:{listener.getsockname()[1]}")
        server = loopback_server(make_page(client, door), config.limits)
        address = door.new_address()
        click.echo(f"{address}\nCtrl-C stops it.")
        with NamedTemporaryFile("w", suffix=".html") as file:
            if not no_browser:
                file.write(opener(address))
                file.flush()
                webbrowser.open(Path(file.name).as_uri())
            server.run(sockets=[listener])
