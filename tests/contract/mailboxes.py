"""Mailboxes for the contract suite and the tests of mail: on disk, and served by dovecot."""

import grp
import imaplib
import mailbox
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from contextlib import closing
from email.message import EmailMessage
from functools import cache
from pathlib import Path

from connectors.mail.imap import ImapConnector
from connectors.mail.maildir import MaildirConnector
from connectors.mail.mbox import MboxConnector
from connectors.protocol import Connector
from connectors.settings import ImapSettings
from tests.contract.harness import Trouble
from tests.fakes.port import free_port

MAX_BYTES = 100_000
USER, PASSWORD, PASSWORD_ENV = "ann", "tide-over", "HOPSYNCD_TEST_MAIL_PASSWORD"


def message(key: str, text: str, **fields: str) -> EmailMessage:
    """A message whose Message-ID is made of the key."""
    made = EmailMessage()
    made["Message-ID"] = f"<{key}@example.org>"
    made["Subject"] = f"About {key}"
    made["From"] = "Ann Lee <ann@example.org>"
    made["Date"] = "Mon, 02 Nov 2026 10:00:00 +0000"
    for name, value in fields.items():
        made[name.replace("_", "-")] = value
    made.set_content(text)
    return made


class MaildirHarness:
    troubles = frozenset({Trouble.AWAY, Trouble.GARBAGE})
    max_bytes = MAX_BYTES
    deletes = True

    def __init__(self, base: Path) -> None:
        self.root, self._aside = base / "mail", base / "aside"
        self.box = mailbox.Maildir(self.root)

    def connector(self) -> Connector:
        return MaildirConnector(self.root, max_bytes=MAX_BYTES)

    def put(self, key: str, text: str) -> str:
        name = key.replace("/", "-")
        temporary = self.root / "tmp" / name
        temporary.write_bytes(message(key, text).as_bytes())
        temporary.rename(self.root / "cur" / f"{name}:2,S")
        return name

    def delete(self, key: str) -> None:
        (self.root / "cur" / f"{key.replace('/', '-')}:2,S").unlink()

    def begin(self, trouble: Trouble) -> None:
        self.root.rename(self._aside)
        if trouble is Trouble.GARBAGE:
            self.root.write_bytes(b"\xff\x00")

    def end(self) -> None:
        if self._aside.exists():
            self.root.unlink(missing_ok=True)
            self._aside.rename(self.root)

    def close(self) -> None:
        self.end()


class MboxHarness:
    troubles = frozenset({Trouble.AWAY})
    max_bytes = MAX_BYTES
    deletes = True

    def __init__(self, base: Path) -> None:
        self.path, self._aside = base / "Inbox", base / "aside"
        self.path.touch()

    def connector(self) -> Connector:
        return MboxConnector(self.path, MAX_BYTES)

    def put(self, key: str, text: str) -> str:
        id_ = f"{key}@example.org"
        self._rewrite(id_, message(key, text))
        return id_

    def delete(self, key: str) -> None:
        self._rewrite(f"{key}@example.org", None)

    def _rewrite(self, id_: str, new: EmailMessage | None) -> None:
        with closing(mailbox.mbox(self.path)) as box:
            box.lock()
            for number, old in box.items():
                if old["Message-ID"] == f"<{id_}>":
                    box.remove(number)
            if new is not None:
                box.add(new)

    def begin(self, trouble: Trouble) -> None:
        self.path.rename(self._aside)

    def end(self) -> None:
        if self._aside.exists():
            self._aside.rename(self.path)

    def close(self) -> None:
        self.end()


_DOVECOT_CONF = """\
base_dir = {base}/run
state_dir = {base}/run
instance_name = {base}
protocols = imap
listen = 127.0.0.1
log_path = {base}/log
mail_location = maildir:{base}/mail/%u
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {login}
first_valid_uid = 1
first_valid_gid = 1
ssl = required
ssl_cert = <{base}/cert.pem
ssl_key = <{base}/key.pem
ssl_dh =
disable_plaintext_auth = no
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={base}/home/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {starttls_port}
  }}
  inet_listener imaps {{
    port = {port}
    ssl = yes
  }}
}}
auth_failure_delay = 0
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Trash {{
    special_use = \\Trash
  }}
  mailbox Papierkorb {{
    special_use = \\Trash
  }}
}}
"""


class Dovecot:
    """A real IMAP server of our own, on loopback ports, with a certificate of its own.

    It keeps mail for no root: started by root, it does so as the user its package made, whom the
    folders of tests do not let in.
    """

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="dovecot-"))
        self.base.chmod(0o755)
        owner = pwd.getpwnam("dovecot") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        login = "dovenull" if os.getuid() == 0 else owner.pw_name
        for name in ("mail", "home"):
            (self.base / name).mkdir()
            os.chown(self.base / name, owner.pw_uid, owner.pw_gid)
        self.port, self.starttls_port = free_port(), free_port()
        self.certificate = self.base / "cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", self.base / "key.pem", "-out", self.certificate],
            check=True, capture_output=True,
        )  # fmt: skip
        (self.base / "dovecot.conf").write_text(
            _DOVECOT_CONF.format(
                base=self.base, port=self.port, starttls_port=self.starttls_port,
                password=PASSWORD, uid=owner.pw_uid, gid=owner.pw_gid, user=owner.pw_name,
                group=grp.getgrgid(owner.pw_gid).gr_name, login=login,
            )
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [dovecot_program() or "dovecot", "-F", "-c", self.base / "dovecot.conf"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline_s = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline_s or self._process.poll() is not None:
                    log = self.base / "log"
                    told = log.read_text() if log.exists() else ""
                    raise RuntimeError(f"dovecot did not start: {told[-500:]}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.base)

    def settings(self, **changed: object) -> ImapSettings:
        usual: dict[str, object] = {
            "host": "localhost", "port": self.port, "user": USER, "password_env": PASSWORD_ENV,
            "ca_file": self.certificate, "max_bytes": MAX_BYTES, "timeout_s": 30.0,
        }  # fmt: skip
        return ImapSettings(**{**usual, **changed})  # type: ignore[arg-type]

    def client(self) -> imaplib.IMAP4_SSL:
        """Another program that reads and writes the same mail."""
        context = ssl.create_default_context(cafile=self.certificate)
        client = imaplib.IMAP4_SSL("localhost", self.port, ssl_context=context)
        client.login(USER, PASSWORD)
        return client


class ImapHarness:
    """A message of IMAP never changes: `put` of a key that is there makes another one."""

    troubles = frozenset({Trouble.AWAY, Trouble.LOCKED, Trouble.SLOW})
    max_bytes = MAX_BYTES
    deletes = True

    def __init__(self, _: Path) -> None:
        os.environ[PASSWORD_ENV] = PASSWORD
        self.server = Dovecot()
        self.client = self.server.client()
        self._uids: dict[str, str] = {}
        self._is_stopped = False
        self._silent: socket.socket | None = None

    def connector(self) -> Connector:
        return ImapConnector(self.server.settings(timeout_s=6.0))

    def put(self, key: str, text: str) -> str:
        if key in self._uids:
            self.delete(key)
        self.client.append("INBOX", "", "", message(key, text).as_bytes())
        self.client.select("INBOX")
        _, (found,) = self.client.uid("SEARCH", "HEADER", "Message-ID", f"<{key}@example.org>")
        uid = found.split()[-1].decode()
        self._uids[key] = uid
        return f"INBOX/{uid}"

    def delete(self, key: str) -> None:
        self.client.select("INBOX")
        self.client.uid("STORE", self._uids.pop(key), "+FLAGS", "(\\Deleted)")
        self.client.expunge()

    def begin(self, trouble: Trouble) -> None:
        if trouble is Trouble.LOCKED:
            os.environ[PASSWORD_ENV] = "wrong"
            return
        self._is_stopped = True
        self.server.stop()
        if trouble is Trouble.SLOW:
            self._silent = socket.create_server(("127.0.0.1", self.server.port))

    def end(self) -> None:
        os.environ[PASSWORD_ENV] = PASSWORD
        if self._is_stopped:
            self._is_stopped = False
            if self._silent:
                self._silent.close()
            self.server.start()
            self.client = self.server.client()

    def close(self) -> None:
        self.server.remove()


@cache
def dovecot_program() -> str | None:
    """Where Debian and others put it, which is not on every user's PATH; None for one of another
    series than the configuration here is for."""
    found = shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        return None
    output = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return found if output.stdout.startswith("2.3.") else None
