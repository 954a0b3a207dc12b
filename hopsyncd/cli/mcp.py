"""`hopsyncd mcp`: the daemon's answers for agents."""

import sys

import click

from hopsyncd.cli.shared import client_of


@click.command()
@click.option(
    "--allow-write",
    is_flag=True,
    help="Offer the tools `sync` and `tag` too. Without it nothing can be changed.",
)
@click.pass_context
def mcp(context: click.Context, allow_write: bool) -> None:
    """Speak MCP with an agent, on standard input and output.

    An agent's client starts this command. It speaks to the running daemon and never starts one.

    Example: claude mcp add hopsyncd -- hopsyncd mcp
    """
    from hopsyncd.mcp.server import make_server

    if sys.stdin.isatty():
        click.echo("Waiting for an MCP client on standard input. docs/mcp.md has more.", err=True)
    with client_of(context) as client:
        make_server(client, allow_write).run()
