"""The models that answer after a change of the configuration."""

import json
from contextlib import closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from structlog.testing import capture_logs

from hopsyncd.api.model_reload import ModelReload, has_other_models
from hopsyncd.api.serving import ServingState
from hopsyncd.config.configuration import Config
from hopsyncd.errors import ModelUnavailable
from hopsyncd.ingest.generation_switch import GenerationSwitch
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.generations import FILE_NAME, load_serving_models
from hopsyncd.models.llm.budget import LlmContext, Usage
from hopsyncd.models.loading import Models
from store.exceptions import NotAcknowledged
from store.records import Passage
from tests.fakes.memory import MemoryConnector
from tests.fakes.stack import Stack

ENDPOINT = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no process that finds names: it would outlive the test."""
    monkeypatch.setattr("hopsyncd.models.loading._LANGUAGE_AFTER_S", 3600.0)


def pipeline(folder: Path, version: str) -> str:
    """A pipeline that can be named, though not run."""
    folder.mkdir(exist_ok=True)
    meta = {"lang": "en", "name": "other", "version": version}
    (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    return str(folder)


def config(data_dir: Path, **sections: dict[str, object]) -> Config:
    return Config.model_validate({"daemon": {"data_dir": str(data_dir)}, **sections})


def name_of(models: Models) -> str:
    return models.maker.generation.name


def test_the_models_in_use_answer_until_those_of_a_changed_configuration_are_ready(
    tmp_path: Path,
) -> None:
    first = load_serving_models(config(tmp_path, models={"language_model": "default"}))
    assert first.next is None
    other = pipeline(tmp_path / "other", "1")
    changed = config(tmp_path, models={"language_model": other, "workers": 1})
    switching = load_serving_models(changed, name_of(first))
    assert name_of(switching) == name_of(first)
    assert switching.next is not None
    assert name_of(switching.next) != name_of(first)
    assert switching.encoder is switching.next.encoder  # it has not changed, and is loaded once
    assert load_serving_models(changed, name_of(switching.next)).next is None
    # Back again, before or after the switch.
    back = load_serving_models(config(tmp_path), name_of(first))
    assert (name_of(back), back.next) == (name_of(first), None)
    back = load_serving_models(config(tmp_path), name_of(switching.next))
    assert name_of(back) == name_of(switching.next)
    assert back.next is not None and name_of(back.next) == name_of(first)


def test_the_first_switch_of_an_older_database_knows_the_default_models(tmp_path: Path) -> None:
    first = load_serving_models(config(tmp_path))
    (tmp_path / FILE_NAME).unlink()
    other = pipeline(tmp_path / "other", "1")
    models = load_serving_models(config(tmp_path, models={"language_model": other}), name_of(first))
    assert name_of(models) == name_of(first)
    assert models.next is not None


def test_former_models_that_changed_or_are_gone_are_not_used(tmp_path: Path) -> None:
    folder = pipeline(tmp_path / "other", "1")
    first = load_serving_models(config(tmp_path, models={"language_model": folder}))
    pipeline(tmp_path / "other", "2")
    assert load_serving_models(config(tmp_path), name_of(first)).next is None
    (tmp_path / "other/meta.json").unlink()
    with capture_logs() as logs:
        assert load_serving_models(config(tmp_path), name_of(first)).next is None
    assert any("cannot be loaded" in line["event"] for line in logs)


@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"%s": 1}', b"\xff"])
def test_a_damaged_file_of_settings_is_no_obstacle(tmp_path: Path, damage: bytes) -> None:
    name = name_of(load_serving_models(config(tmp_path)))
    (tmp_path / FILE_NAME).write_bytes(damage.replace(b"%s", name.encode()))
    assert name_of(load_serving_models(config(tmp_path), name)) == name


def test_a_former_llm_is_not_asked_any_more(tmp_path: Path) -> None:
    """Not even if its endpoint is still there: its questions are about to be replaced."""
    asked = load_serving_models(config(tmp_path, llm={**ENDPOINT, "questions": "llm"}))
    models = load_serving_models(config(tmp_path), name_of(asked))
    assert name_of(models) == name_of(asked)
    assert models.next is not None and models.llm is None
    passage, usage = Passage((), "Rome."), Usage()
    context = LlmContext("notes", usage, lambda: True)
    results = [one for made in models.maker.make_each([passage], context) for one in made]
    assert [(found, getattr(got, "kind", None)) for found, got in results] == [(passage, "queued")]
    assert usage.calls == 0


def test_the_endpoint_of_former_vectors_is_asked_only_while_it_is_configured(
    tmp_path: Path,
) -> None:
    api: dict[str, object] = {"encoder": "a", "encoder_url": "http://127.0.0.1:9/v1"}
    first = load_serving_models(config(tmp_path, models=api))
    (name,) = json.loads((tmp_path / FILE_NAME).read_text(encoding="utf-8"))
    assert name.endswith(first.encoder.name)
    with capture_logs() as logs:
        assert load_serving_models(config(tmp_path), name).next is None
    assert any("so it is not used" in line["event"] for line in logs)
    same = load_serving_models(config(tmp_path, models={**api, "encoder": "b"}), name)
    assert same.encoder.name == first.encoder.name
    assert same.next is not None
    for models in (first, same):
        models.close()


def test_a_switch_tries_again_unless_it_may_have_been_committed(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "a.db", MemoryConnector({"a.md": b"Rome is in Italy."}))
    stack.sync()
    errors = [ModelUnavailable("No", "gone", ""), NotAcknowledged("No", "unwritten", "")]

    def open_writer() -> VersionWriter:
        raise errors.pop(0)

    clock_s = count(step=100.0)
    switch = GenerationSwitch(stack.connection, open_writer, clock_s=lambda: next(clock_s))
    with closing(stack):
        assert switch.run(lambda: True) is None
        assert "gone" in (switch.progress.problem or "")
        with pytest.raises(NotAcknowledged):
            switch.run(lambda: True)


def test_models_are_reloaded_only_if_they_answer_from_the_vectors_in_use(tmp_path: Path) -> None:
    held = config(tmp_path)
    first = load_serving_models(held)
    other = pipeline(tmp_path / "other", "1")
    wanted = config(tmp_path, models={"language_model": other}, query={"k": 3})
    assert has_other_models(held, wanted)
    assert not has_other_models(held, config(tmp_path, query={"k": 3}))
    serving = cast("ServingState", SimpleNamespace(models=first, config=held))
    loaded = ModelReload(load_serving_models).load(serving, wanted)
    assert loaded is not None and loaded.next is not None
    assert name_of(loaded) == name_of(first)
    # The pipeline of the vectors in use is gone meanwhile.
    switched = cast("ServingState", SimpleNamespace(models=loaded.next, config=wanted))
    (Path(other) / "meta.json").unlink()
    assert ModelReload(load_serving_models).load(switched, held) is None
    with pytest.raises(ModelUnavailable, match="spaCy model"):
        ModelReload(load_serving_models).load(serving, wanted)
