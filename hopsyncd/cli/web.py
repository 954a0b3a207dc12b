"""`hopsyncd web`: opens the web interface in a browser."""

import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import click

from hopsyncd.cli.output import make_client
from hopsyncd.client import Client
from hopsyncd.config.configuration import load_config
from hopsyncd.config.values import LimitsConfig

_HOST = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=None,
    help="Serve a separate web interface on this port; 0 chooses a free port.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.pass_context
def web(context: click.Context, port: int | None, no_browser: bool) -> None:
    """Open the web interface in a browser.

    If web.listen is set, the daemon serves the web interface. Otherwise this command serves it
    until Ctrl-C, on this machine only. The printed address works once. With --server, the web
    interface shows the server's documents.

    Example: hopsyncd web
    """
    from hopsyncd.web.listener import KEPT_NAME, read_kept_address  # slow to import

    client = make_client(context)
    client.health()  # fails now if there is no daemon
    config = load_config(context.obj)
    if client.is_remote:
        port = port or 0
    address_file = config.daemon.data_dir / KEPT_NAME
    if port is None and (address := read_kept_address(address_file)):
        click.echo(address)
        if not no_browser:
            webbrowser.open(address_file.as_uri())
        return
    with open_page(client, config.limits, context.obj, port or 0, no_browser) as serve:
        serve()


@contextmanager
def open_page(
    client: Client, limits: LimitsConfig, config_file: Path | None, port: int, no_browser: bool
) -> Iterator[Callable[[], None]]:
    """Prepare a separate web interface, print its address, and open the address in a browser.

    Yields a function that serves the web interface until Ctrl-C.
    """
    from hopsyncd.api.server import bind_address, make_loopback_server
    from hopsyncd.web.listener import Door, make_opener
    from hopsyncd.web.pages import make_page

    with bind_address(_HOST, port, "Choose another port, or leave out --port") as listener:
        listener.listen()  # the browser may connect before we serve
        door = Door(f"{_HOST}:{listener.getsockname()[1]}")
        page = make_page(client, door, lambda: server.should_exit, config_file)
        server = make_loopback_server(page, limits)
        address = door.create_address()
        click.echo(f"{address}\nCtrl-C stops it.")
        with NamedTemporaryFile("w", suffix=".html") as file:
            if not no_browser:
                file.write(make_opener(address))
                file.flush()
                webbrowser.open(Path(file.name).as_uri())
            yield lambda: server.run(sockets=[listener])
