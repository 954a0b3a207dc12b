"""Questions in German, French, Spanish, Chinese and Japanese, with the default models.

python benchmarks/tongues.py

The collection has 36 invented notes about a town, six in each of these languages and in English.
Each language has three questions: one note answers the first, the second needs two notes, and the
third is about the English notes. Cells show the ranks of the needed passages among the first ten,
and the first sentence of `ask`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from common import arguments, table

from hopsyncd.config.configuration import Config
from hopsyncd.config.values import Search, Strategy
from hopsyncd.evaluation.real_folder import index_folder, make_source
from hopsyncd.evaluation.run import DATABASE_NAME
from hopsyncd.models.loading import Models, load_models
from hopsyncd.retrieve.answering.asker import Asker
from hopsyncd.retrieve.engine import Engine
from hopsyncd.retrieve.results import Answer
from hopsyncd.retrieve.walk_settings import WalkSettings
from store.records import PassageId

_DEPTH = 10
_STRATEGIES: tuple[Strategy, ...] = ("hop", "bm25", "dense", "hybrid")

# By tongue and file: the title, and what stands below it.
NOTES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "English": {
        "library": (
            "Elmstead library",
            "The library of Elmstead was designed by Hannah Vogel. It lends out seeds and tools"
            " besides books, and is closed on Mondays.",
        ),
        "architect": (
            "Hannah Vogel",
            "Hannah Vogel studied in Delft. Her first work in the valley was the Willow Bridge.",
        ),
        "bridge": (
            "Willow Bridge",
            "The Willow Bridge was opened in 1911 after four years of work. It carries the road"
            " from the mill to the station.",
        ),
        "ferry": (
            "Ferry",
            "The Elmstead ferry runs every twenty minutes. A bicycle costs 2 crowns, a cart 5.",
        ),
        "mill": (
            "Mill",
            "The mill grinds rye on Thursdays. Its wheel was renewed after the flood.",
        ),
        "council": (
            "Council",
            "The council meets on the first Tuesday of the month. Minutes are kept for ten years.",
        ),
    },
    "German": {
        "bibliothek": (
            "Stadtbibliothek Lindenau",
            "Die Stadtbibliothek von Lindenau wurde von Greta Ahlers entworfen. Sie verleiht außer"
            " Büchern auch Saatgut und Werkzeug und ist montags geschlossen.",
        ),
        "architektin": (
            "Greta Ahlers",
            "Greta Ahlers studierte in Weimar. Ihr erstes Bauwerk im Tal war die Erlenbrücke.",
        ),
        "bruecke": (
            "Erlenbrücke",
            "Die Erlenbrücke wurde nach vier Jahren Bauzeit 1923 eröffnet. Sie trägt die Straße von"
            " der Mühle zum Bahnhof.",
        ),
        "faehre": (
            "Fähre",
            "Die Fähre fährt alle zwanzig Minuten. Ein Fahrrad kostet 3 Taler, ein Karren 6.",
        ),
        "muehle": (
            "Mühle",
            "Die Mühle mahlt donnerstags Roggen. Ihr Rad wurde nach dem Hochwasser erneuert.",
        ),
        "rat": (
            "Gemeinderat",
            "Der Gemeinderat tagt am ersten Dienstag des Monats. Protokolle werden zwölf Jahre"
            " aufbewahrt.",
        ),
    },
    "French": {
        "bibliotheque": (
            "Bibliothèque de Valbrun",
            "La bibliothèque de Valbrun a été dessinée par Odile Sarrazin. Elle prête des graines"
            " et des outils en plus des livres, et ferme le lundi.",
        ),
        "architecte": (
            "Odile Sarrazin",
            "Odile Sarrazin a étudié à Nancy. Son premier ouvrage dans la vallée fut le pont des"
            " Aulnes.",
        ),
        "pont": (
            "Pont des Aulnes",
            "Le pont des Aulnes fut ouvert en 1934 après quatre ans de travaux. Il porte la route"
            " du moulin à la gare.",
        ),
        "bac": (
            "Bac",
            "Le bac passe toutes les vingt minutes. Un vélo coûte 4 sous, une charrette 7.",
        ),
        "moulin": (
            "Moulin",
            "Le moulin moud le seigle le jeudi. Sa roue a été refaite après la crue.",
        ),
        "conseil": (
            "Conseil",
            "Le conseil se réunit le premier mardi du mois. Les procès-verbaux sont conservés"
            " quinze ans.",
        ),
    },
    "Spanish": {
        "biblioteca": (
            "Biblioteca de Robledal",
            "La biblioteca de Robledal fue diseñada por Inés Quiroga. Presta semillas y"
            " herramientas además de libros, y cierra los lunes.",
        ),
        "arquitecta": (
            "Inés Quiroga",
            "Inés Quiroga estudió en Oporto. Su primera obra en el valle fue el puente de los"
            " Alisos.",
        ),
        "puente": (
            "Puente de los Alisos",
            "El puente de los Alisos se abrió en 1946 tras cuatro años de obras. Lleva el camino"
            " del molino a la estación.",
        ),
        "barca": (
            "Barca",
            "La barca pasa cada veinte minutos. Una bicicleta cuesta 5 reales, un carro 8.",
        ),
        "molino": (
            "Molino",
            "El molino muele centeno los jueves. Su rueda se renovó después de la riada.",
        ),
        "concejo": (
            "Concejo",
            "El concejo se reúne el primer martes del mes. Las actas se guardan dieciocho años.",
        ),
    },
    "Chinese": {
        "图书馆": (
            "柳溪图书馆",
            "柳溪图书馆由沈若兰设计。除了图书,这里还出借种子和工具,每逢星期一闭馆。",
        ),
        "建筑师": ("沈若兰", "沈若兰曾在南京求学。她在山谷里的第一件作品是白杨桥。"),
        "桥": ("白杨桥", "白杨桥历时四年,于1957年通车。它连接磨坊与车站。"),
        "渡船": ("渡船", "渡船每二十分钟一班。自行车收费六元,手推车九元。"),
        "磨坊": ("磨坊", "磨坊每逢星期四磨黑麦。洪水过后换了新的水轮。"),
        "议会": ("镇议会", "镇议会在每月第一个星期二开会。会议记录保存二十年。"),
    },
    "Japanese": {
        "図書館": (
            "楡野図書館",
            "楡野図書館は高瀬美穂が設計した。本のほかに種や工具も貸し出しており、月曜日は休館である。",
        ),
        "建築家": ("高瀬美穂", "高瀬美穂は仙台で学んだ。谷での最初の作品は榛の木橋である。"),
        "橋": (
            "榛の木橋",
            "榛の木橋は四年の工事を経て1968年に開通した。水車小屋から駅への道を渡している。",
        ),
        "渡し船": (
            "渡し船",
            "渡し船は二十分ごとに出る。自転車の料金は七文、荷車は十文である。",
        ),
        "水車小屋": (
            "水車小屋",
            "水車小屋では木曜日にライ麦をひく。洪水のあと水車が新しくなった。",
        ),
        "議会": ("町議会", "町議会は毎月最初の火曜日に開かれる。議事録は二十五年間保存される。"),
    },
}


@dataclass(frozen=True)
class Question:
    tongue: str
    text: str
    notes: Sequence[str]  # files that are needed


QUESTIONS = [
    Question("German", "Wie lange werden die Protokolle des Gemeinderats aufbewahrt?", ["rat"]),
    Question(
        "German",
        "In welchem Jahr wurde das erste Bauwerk der Architektin der Stadtbibliothek Lindenau"
        " eröffnet?",
        ["bibliothek", "bruecke"],
    ),
    Question("French", "Combien coûte un vélo sur le bac ?", ["bac"]),
    Question(
        "French",
        "En quelle année fut ouvert le pont dû à celle qui a dessiné la bibliothèque de Valbrun ?",
        ["bibliotheque", "pont"],
    ),
    Question("Spanish", "¿Qué día muele el molino?", ["molino"]),
    Question(
        "Spanish",
        "¿Cuándo se abrió el puente de quien diseñó la biblioteca de Robledal?",
        ["biblioteca", "puente"],
    ),
    Question("Chinese", "会议记录保存多久?", ["议会"]),
    Question("Chinese", "设计柳溪图书馆的人建的桥是哪一年通车的?", ["图书馆", "桥"]),
    Question("Japanese", "自転車の渡し船の料金はいくらですか。", ["渡し船"]),
    Question("Japanese", "楡野図書館を設計した人の橋は何年に開通しましたか。", ["図書館", "橋"]),
    Question("German", "Was kostet ein Fahrrad auf der Fähre von Elmstead?", ["ferry"]),
    Question("French", "Quel jour la bibliothèque d'Elmstead est-elle fermée ?", ["library"]),
    Question("Spanish", "¿Cuándo se abrió el puente de Hannah Vogel?", ["bridge"]),
    Question("Chinese", "Elmstead 图书馆星期几闭馆?", ["library"]),
    Question("Japanese", "Hannah Vogel はどこで学びましたか。", ["architect"]),
]


def main() -> None:
    arguments(__doc__ or "")
    config = Config()
    models = load_models(config)
    with TemporaryDirectory() as scratch:
        folder, place = Path(scratch) / "notes", Path(scratch) / "index"
        for tongue, notes in NOTES.items():
            for name, (title, text) in notes.items():
                file = folder / tongue / f"{name}.md"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"# {title}\n\n{text}\n", encoding="utf-8")
        served = index_folder(place, make_source(folder), config, models.maker)
        engine = Engine(place / DATABASE_NAME, models.encoder, WalkSettings())
        engine.publish(served)
        _show(engine, models)


def _show(engine: Engine, models: Models) -> None:
    asker = Asker(engine, models.encoder, models.language)
    rows = []
    for question in QUESTIONS:
        ranks = [_ranks(engine, question, strategy) for strategy in _STRATEGIES]
        found, reply = asker.ask(question.text, _DEPTH, Search("hop"))
        shown = "not found"
        if found and reply.found:
            shown = "right" if _files(found, reply.passages[:1])[0] in question.notes else "wrong"
        rows.append([question.tongue, question.text, *ranks, shown])
    table(["tongue", "question", *_STRATEGIES, "ask"], rows)


def _ranks(engine: Engine, question: Question, strategy: Strategy) -> str:
    answer = engine.query(question.text, _DEPTH, Search(strategy))
    assert answer is not None
    files = _files(answer, [hit.passage for hit in answer.ranked])
    ranks = [files.index(name) + 1 if name in files else "-" for name in question.notes]
    return ", ".join(map(str, ranks))


def _files(answer: Answer, passages: Sequence[PassageId]) -> list[str]:
    return [Path(answer.places[passage][0].document).stem for passage in passages]


if __name__ == "__main__":
    main()
