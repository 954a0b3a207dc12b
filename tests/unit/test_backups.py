"""Backups in a folder: verified, rotated, listed, and put back with nothing half done."""

import json
import os
import shutil
import time
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from hopsyncd.api.access_rules import AccessRules, list_rules_at_start
from hopsyncd.child_process import start_child
from hopsyncd.config.configuration import Config, check_config
from hopsyncd.errors import BadRequest, ConfigError
from hopsyncd.ingest.backup_process import BackupOrder, run_order, verify_copy
from hopsyncd.ingest.backup_schedule import COMMAND, require_folder
from store.access_rules import NOBODY, OPEN, RESTORED, AccessRule, FolderClause
from store.backup_folder import CONFIG, Backup, list_backups, make_backup, rotate
from store.check import check
from store.engines.sqlite.database import open_reader, open_writer
from store.exceptions import BackupFailed
from store.history import set_tag
from store.operational import Watch, add_watch
from store.purge import list_pending_purges, purge, request_purge
from store.restoring import (
    Loss,
    describe_loss,
    drop_replaced,
    find_pending_restore,
    finish_restore,
    list_replaced,
    stage_restore,
)
from store.sources import (
    exclude,
    put_access_rules,
    read_access_rules,
    read_excluded_items,
    read_excluded_paths,
    read_source_names,
    register_source,
    release_pins,
)
from store.versions import read_head
from tests.fakes.dump import graph_at
from tests.fakes.lived import lived, page
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

NOW_MS = 1_795_662_000_000  # 2026-11-26T03:00:00Z


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    (tmp_path / "data").mkdir()
    return lived(tmp_path / "data/hopsyncd.db")


def made(stack: Stack, folder: Path, now_ms: int = NOW_MS) -> Backup:
    return make_backup(stack.connection, folder, verify_copy, now_ms, "0.3.0")


def edit(stack: Stack, path: str, text: bytes) -> None:
    assert isinstance(stack.connector, MemoryConnector)
    stack.connector.put(path, text)
    stack.sync()


def test_a_backup_is_named_by_its_time_and_described_by_its_manifest(
    stack: Stack, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[daemon]\n")
    done = make_backup(stack.connection, tmp_path / "b", verify_copy, NOW_MS, "0.3.0", file)
    assert done.name == "2026-11-26T03-00-00Z"
    assert (done.folder / CONFIG).read_text() == "[daemon]\n"
    assert sorted(path.stat().st_mode & 0o077 for path in done.folder.iterdir()) == [0, 0, 0]
    assert list_backups(tmp_path / "b") == [done]
    assert (done.manifest.version, done.manifest.documents) == (6, stack.head.documents)
    with closing(open_reader(done.database)) as copy:
        assert graph_at(copy, 6) == graph_at(stack.connection, 6)


def test_only_the_newest_are_kept_and_never_fewer_than_one(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    names = [made(stack, folder, NOW_MS + day * 86_400_000).name for day in range(4)]
    (folder / "mine").mkdir()
    assert rotate(folder, 2) == [names[1], names[0]]
    assert [backup.name for backup in list_backups(folder)] == [names[3], names[2]]
    assert rotate(folder, 0) == [names[2]]
    assert [backup.name for backup in list_backups(folder)] == [names[3]]
    assert (folder / "mine").exists()


def test_backups_on_request_and_those_of_the_schedule_take_no_place_of_each_other(
    stack: Stack, tmp_path: Path
) -> None:
    folder, database = tmp_path / "b", tmp_path / "data/hopsyncd.db"
    scheduled = [made(stack, folder, NOW_MS + day).name for day in range(2)]
    order = {"database": str(database), "folder": str(folder), "keep": 2, "config_file": ""}
    wanted = [run_order({**order, "is_requested": True}) for _ in range(3)]
    assert [one["removed"] for one in wanted] == [[], [], [wanted[0]["name"]]]
    assert all("-requested" in one["name"] for one in wanted)
    assert run_order(order)["removed"] == [scheduled[0]]
    kept = {backup.name for backup in list_backups(folder)}
    assert {scheduled[1], wanted[1]["name"], wanted[2]["name"]} < kept and len(kept) == 4


def test_two_backups_in_one_second_have_two_names(stack: Stack, tmp_path: Path) -> None:
    assert made(stack, tmp_path / "b").name != made(stack, tmp_path / "b").name


def test_a_copy_with_errors_is_refused_and_the_older_backups_stay(
    stack: Stack, tmp_path: Path
) -> None:
    folder, database = tmp_path / "b", tmp_path / "data/hopsyncd.db"
    good = made(stack, folder)
    stack.connection.execute("UPDATE match SET similarity = 0.125 WHERE died > 1000")
    order = {"database": str(database), "folder": str(folder), "keep": 1, "config_file": ""}
    what, why, _ = run_order(order)["error"]
    assert "older backups are kept" in what and "edge threshold" in why
    assert list_backups(folder) == [good]
    assert [path.name for path in folder.iterdir() if path.name != ".lock"] == [good.name]


def test_a_disk_without_room_is_noticed_before_anything_is_written(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BackupFailed, match=r"the disk is full: \d+ MB needed"):
        made(stack, tmp_path / "b")
    assert [path.name for path in (tmp_path / "b").iterdir()] == [".lock"]


def test_an_unfinished_backup_is_not_listed_and_goes_with_the_next(
    stack: Stack, tmp_path: Path
) -> None:
    folder = tmp_path / "b"
    done = made(stack, folder)
    half = folder / f".{done.name}.part"
    done.folder.rename(half)
    assert list_backups(folder) == []
    again = made(stack, folder, NOW_MS + 1000)
    assert not half.exists() and list_backups(folder) == [again]


def test_only_one_backup_runs_at_a_time(stack: Stack, tmp_path: Path) -> None:
    def meanwhile(_: Path) -> None:
        made(stack, tmp_path / "b")

    with pytest.raises(BackupFailed, match="another process is making a backup"):
        make_backup(stack.connection, tmp_path / "b", meanwhile, NOW_MS, "0.3.0")


def test_a_restore_lists_what_will_be_lost(stack: Stack, tmp_path: Path) -> None:
    database, done = tmp_path / "data/hopsyncd.db", made(stack, tmp_path / "b")
    assert describe_loss(database, done.database) == Loss(6, stack.head.created_ms)
    edit(stack, "new.md", page("Turin", "Rome"))
    edit(stack, "new.md", page("Turin", "Oslo"))
    set_tag(stack.connection, "draft", 7, NOW_MS)
    add_watch(stack.connection, Watch(0, "Who left Oslo?", None, NOW_MS, 8, "{}"))
    loss = describe_loss(database, done.database)
    assert (loss.version, loss.versions) == (8, 2)
    assert (loss.tags, loss.watches, loss.is_other) == (("draft",), ("Who left Oslo?",), False)
    assert describe_loss(tmp_path / "none.db", done.database) == Loss()


def test_restoring_a_backup_of_another_database_loses_all_versions(
    stack: Stack, tmp_path: Path
) -> None:
    other = Stack(tmp_path / "other.db", MemoryConnector({"a.md": page("Bonn", "Rome")}))
    other.sync()
    done = made(other, tmp_path / "b")
    loss = describe_loss(tmp_path / "data/hopsyncd.db", done.database)
    assert loss.is_other and loss.versions == 6


def test_a_restored_database_goes_on_and_reuses_no_version(stack: Stack, tmp_path: Path) -> None:
    database, done = tmp_path / "data/hopsyncd.db", made(stack, tmp_path / "b")
    before = graph_at(stack.connection, 6)
    edit(stack, "new.md", page("Turin", "Rome"))
    stack.close()
    stage_restore(database, done.name, done, verify_copy, NOW_MS)
    assert find_pending_restore(database) == done.name
    restored = finish_restore(database, NOW_MS)
    assert restored and restored.version == 6 and find_pending_restore(database) is None
    assert restored.replaced and list_replaced(database) == [restored.replaced / "hopsyncd.db"]
    assert isinstance(stack.connector, MemoryConnector)
    again = Stack(database, stack.connector, budget_factor=0.1)
    release_pins(again.connection, again.source.id)
    assert graph_at(again.connection, 6) == before
    again.sync()
    assert again.head.id == 8, "7 was acknowledged before the restore"
    fresh = Stack(tmp_path / "fresh.db", MemoryConnector(stack.connector.files), budget_factor=0.1)
    fresh.sync()
    assert graph_at(again.connection, 8) == graph_at(fresh.connection, fresh.head.id)
    assert check(again.connection, deep=True) == []
    drop_replaced(database.parent)
    assert list_replaced(database) == []


def test_purges_and_closed_sources_since_the_backup_stay_in_force(
    stack: Stack, tmp_path: Path
) -> None:
    database = tmp_path / "data/hopsyncd.db"
    put_access_rules(stack.connection, {"notes": OPEN})
    done = made(stack, tmp_path / "b")
    put_access_rules(stack.connection, {"notes": NOBODY})
    assert isinstance(stack.connector, MemoryConnector)
    stack.connector.remove("sofia.md")
    stack.sync()
    purge(stack.connection, request_purge(stack.connection, stack.source.id, "sofia.md", NOW_MS))
    stack.close()
    stage_restore(database, done.name, done, verify_copy, NOW_MS)
    restored = finish_restore(database, NOW_MS)
    assert restored and restored.purged == 1
    with closing(open_writer(database)) as connection:
        assert read_access_rules(connection) == {"notes": NOBODY}
        assert [one.path for one in list_pending_purges(connection)] == ["sofia.md"]
        assert read_excluded_paths(connection, stack.source.id) == {"sofia.md"}


def test_a_source_that_is_newer_than_the_backup_stays_closed_and_purged(
    stack: Stack, tmp_path: Path
) -> None:
    database = tmp_path / "data/hopsyncd.db"
    put_access_rules(stack.connection, {"notes": OPEN})
    done = made(stack, tmp_path / "b")
    for name, rule in (("plans", BY_HR), ("talks", OPEN)):
        register_source(stack.connection, name, "folder", f"/{name}")
        put_access_rules(stack.connection, {name: rule})
    number = next(n for n, name in read_source_names(stack.connection).items() if name == "talks")
    exclude(stack.connection, number, "secret.md", NOW_MS)
    stack.close()
    stage_restore(database, done.name, done, verify_copy, NOW_MS)
    assert finish_restore(database, NOW_MS)
    with closing(open_writer(database)) as connection:
        rules = read_access_rules(connection)
        assert rules == {"notes": OPEN, "plans": (*BY_HR, RESTORED), "talks": OPEN}
        assert read_excluded_items(connection) == {("talks", "secret.md")}
        newer = Config.model_validate({"source": [{"name": "plans", "path": "/"}]}).sources
        assert (
            list_rules_at_start(rules, newer, is_shared=False).get("plans") is None
        )  # as recorded


HR = ["user:root"]
BY_HR: AccessRule = (("user:root",),)
HR_FOLDER: AccessRule = (FolderClause(None, (("hr/**", ("user:root",)),)),)


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("rule", [BY_HR, HR_FOLDER])
def test_a_source_that_is_closed_in_the_backup_stays_closed_under_a_fresh_configuration(
    stack: Stack, tmp_path: Path, rule: AccessRule, other: bool
) -> None:
    put_access_rules(stack.connection, {"notes": rule})
    done = made(stack, tmp_path / "b")
    database = tmp_path / "elsewhere/hopsyncd.db"
    if other:  # it was served once with the fresh configuration
        database.parent.mkdir()
        fresh = Stack(database, MemoryConnector({"a.md": page("Bonn", "Rome")}))
        fresh.sync()
        put_access_rules(fresh.connection, {"notes": OPEN})
        fresh.close()
    stage_restore(database, done.name, done, verify_copy, NOW_MS)
    assert finish_restore(database, NOW_MS)
    with closing(open_writer(database)) as connection:
        recorded = read_access_rules(connection)

    def rule_under(**keys: object) -> tuple[AccessRule | None, list[str]]:
        """The rule after a start with these keys, and the sources that the start warns about."""
        config = Config.model_validate({"source": [{"name": "notes", "path": "/", **keys}]})
        rules = {
            **recorded,
            **list_rules_at_start(recorded, config.sources, is_shared=False),
        }
        return rules["notes"], AccessRules.from_config(config, rules).list_closed_by_record(
            config.sources
        )

    assert recorded["notes"] == (*rule, RESTORED)
    assert rule_under() == ((*rule, RESTORED), ["notes"])
    assert rule_under(visible_to=["members"]) == (OPEN, [])
    folders = [{"match": "hr/**", "visible_to": HR}]
    same = {"paths": folders} if rule == HR_FOLDER else {"visible_to": HR}
    assert rule_under(**same) == (rule, []), "the old configuration needs no change"


def test_a_changed_backup_is_refused_and_the_database_is_left_alone(
    stack: Stack, tmp_path: Path
) -> None:
    database, done = tmp_path / "data/hopsyncd.db", made(stack, tmp_path / "b")
    with done.database.open("r+b") as file:
        file.seek(done.manifest.bytes // 2)
        file.write(b"\0\1\2\3")
    with pytest.raises(BackupFailed, match="has changed since it was verified"):
        stage_restore(database, done.name, done, verify_copy, NOW_MS)
    assert find_pending_restore(database) is None and not (tmp_path / "data/restore").exists()
    assert stack.head.id == 6


def test_a_file_is_restored_after_a_deep_check(stack: Stack, tmp_path: Path) -> None:
    database = tmp_path / "data/hopsyncd.db"
    file = made(stack, tmp_path / "b").database
    with closing(open_writer(file)) as connection:
        connection.execute("UPDATE match SET similarity = 0.125 WHERE died > 1000")
    with pytest.raises(BackupFailed, match=r"Cannot restore a file: .*Choose another backup"):
        stage_restore(database, "a file", file, verify_copy, NOW_MS)
    good = made(stack, tmp_path / "b", NOW_MS + 1000).database
    stack.close()
    stage_restore(database, "a file", good, verify_copy, NOW_MS)
    assert finish_restore(database, NOW_MS)


def test_on_a_new_machine_there_is_nothing_to_replace(stack: Stack, tmp_path: Path) -> None:
    done = made(stack, tmp_path / "b")
    database = tmp_path / "elsewhere/data/hopsyncd.db"
    stage_restore(database, done.name, done, verify_copy, NOW_MS)
    restored = finish_restore(database, NOW_MS)
    assert restored and (restored.version, restored.replaced) == (6, None)
    with closing(open_writer(database)) as connection:
        newest = read_head(connection)
        assert newest and newest.id == 6


def test_the_backup_process_reports_the_new_and_the_removed_backups(
    stack: Stack, tmp_path: Path
) -> None:
    database, folder = tmp_path / "data/hopsyncd.db", tmp_path / "b"
    order = asdict(BackupOrder(str(database), str(folder), 1, str(tmp_path / "no.toml")))
    first, second = run_order(order), run_order(order)
    assert second["removed"] == [first["name"]] and second["kept"] == 1


def test_the_process_has_the_lowest_priority(stack: Stack, tmp_path: Path) -> None:
    order = BackupOrder(str(tmp_path / "data/hopsyncd.db"), str(tmp_path / "b"), 1, "")
    process = start_child(COMMAND, {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    end_s = time.monotonic() + 60
    while os.getpriority(os.PRIO_PROCESS, process.pid) != 19:
        assert process.poll() is None and time.monotonic() < end_s
        time.sleep(0.01)
    reply, _ = process.communicate(json.dumps(asdict(order)).encode())
    assert json.loads(reply)["version"] == 6


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    config = check_config(Path("/c.toml"), f'[backup]\ndir = "{tmp_path}/b"\n')
    assert require_folder(config) == tmp_path / "b"
    (tmp_path / "b").mkdir()
    (tmp_path / "b").chmod(0o770)
    with pytest.raises(BadRequest, match=r"its group can write to the folder.*chmod go-w"):
        require_folder(config)


def test_a_restored_data_folder_is_for_its_owner_alone(stack: Stack, tmp_path: Path) -> None:
    done = made(stack, tmp_path / "b")
    database = tmp_path / "home/data/hopsyncd.db"
    before = os.umask(0o002)
    try:
        stage_restore(database, done.name, done, verify_copy, NOW_MS)
        finish_restore(database, NOW_MS)
    finally:
        os.umask(before)
    assert database.parent.stat().st_mode & 0o077 == 0
    assert database.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("at", "cron"), [("3:05", "5 3 * * *"), ("0 3 * * sun", "0 3 * * sun")])
def test_backups_are_made_at_a_time_of_day_or_by_a_cron_expression(at: str, cron: str) -> None:
    assert check_config(Path("/c.toml"), f'[backup]\nat = "{at}"\n').backup.cron == cron


@pytest.mark.parametrize("at", ["25:00", "3", "daily"])
def test_invalid_backup_times_are_refused(at: str) -> None:
    with pytest.raises(ConfigError, match=r"backup\.at|c\.toml:2"):
        check_config(Path("/c.toml"), f'[backup]\nat = "{at}"\n')
