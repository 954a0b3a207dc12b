"""`hopsyncd token`: create, list and revoke the tokens for access over TCP."""

import re
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import click

from hopsyncd.api.tokens import LIMITED_ROLES, Role, Token, TokenFile, TokenUses
from hopsyncd.cli.output import json_option, print_json
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.config.privacy import create_own_folder
from hopsyncd.config.secret_file import write_secret
from hopsyncd.config.values import PERSON
from hopsyncd.display import format_relative_time
from hopsyncd.errors import ConfigError
from hopsyncd.printable import make_printable

_SPAN = re.compile(r"(?P<number>[1-9][0-9]{0,4})(?P<unit>[hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@click.group()
def token() -> None:
    """Create, list and revoke tokens for access over TCP."""


class _Expiry(click.ParamType[int | None]):
    """Converts a span such as 90d, a day, or "never" to Unix seconds or None."""

    name = "when"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> int | None:
        if value == "never":
            return None
        if match := _SPAN.fullmatch(value):
            return int(time.time() + int(match["number"]) * _UNITS[match["unit"]].total_seconds())
        try:
            end = datetime.combine(date.fromisoformat(value), datetime.min.time()).astimezone()
        except ValueError:
            why = f'{value!r} is not a span such as "90d", a day such as "2027-01-31", or "never".'
            self.fail(why, parameter, context)
        if end.timestamp() <= time.time():
            self.fail(f"{value} is in the past.", parameter, context)
        return int(end.timestamp())


def _check_names(_: click.Context, __: click.Parameter, value: Any) -> Any:
    for name in (value,) if isinstance(value, str) else value:
        if not PERSON.fullmatch(name):
            raise click.BadParameter(f"{name!r}: use letters, digits and . _ @ + -")
    return value


@token.command()
@click.option("--user", required=True, callback=_check_names, help="The user of the token.")
@click.option(
    "--role",
    type=click.Choice(get_args(Role)),
    default="read",
    show_default=True,
    help="The rights of the token.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    help="Limit the token to this source. Repeatable. Default: all that the user may see.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    callback=_check_names,
    help="Add the user to this group, to see the sources visible to the group. Repeatable.",
)
@click.option(
    "--expires",
    "expires_s",
    type=_Expiry(),
    metavar="WHEN",
    default="90d",
    show_default=True,
    help='When the token stops working: 90d, 12h, 2027-01-31 or "never".',
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the token to this new file, which only you can read, instead of printing it.",
)
@click.pass_context
def create(
    context: click.Context,
    user: str,
    role: Role,
    sources: Sequence[str],
    groups: Sequence[str],
    expires_s: int | None,
    out: Path | None,
) -> None:
    """Create a token, and print it. The token cannot be shown again.

    "metrics" may read metrics and health. "read" may search the sources that are open to all
    members or visible to the user. "write" may also write notes into mcp.inbox and watch questions.
    "admin" has the rights of the users in access.admins. "owner" may do everything except set
    programs for watches.

    Example: hopsyncd token create --user ann --source notes --expires 30d
    """
    config = load_config(context.obj)
    if sources and role not in LIMITED_ROLES:
        raise click.UsageError(f"The role {role} cannot be limited to sources.")
    _require_sources(config, sources)
    if out and out.exists():
        raise click.UsageError(f"{out} exists already.")
    create_own_folder(config.daemon.data_dir)
    created, text = TokenFile.from_config(config).add(user, role, expires_s, sources, groups)
    until = f"until {_format_day(expires_s)}" if expires_s else "without an expiry"
    click.echo(f"Token {created.id} for {user}, with the role {role}, {until}.", err=True)
    if out:
        try:
            write_secret(out, text)
        except OSError as error:
            TokenFile.from_config(config).remove(lambda token: token.id == created.id, created.id)
            raise ConfigError(
                f"Cannot write {out}", str(error.strerror).lower(), "Choose another file"
            ) from error
        click.echo(str(out))
    else:
        click.echo(text)
        click.echo("The token is not shown again.", err=True)
    if not config.access.listen:
        click.echo(
            'To use the token, set access.listen = "127.0.0.1:7717", and restart the daemon.',
            err=True,
        )


def _require_sources(config: Config, sources: Sequence[str]) -> None:
    from rapidfuzz import process

    names = [source.name for source in config.sources]
    for name in sources:
        if name not in names:
            nearest_name = process.extractOne(name, names, score_cutoff=60)
            hint = f" Did you mean {nearest_name[0]!r}?" if nearest_name else ""
            raise click.UsageError(f"No source is called {name!r}.{hint}")


@token.command("list")
@json_option
@click.pass_context
def list_(context: click.Context, as_json: bool) -> None:
    """List the tokens with their user, role, sources, expiry and last use.

    Example: hopsyncd token list
    """
    config = load_config(context.obj)
    last_uses = TokenUses.from_config(config).read()
    descriptions = [
        _describe(token, last_uses.get(token.id)) for token in TokenFile.from_config(config).read()
    ]
    if as_json:
        print_json({"tokens": descriptions})
        return
    if not descriptions:
        click.echo("There is no token. `hopsyncd token create --user NAME` makes one.")
    for row in descriptions:
        limited = f", only {', '.join(row['sources'])}" if row["sources"] else ""
        groups = f", of {', '.join(row['groups'])}" if row["groups"] else ""
        state = "expired" if row["expired"] else "expires"
        expires = f"{state} {row['expires'][:10]}" if row["expires"] else "does not expire"
        last = f"last used {format_relative_time(row['used'])}" if row["used"] else "never used"
        click.echo(make_printable(f"{row['id']}  {row['user']}: {row['role']}{limited}{groups}"))
        click.echo(f"          made {row['created'][:10]}, {expires}, {last}")


@token.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--user",
    default=None,
    help="Revoke all tokens of this user, and end the user's web sessions.",
)
@click.pass_context
def revoke(context: click.Context, ids: tuple[str, ...], user: str | None) -> None:
    """Revoke tokens by their id. A revoked token stops working at once.

    With --user, the user's sessions in a server's web interface also end.

    Example: hopsyncd token revoke 3f9c01aa
    """
    if bool(ids) == bool(user):
        raise click.UsageError("Give the ids that `hopsyncd token list` prints, or --user.")
    config = load_config(context.obj)
    file = TokenFile.from_config(config)
    if user and config.access.page:
        from hopsyncd.web.ended_sessions import EndedSessions

        EndedSessions.from_config(config).end(user)
        click.echo(f"Ended the web sessions of {user}.")
        removed = file.remove_all(lambda token: token.user == user)
    elif user:
        removed = file.remove(lambda token: token.user == user, f"of the user {user}")
    else:
        stored_ids = {token.id for token in file.read()}
        wrong_id = next((id for id in ids if id not in stored_ids), ids[0])
        revoked_ids = frozenset(ids) if stored_ids.issuperset(ids) else frozenset[str]()
        removed = file.remove(lambda token: token.id in revoked_ids, f"with the id {wrong_id}")
    for token in removed:
        click.echo(f"Revoked {token.id} of {token.user}.")


def _describe(token: Token, used_s: int | None) -> dict[str, Any]:
    """Describe a token in JSON, without its hash. `used_s` is when it was last used."""
    return {
        "id": token.id,
        "user": token.user,
        "role": token.role,
        "sources": token.sources and [*token.sources],
        "groups": [*token.groups],
        "created": _format_time(token.created_s),
        "expires": _format_time(token.expires_s),
        "expired": token.is_expired(time.time()),
        "used": _format_time(used_s),
    }


def _format_time(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def _format_day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).astimezone().date().isoformat()
