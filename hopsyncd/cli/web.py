"""`hopsyncd web`: the page in a browser."""

import webbrowser
from pathlib import Path
from tempfile import NamedTemporaryFile

import click

from hopsyncd.cli.output import client_of


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="The port on this machine. Default: one that is free.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.pass_context
def web(context: click.Context, port: int, no_browser: bool) -> None:
    """Show the page in a browser, until Ctrl-C.

    It listens on this machine alone. The address opens the page once, within ten minutes.

    Example: hopsyncd web
    """
    # Slow to import, and the other commands do without it.
    from hopsyncd.api.server import end_at_signals
    from hopsyncd.web.listener import Door, PageServer, page_socket
    from hopsyncd.web.pages import make_page

    client = client_of(context)
    client.health()  # tells here that there is no daemon
    with page_socket(port) as listener:
        door = Door(f"127.0.0.1:{listener.getsockname()[1]}")
        server = PageServer(make_page(client, door), listener)
        end_at_signals(server)
        address = door.new_address()
        click.echo(f"{address}\nCtrl-C stops it.")
        # A browser is told a file of ours: other users see what it is started with.
        with NamedTemporaryFile("w", suffix=".html") as file:
            if not no_browser:
                file.write(f'<meta http-equiv="refresh" content="0; url={address}">')
                file.flush()
                webbrowser.open(Path(file.name).as_uri())
            server.serve_here()
