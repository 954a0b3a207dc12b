"""`hopsyncd token`: the tokens that open the daemon's TCP address."""

from typing import get_args

import click

from hopsyncd.api.tokens import Role
from hopsyncd.config.configuration import load_config
from hopsyncd.config.privacy import own_folder


@click.command()
@click.argument("role", type=click.Choice(get_args(Role)))
@click.option("--renew", is_flag=True, help="Replace the token; the old one is refused at once.")
@click.option("--revoke", is_flag=True, help="Delete the token; it is refused at once.")
@click.pass_context
def token(context: click.Context, role: Role, renew: bool, revoke: bool) -> None:
    """Print the path of a role's token file. The file is created if it is missing.

    "metrics" can read metrics and health. "read" can also search the sources open to all members.
    "admin" has the rights of the users in access.admins. "owner" can do everything.

    Programs send the token to the address access.tcp as "Authorization: Bearer TOKEN". Only your
    user can read the file.

    Example: hopsyncd token metrics
    """
    from hopsyncd.api.tokens import revoke_token, token_file, token_in

    config = load_config(context.obj)
    file = token_file(config, role)
    if renew and revoke:
        raise click.UsageError("Give --renew or --revoke, not both.")
    if revoke:
        revoke_token(file)
        click.echo(f"Revoked the token of the role {role}.")
        return
    own_folder(config.daemon.data_dir)
    token_in(file, renew=renew)
    click.echo(str(file))
    if not config.access.tcp:
        click.echo('To use it, set access.tcp = "127.0.0.1:7717" and reload.', err=True)
