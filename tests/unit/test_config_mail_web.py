"""`[[source]]` of mail and of the web: what they become, and which mistakes are told."""

import mailbox
from pathlib import Path

import pytest

from connectors.mail.imap import ImapConnector
from connectors.mail.maildir import MaildirConnector
from connectors.mail.mbox import MboxConnector
from connectors.protocol import Connector, Item
from connectors.web.site import WebConnector
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.errors import ConfigError
from hopsyncd.ingest.connector_setup import create_connector


def written(folder: Path, kind: str, lines: str) -> Path:
    file = folder / "config.toml"
    file.write_text(f'[[source]]\nname = "x"\nkind = "{kind}"\n{lines}\n')
    return file


def connector(config: Config) -> Connector:
    return create_connector(config.sources[0], config)


def test_mail_on_disk_is_listed(tmp_path: Path) -> None:
    key = mailbox.Maildir(tmp_path / "Maildir").add(b"Subject: a\n\ntide\n")
    mailbox.mbox(tmp_path / "Inbox").add(b"Message-ID: <a@x>\n\ntide\n")
    maildir = connector(load_config(written(tmp_path, "maildir", 'path = "Maildir"')))
    assert isinstance(maildir, MaildirConnector)
    assert [f.id for f in maildir.discover(None) if isinstance(f, Item)] == [key]
    mbox = connector(load_config(written(tmp_path, "mbox", 'path = "Inbox"')))
    assert isinstance(mbox, MboxConnector)
    assert [f.id for f in mbox.discover(None) if isinstance(f, Item)] == ["a@x"]


def test_an_account_and_a_site_need_little(tmp_path: Path) -> None:
    imap = load_config(written(tmp_path, "imap", 'host = "imap.example.org"\nuser = "ann"'))
    assert isinstance(connector(imap), ImapConnector)
    assert imap.sources[0].location == "ann at imap.example.org"
    web = load_config(written(tmp_path, "web", 'start = ["https://example.org"]'))
    assert isinstance(connector(web), WebConnector)
    assert web.sources[0].scan_every_s == 21_600


@pytest.mark.parametrize(
    ("kind", "lines", "told"),
    [
        ("maildir", "", "the key is missing"),
        ("maildir", 'path = "."\nfolders = []', "must not be empty"),
        ("imap", 'host = "x.org"', "the key is missing"),
        ("imap", 'host = "x.org"\nuser = "a"\ntls = "off"', "anyone could read the password"),
        ("imap", 'host = "x.org"\nuser = "a"\npassword = "hunter2"', "unknown key"),
        ("imap", 'host = "x.org"\nuser = "a"\npassword_env = "hunter 2"', "wrong form"),
        ("imap", 'host = "imaps://x.org/"\nuser = "a"', "wrong form"),
        ("web", "", "the key is missing"),
        ("web", "start = []", "must not be empty"),
        ("web", 'start = ["file:///etc/passwd"]', "not a page's address"),
        ("web", 'start = ["https://x.org"]\ndepth = 2', "depth"),
    ],
)
def test_a_mistake_is_reported_with_its_line(
    tmp_path: Path, kind: str, lines: str, told: str
) -> None:
    file = written(tmp_path, kind, lines)
    with pytest.raises(ConfigError, match=told) as caught:
        load_config(file)
    assert f"{file}:" in str(caught.value)
