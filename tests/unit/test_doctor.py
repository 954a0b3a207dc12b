"""What the doctor finds in places that are right and in places that are wrong."""

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hopsyncd.api.tokens import TokenFile
from hopsyncd.client import Client, RequestFailed
from hopsyncd.config.configuration import DATABASE_NAME, Config, check_config, load_config
from hopsyncd.config.privacy import check_config_file, create_own_folder
from hopsyncd.doctor import Finding, machine
from hopsyncd.doctor import examine as reachable
from hopsyncd.doctor import examine as serving
from hopsyncd.doctor import machine as installed
from hopsyncd.doctor.examine import examine
from hopsyncd.errors import ConfigError, DaemonUntrusted
from store.engines.sqlite.database import APPLICATION_ID, open_writer
from tests.e2e.daemon import source
from tests.fakes.certificates import Authority
from tests.fakes.provider import LoginProvider


def config_of(folder: Path, text: str = "") -> Config:
    data = f'[daemon]\ndata_dir = "{folder}/data"\nsocket = "{folder}/run/s"\n'
    return check_config(folder / "config.toml", data + text)


def levels(found: Iterable[Finding]) -> list[tuple[str, str]]:
    """Check and level of each; what is not well has a remedy."""
    seen = list(found)
    assert all(bool(check.remedy) == (check.level != "ok") for check in seen)
    return [(check.check, check.level) for check in seen]


def test_the_doctor_finds_no_failure_in_an_empty_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPSYNCD_HOME", str(tmp_path / "home"))
    found = dict(levels(examine(None)))
    assert found.pop("configuration") == "warn"
    assert found.pop("daemon") == "warn"
    assert set(found) >= {"python", "descriptors", "sqlite", "disk", "database", "models", "llm"}
    assert not (tmp_path / "home").exists(), "nothing is changed"


def test_a_bad_configuration_is_one_failure_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[query]\nq = 1\n")
    *_, last = examine(file)
    assert (last.check, last.level) == ("configuration", "fail")
    assert f"{file}:2" in last.detail


def test_secrets_that_others_can_read_are_warned_of(tmp_path: Path) -> None:
    text = source("code", tmp_path).replace("path", "kind = 'git'\ntoken = 'abcd'\nurl", 1)
    text = text.replace(str(tmp_path), "https://example.org/x.git")
    config = config_of(tmp_path, text)
    file = tmp_path / "config.toml"
    file.touch(0o644)
    assert levels(installed.check_configuration(file, config)) == [("configuration", "warn")]
    file.chmod(0o600)
    assert levels(installed.check_configuration(file, config)) == [("configuration", "ok")]


def test_programs_of_watches_that_others_can_write_fail(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    config.daemon.data_dir.mkdir(mode=0o700)
    file = config.daemon.data_dir / "watch_actions.json"
    assert list(reachable.check_watch_actions(config)) == []
    file.write_text('{"actions": []}')
    file.chmod(0o620)
    (found,) = reachable.check_watch_actions(config)
    assert found.level == "fail" and str(file) in found.detail and "chmod 600" in found.detail


def test_the_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    config.daemon.data_dir.mkdir(mode=0o755)
    assert levels(installed.check_data_folder(config)) == [("data folder", "warn")]
    config.daemon.data_dir.chmod(0o700)
    assert levels(installed.check_data_folder(config)) == [("data folder", "ok")]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o1777])
def test_a_data_folder_that_others_can_write_to_fails_and_is_refused(
    tmp_path: Path, mode: int
) -> None:
    config = config_of(tmp_path)
    folder = config.daemon.data_dir
    folder.mkdir()
    folder.chmod(mode)
    [found] = installed.check_data_folder(config)
    assert (found.level, f"chmod 700 {folder}" in found.remedy) == ("fail", True)
    with pytest.raises(ConfigError) as error:
        create_own_folder(folder)
    assert f"Run: chmod 700 {folder}" in error.value.hint
    folder.chmod(0o700)
    create_own_folder(folder)
    assert levels(installed.check_data_folder(config)) == [("data folder", "ok")]


def test_a_configuration_that_others_can_write_to_fails_and_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    file = tmp_path / "config.toml"
    file.touch()
    for mode in (0o666, 0o602):
        file.chmod(mode)
        assert levels(installed.check_configuration(file, config)) == [("configuration", "fail")]
        with pytest.raises(ConfigError, match="other users can write to it"):
            check_config_file(file)
    file.chmod(0o664)
    assert levels(installed.check_configuration(file, config)) == [("configuration", "fail")]
    check_config_file(file)
    check_config_file(tmp_path / "absent.toml")


def test_a_key_with_its_former_name_is_accepted_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[access]\ntcp = "127.0.0.1:7717"\n')
    config = load_config(file)
    assert config.access.listen == "127.0.0.1:7717"
    check_config_file(file)
    assert "Write access.listen" in capsys.readouterr().out
    (found,) = installed.check_configuration(file, config)
    assert (found.level, found.detail) == ("warn", f"{file}: access.tcp is now access.listen")
    file.write_text('[access]\nlisten = "127.0.0.1:7717"\n')
    check_config_file(file)
    assert capsys.readouterr().out == ""


def test_a_database_is_checked_and_one_of_the_future_or_of_another_program_is_refused(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path)
    config.daemon.data_dir.mkdir()
    path = config.daemon.data_dir / DATABASE_NAME
    with closing(open_writer(path)) as connection:
        assert levels(installed.check_database(config)) == [("database", "ok")]
        connection.execute("PRAGMA user_version = 1")
        assert levels(installed.check_database(config)) == [("database", "warn")]
        connection.execute("PRAGMA user_version = 999")
        assert levels(installed.check_database(config)) == [("database", "fail")]
        connection.execute("PRAGMA user_version = 7")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID + 1}")
        assert levels(installed.check_database(config)) == [("database", "fail")]


def test_a_model_that_is_not_the_one_named_fails(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    config = config_of(tmp_path, f'[models]\nencoder = "{tmp_path}/model"\n')
    assert levels(installed.check_models(config)) == [("models", "fail")]
    assert levels(installed.check_models(config_of(tmp_path))) == [("models", "ok")]


def test_doctor_distinguishes_a_missing_a_stale_and_a_replaced_socket(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path)
    path = config.daemon.socket
    assert levels(serving.check_daemon(config)) == [("daemon", "warn")]
    path.parent.mkdir(mode=0o755)
    path.touch()
    assert levels(serving.check_daemon(config)) == [
        ("socket", "fail"), ("socket", "fail"), ("daemon", "warn"),
    ]  # fmt: skip
    path.unlink()
    path.parent.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    (found,) = serving.check_daemon(config)
    assert "crashed" in found.detail


def test_all_unreadable_documents_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status lists at most 100 of them."""
    quiet = {"problem": None, "watch_problem": None, "rights": None}
    state: dict[str, Any] = {
        **{"pid": 1, "version": 2, "error": None, "watch_problems": [], "problems": [{}] * 100},
        "configuration": {"refused": None, "restart_needed": []},
        "sources": [
            {"name": "notes", "problems": 150, **quiet},
            {"name": "mail", "problems": 50, **quiet},
        ],
    }
    monkeypatch.setattr(reachable, "_explain_unreachable", lambda config: "")
    monkeypatch.setattr(Client, "status", lambda self: state)
    found = [check for check in serving.check_daemon(config_of(tmp_path)) if check.level != "ok"]
    assert [check.detail for check in found] == ["200 documents cannot be read"]


def test_sources_that_cannot_be_read_fail_each_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.delenv("HOPSYNCD_IMAP_PASSWORD", raising=False)
    config = config_of(
        tmp_path,
        source("here", tmp_path / "here")
        + source("gone", tmp_path / "gone")
        + '[[source]]\nname = "share"\nkind = "remote"\nurl = "smb://host/share"\n'
        + '[[source]]\nname = "mail"\nkind = "imap"\nhost = "h.example.org"\nuser = "ann"\n',
    )
    assert levels(reachable.check_sources(config)) == [
        ("source here", "ok"), ("source gone", "fail"), ("source share", "fail"),
        ("source mail", "warn"),
    ]  # fmt: skip
    assert levels(machine.check_file_events(config)) == [("file events", "ok")]


class _Models(BaseHTTPRequestHandler):
    """An endpoint that says which models it has to those who show the right key."""

    def do_GET(self) -> None:
        known = self.headers["authorization"] == "Bearer right"
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "small"}]}' if known else b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Not among the output of tests."""


@pytest.mark.parametrize(
    ("key", "model", "level", "detail"),
    [
        ("right", "small", "ok", "small at"),
        ("right", "large", "warn", "lists no model large"),
        ("wrong", "small", "fail", "refuses the API key"),
        ("", "small", "fail", "needs an API key, and no key is set"),
    ],
)
def test_the_endpoint_is_asked_for_its_models_alone(
    key: str, model: str, level: str, detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Models) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        config = config_of(tmp_path, f'[llm]\nbase_url = "{url}"\nmodel = "{model}"\n')
        found = list(reachable.check_endpoint(config))
        server.shutdown()
    assert levels(found) == [("llm", level)] and detail in found[0].detail
    assert levels(reachable.check_endpoint(config)) == [("llm", "warn")], "nobody answers any more"


class _Endless(BaseHTTPRequestHandler):
    """An endpoint whose answer goes on, quickly or slowly."""

    pause_s = 0.0

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            for _ in range(100):
                self.wfile.write(b"x" if self.pause_s else bytes(100_000))
                time.sleep(self.pause_s)

    def log_message(self, format: str, *args: object) -> None:
        """Not among the output of tests."""


class _Dripping(_Endless):
    pause_s = 0.3


@pytest.mark.parametrize(
    ("endless", "why"), [(_Endless, "larger than 1048576 bytes"), (_Dripping, "within 5 s")]
)
def test_an_endpoint_with_an_endless_reply_is_abandoned_with_a_warning(
    endless: type[_Endless], why: str, tmp_path: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), endless) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        config = config_of(tmp_path, f'[llm]\nbase_url = "{url}"\nmodel = "small"\n')
        (found,) = reachable.check_endpoint(config)
        server.shutdown()
    assert found.level == "warn"
    assert why in found.detail


def test_the_login_of_the_company_is_asked_for_its_description(tmp_path: Path) -> None:
    assert list(reachable.check_company_login(config_of(tmp_path))) == []
    with LoginProvider() as provider:
        config = config_of(
            tmp_path,
            '[access]\nlisten = "127.0.0.1:7717"\nbehind_proxy = ["127.0.0.1/32"]\n'
            f'page = "https://notes.example.org"\n[access.oidc]\nissuer = "{provider.issuer}"\n'
            'client_id = "x"\n',
        )
        assert levels(reachable.check_company_login(config)) == [("login", "ok")]
        provider.description = {"issuer": "https://evil.example"}
        (found,) = reachable.check_company_login(config)
        assert (
            found.level == "fail"
            and "the provider's issuer is 'https://evil.example'" in found.detail
        )
    assert levels(reachable.check_company_login(config)) == [("login", "fail")], "it is down"


def test_a_name_in_visible_to_that_nobody_has_is_reported(tmp_path: Path) -> None:
    names = ["user:root", "user:ann", "group:board", "members", "user:an"]
    text = source("notes", tmp_path, f"visible_to = {names}".replace("'", '"'))
    config = config_of(tmp_path, text)
    create_own_folder(config.daemon.data_dir)
    TokenFile.from_config(config).add("ann", "read", None, groups=["board"])
    (found,) = reachable.check_viewers(config)
    assert (found.check, found.level) == ("source notes", "warn")
    assert "user:an," in found.detail


LAPTOP = '[client]\nserver = "https://notes.example.org:7717"\n'


class _Server(Client):
    """A client whose server answers with `answer`, or raises it."""

    def __init__(self, answer: Exception | dict[str, Any]) -> None:
        super().__init__("/nowhere")
        self._status_answer = answer

    def status(self) -> Any:
        if isinstance(self._status_answer, Exception):
            raise self._status_answer
        return self._status_answer


@pytest.mark.parametrize(
    ("answer", "expected", "detail"),
    [
        (
            {"caller": {"user": "ann", "role": "read"}},
            {"server": "ok", "token": "ok"},
            "you are ann, with the role read",
        ),
        (
            RequestFailed(401, "unauthorized", "it has no token", ""),
            {"server": "ok", "token": "fail"},
            "unknown, revoked or expired",
        ),
        (
            DaemonUntrusted("Nothing was sent", "its certificate has expired", "Ask"),
            {"server": "fail"},
            "its certificate has expired",
        ),
    ],
)
def test_on_a_machine_without_daemon_the_server_is_checked_instead(
    tmp_path: Path, answer: Exception | dict[str, Any], expected: dict[str, str], detail: str
) -> None:
    file = tmp_path / "config.toml"
    file.touch(0o600)
    file.write_text(LAPTOP)
    found = list(examine(file, lambda: _Server(answer)))
    known = {check: level for check, level in levels(found) if check in ("server", "token")}
    assert known == expected
    assert detail in found[-1].detail
    assert ("configuration", "ok") in levels(found)
    assert not {"daemon", "database", "data folder"} & {check.check for check in found}


def test_a_certificate_without_a_host_name_is_warned_of(tmp_path: Path) -> None:
    file, key = Authority(tmp_path).issue(names=())
    config = config_of(tmp_path, f'[access]\ntls_cert = "{file}"\ntls_key = "{key}"\n')
    (found,) = serving.check_certificate(config)
    assert found.level == "warn" and "subjectAltName" in found.detail
