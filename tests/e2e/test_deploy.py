"""examples/deploy: each recipe is started here with the program that it is for, or checked."""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hopsyncd.client import Client
from hopsyncd.config.configuration import check_config
from tests.e2e.daemon import DEADLINE_S, GC_LATER, ROOT, SMALL, Place, new_place, source
from tests.e2e.test_access import new_token
from tests.fakes.certificates import Authority
from tests.fakes.port import free_port

FOLDER = ROOT / "examples/deploy"
NOTE = "Ansgar Nyborg keeps the lighthouse.\n"


def program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return found or pytest.skip(f"{name} is not installed")


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program, which is ended with its children."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(DEADLINE_S)


class Behind:
    """A daemon that only a proxy may ask over TCP, and the certificate of that proxy."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.authority = Authority(place.base)
        self.cert, self.key = self.authority.issue()
        self.port, self.site = free_port(), free_port()
        place.write("a.md", NOTE)
        place.configure(
            f'[access]\nlisten = "127.0.0.1:{self.port}"\nbehind_proxy = ["127.0.0.1/32"]\n'
            f'hosts = ["localhost"]\n{GC_LATER}{source("notes", place.notes)}'
        )
        place.start()
        place.sync()
        self.token = {"Authorization": f"Bearer {new_token(place, 'admin')}"}

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        url = f"https://localhost:{self.site}"
        verified = ssl.create_default_context(cafile=self.authority.file)
        with httpx2.Client(base_url=url, verify=verified, timeout=DEADLINE_S) as http:
            return http.request(method, path, **more)

    def check(self, tries: int = 1) -> None:
        """The proxy answers for the daemon, streams, and says truly for whom it asks.

        tries: how often a stream may be asked for until it is not empty.
        """
        self.place.until(self._answers)
        answer = self.ask("GET", "/v1/status", headers=self.token)
        assert answer.json()["documents"] == 1
        question = {"question": "Who keeps the lighthouse?"}
        found = self.ask("POST", "/v1/query", json=question, headers=self.token).json()
        assert "Ansgar" in found["passages"][0]["text"]
        stream = {**self.token, "accept": "application/x-ndjson"}
        for _ in range(tries):
            synced = self.ask("POST", "/v1/sync", json={}, headers=stream)
            if synced.text:
                break
        assert synced.status_code == 200 and synced.text, (synced.status_code, synced.headers)
        assert json.loads(synced.text.splitlines()[-1])["event"] == "answer"
        forged = {"Authorization": "Bearer wrong", "X-Forwarded-For": "192.0.2.9"}
        assert self.ask("GET", "/v1/status", headers=forged).status_code == 401
        refused = [line for line in self.place.log.read_text().splitlines() if "refused" in line]
        assert json.loads(refused[-1])["address"] == "127.0.0.1"
        # Past the proxy there is no answer.
        direct = httpx2.get(f"http://127.0.0.1:{self.port}/v1/status", headers=self.token)
        assert direct.status_code == 403

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/v1/health", headers=self.token).status_code == 200
        except httpx2.HTTPError:
            return False


@pytest.fixture
def behind() -> Iterator[Behind]:
    with new_place(SMALL) as place:
        yield Behind(place)


def recipe(name: str, values: Mapping[str, str]) -> str:
    """The text of a recipe with these replacements, each of which it needs."""
    text = (FOLDER / name).read_text()
    for old, new in values.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_the_daemon_serves_clients_behind_nginx(behind: Behind) -> None:
    nginx, folder = program("nginx"), behind.place.base / "nginx"
    folder.mkdir()
    folder.chmod(0o755)
    site = recipe(
        "nginx.conf",
        {
            "listen 443": f"listen 127.0.0.1:{behind.site}",
            "server_name notes.example.org": "server_name localhost",
            "/etc/ssl/notes.example.org/fullchain.pem": str(behind.cert),
            "/etc/ssl/notes.example.org/privkey.pem": str(behind.key),
            "127.0.0.1:7717;": f"127.0.0.1:{behind.port};",
        },
    )
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(
        f"daemon off; {user} pid {folder}/pid; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; {temporary} include {folder}/site.conf; }}\n"
    )
    command = [nginx, "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    with running(command, folder / "log"):
        behind.check()


def test_the_daemon_serves_clients_behind_caddy(behind: Behind) -> None:
    caddy, folder = program("caddy"), behind.place.base / "caddy"
    folder.mkdir()
    own = f"tls {behind.cert} {behind.key}"
    site = recipe("Caddyfile", {"\treverse_proxy": f"\t{own}\n\treverse_proxy"})
    options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n"
    file = folder / "Caddyfile"
    file.write_text(options + site)
    environment = {
        "SITE": f"https://localhost:{behind.site}",
        "UPSTREAM": f"127.0.0.1:{behind.port}",
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    command = [caddy, "run", "--config", str(file), "--adapter", "caddyfile"]
    with running(command, folder / "log", environment):
        # Caddy 2.6 sometimes closes its own connection to any server that streams the answer to a
        # POST, and then ends the answer without an error.
        behind.check(tries=5)


def test_a_socket_forwarded_by_ssh_answers_like_a_local_socket() -> None:
    sshd, ssh, keygen = program("sshd"), program("ssh"), program("ssh-keygen")
    if os.getuid():
        pytest.skip("only root can give sshd what it expects of a machine")
    with new_place(SMALL) as place:
        place.write("a.md", NOTE)
        place.configure(GC_LATER + source("notes", place.notes))
        place.start()
        place.sync()
        for name in ("host", "user"):
            command = [keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(place.base / name)]
            subprocess.run(command, check=True)
        port, users = free_port(), place.base / "passwd"
        users.write_text(Path("/etc/passwd").read_text() + "sshd:x:65534:65534::/:/bin/false\n")
        (place.base / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place.base}/host\nStrictModes no\n"
            f"AuthorizedKeysFile {place.base}/user.pub\nPidFile none\nUsePAM no\n"
            "PermitRootLogin prohibit-password\n"
        )
        # sshd wants a user of its own and an empty folder; both exist only for it.
        own = f"mount --bind {users} /etc/passwd; mount -t tmpfs none /run; mkdir -m 755 /run/sshd"
        serve = f"{own}; exec {sshd} -D -e -f {place.base}/sshd_config"
        unit = (FOLDER / "hopsyncd-ssh.service").read_text()
        (line,) = re.findall(r"^ExecStart=/usr/bin/ssh (.+)$", unit, re.MULTILINE)
        remote = place.base / "laptop"
        (remote / "run").mkdir(parents=True, mode=0o700)
        forward = line.replace("%h/.hopsyncd-server", str(remote))
        forward = forward.replace("${SOCKET}", str(place.socket)).replace("${SERVER}", "127.0.0.1")
        options = f"-F none -p {port} -i {place.base}/user -o StrictHostKeyChecking=no"
        known = f"-o UserKnownHostsFile={place.base}/known"
        laptop = Client(remote / "run/hopsyncd.sock", timeout_s=DEADLINE_S)
        with running(["unshare", "-m", "sh", "-c", serve], place.base / "sshd.log") as server:
            place.until(lambda: "listening" in (place.base / "sshd.log").read_text())
            assert server.poll() is None
            command = [ssh, *options.split(), *known.split(), *forward.split()]
            with running(command, place.base / "ssh.log"):
                place.until((remote / "run/hopsyncd.sock").exists)
                assert (remote / "run/hopsyncd.sock").stat().st_mode & 0o077 == 0
                assert laptop.status()["documents"] == 1
                environment = {**os.environ, "HOPSYNCD_HOME": str(remote)}
                asked = subprocess.run(
                    [sys.executable, "-m", "hopsyncd", "query", "Who keeps the lighthouse?"],
                    env=environment,
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert "Ansgar" in asked.stdout, asked.stderr


def test_systemd_accepts_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    analyze = program("systemd-analyze")
    unit = tmp_path / "hopsyncd.service"
    unit.write_text(recipe("hopsyncd.service", {"/usr/local/bin/hopsyncd": "/bin/true"}))
    verified = subprocess.run(
        [analyze, "verify", str(unit)], capture_output=True, text=True, check=False
    )
    ours = [line for line in verified.stderr.splitlines() if "hopsyncd.service" in line]
    assert ours == []
    ran = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=30", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-2000:]


def test_the_example_unit_has_every_setting_of_the_installed_unit() -> None:
    from hopsyncd.cli.install import _HARDENING, _SYSTEM_HARDENING

    lines = (FOLDER / "hopsyncd.service").read_text().splitlines()
    # `strict` is more than `full`.
    wanted = {*_HARDENING.splitlines(), *_SYSTEM_HARDENING.splitlines()} - {"ProtectSystem=full"}
    assert wanted <= set(lines)


def test_the_compose_file_and_its_configuration_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml  # type: ignore[import-untyped]

    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    services = compose["services"]
    monkeypatch.setenv("SITE", "notes.example.org")
    config = check_config(FOLDER / "config.toml", (FOLDER / "config.toml").read_text())
    (network,) = compose["networks"]["inside"]["ipam"]["config"]
    assert [str(one) for one in config.access.behind_proxy] == [network["subnet"]]
    assert services["caddy"]["environment"]["UPSTREAM"] == f"hopsyncd:{config.access.listen[-4:]}"
    database = services["db"]["environment"]
    assert config.store.url == f"postgresql://{database['POSTGRES_USER']}@db/notes"
    assert database["POSTGRES_DB"] == "notes"
    for service in services.values():
        for mount in service["volumes"]:
            place = mount.partition(":")[0]
            assert (
                place in compose["volumes"] or place.startswith("${") or (FOLDER / place).exists()
            )
    assert "ARG EXTRAS" in (ROOT / "Dockerfile").read_text()
    written = set(re.findall(r"\$\{(\w+):\?", (FOLDER / "compose.yaml").read_text()))
    assert written == {"PGPASSWORD", "SITE", "NOTES"}
