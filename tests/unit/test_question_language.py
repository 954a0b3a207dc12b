"""The language of a question, and what depends on it: typo correction, function words and names."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hopsyncd.config.values import Search
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.query_context import find_names
from hopsyncd.retrieve.query_words import read_query_words
from hopsyncd.retrieve.results import Answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from hopsyncd.text.question_language import drop_foreign_function_words, recognise_language
from tests.fakes.memory import MemoryConnector
from tests.fakes.models import FakeEncoder
from tests.fakes.stack import Stack

QUESTIONS: Mapping[str | None, tuple[str, ...]] = {
    "en": (
        "When does the ferry leave?",
        "Who is the architect of the library?",
        "How many notes are in the archive?",
        "What did Anna decide about the bridge?",
        "Why was the meeting in Paris moved?",
        "which port does the server use",
        "Where is the spare key to the flat?",
        "In which year did the die come into use?",
        "Who wrote La Traviata?",
        "What does man do on Linux?",
        "Did he die in war?",
        "What is a de facto standard?",
    ),
    "de": (
        "Wann fährt die Fähre ab?",
        "Wer hat die Brücke entworfen?",
        "Wie lange werden Protokolle aufbewahrt?",
        "Warum ist der Server ausgefallen?",
        "Wo liegt der Schlüssel?",
        "Was kostet ein Fahrrad?",
        "Welche Inseln gehören zu Griechenland?",
        "Wann war das Treffen in Paris?",
        "Was hat Hans in Rom gemacht?",
        "wie setze ich das passwort zurück",
    ),
    "fr": (
        "Quand part le bac ?",
        "Qui a dessiné le pont ?",
        "Combien coûte un vélo ?",
        "Pourquoi le serveur est-il tombé en panne ?",
        "Où est la clé ?",
        "Quelle est la date de la réunion ?",
        "comment changer mon mot de passe",
        "Que dit le contrat sur les fenêtres ?",
    ),
    "es": (
        "¿Cuándo sale la barca?",
        "¿Quién diseñó el puente?",
        "¿Cuánto cuesta una bicicleta?",
        "Por qué falló el servidor",
        "donde esta la llave",
        "¿Qué dice el contrato sobre las ventanas?",
        "cómo cambio mi contraseña",
        "¿Cuál es la fecha de la reunión?",
    ),
    "it": (
        "Quando parte il traghetto?",
        "Chi ha progettato il ponte?",
        "Quanto costa una bicicletta?",
        "Perché il server si è fermato?",
        "Dove è la chiave?",
        "Cosa dice il contratto sulle finestre?",
        "come cambio la mia password",
        "Qual è la data della riunione?",
    ),
    "nl": (
        "Wanneer vertrekt de veerboot?",
        "Wie heeft de brug ontworpen?",
        "Hoeveel kost een fiets?",
        "Waarom is de server uitgevallen?",
        "Waar ligt de sleutel?",
        "Wat staat er in het contract over de ramen?",
        "hoe verander ik mijn wachtwoord",
        "Welke dag is de vergadering?",
    ),
    "pt": (
        "Quando parte a balsa?",
        "Quem projetou a ponte?",
        "Quanto custa uma bicicleta?",
        "Por que o servidor parou?",
        "Onde está a chave?",
        "O que diz o contrato sobre as janelas?",
        "como mudo a minha senha",
        "Qual é a data da reunião?",
    ),
    "ja": ("渡し船はいつ出ますか。", "橋を設計したのは誰ですか。", "鍵はどこ?"),
    "zh": ("渡船几点开?", "谁设计了这座桥?"),
    None: ("NATS server", "Elmstead ferry", "git push -f", "Protokoll 2024", "Roma 1960"),
}

# English notes whose words are one or two letters from function words of other languages.
NOTES = {
    "want.md": b"# Wants\n\nThey want a wager: war, wolf, wit and a wire, when hoe and die.\n",
    "quake.md": b"# Quakes\n\nA quack wrote of the quake; a quantum of comet dust, a donkey.\n",
    "welter.md": b"# Welter\n\nThe welcher hired a waiter; a pork chop, an onyx, a question.\n",
    "Elmstead.md": b"# Elmstead\n\nThe ferry of Elmstead costs two crowns on Mondays.\n",
}


@pytest.mark.parametrize(
    ("language", "text"),
    [(language, text) for language, texts in QUESTIONS.items() for text in texts],
)
def test_the_language_of_a_question_is_detected(language: str | None, text: str) -> None:
    assert recognise_language(text) == language


def test_the_language_of_every_benchmark_question_is_recognised() -> None:
    file = Path(__file__).parents[2] / "benchmarks/languages.json"
    questions = json.loads(file.read_text(encoding="utf-8"))["questions"]
    own = [(language, text) for language, text, _ in questions if language != "across"]
    assert len(own) == 40
    assert [text for language, text in own if recognise_language(text) != language] == []


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    database = tmp_path_factory.mktemp("notes") / "s.db"
    stack = Stack(database, MemoryConnector(NOTES))
    stack.sync()
    engine = Engine(database, FakeEncoder(), WalkSettings())
    engine.publish(stack.writer.make_snapshot(stack.head))
    yield engine
    stack.close()


def ask(engine: Engine, question: str) -> Answer:
    answer = engine.query(question, 3, Search("hop"))
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    "text",
    [
        text
        for language, texts in QUESTIONS.items()
        if language not in ("en", None)
        for text in texts
    ],
)
def test_no_function_word_is_taken_for_an_english_word(notes: Engine, text: str) -> None:
    spelling = ask(notes, text).spelling
    assert spelling.applied == {}
    assert {*spelling.offered} <= {*read_query_words(text).words}


def test_a_typo_in_an_english_question_is_still_corrected(notes: Engine) -> None:
    assert ask(notes, "What does the fery of Elmstead cost?").spelling.applied == {"fery": "ferry"}


@pytest.mark.parametrize(
    ("question", "absent"),
    [
        ("Wann fährt die Fähre nach Elmstead?", {"fährt", "Fähre"}),
        ("Combien coûte le bac à Elmstead ?", {"coûte", "bac"}),
        ("¿Cuánto cuesta la barca de Elmstead?", {"cuesta", "barca"}),
        ("Quanto pesa il traghetto di Elmstead?", {"pesa", "traghetto"}),
        ("Hoeveel kost de veerboot van Elmstead?", {"kost", "veerboot"}),
        ("Quanto custa a balsa de Elmstead?", {"custa", "balsa"}),
    ],
)
def test_function_words_are_not_reported_as_missing(
    notes: Engine, question: str, absent: set[str]
) -> None:
    found = ask(notes, question)
    assert {*found.absent} == absent
    assert found.places[found.ranked[0].passage][0].document == "Elmstead.md"


def test_a_function_word_at_the_beginning_is_no_name() -> None:
    names: Mapping[str, object] = {"die": 0, "hat": 0, "who": 0, "como": 0, "rom": 0, "wo": 0}
    known = names.keys()
    assert find_names("Die Stadt Rom", lambda asked: {*asked} & known) == ["rom"]
    assert find_names("Wo liegt Rom?", lambda asked: {*asked} & known) == ["rom"]
    assert find_names("¿Como se llega?", lambda asked: {*asked} & known) == []
    assert find_names("What is Die?", lambda asked: {*asked} & known) == ["die"]


def test_codes_and_paths_keep_their_parts() -> None:
    text = "Wo steht die Option --die-cache in der/die/das.md und wie.py?"
    left = drop_foreign_function_words(text)
    assert "--die-cache" in left and "der/die/das.md" in left and "wie.py" in left
    assert drop_foreign_function_words("wo ist das") == "wo ist das"
    assert drop_foreign_function_words("Where is the die?") == "Where is the die?"
