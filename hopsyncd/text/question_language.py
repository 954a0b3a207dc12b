"""Recognizes the language of a short text by its script and its function words.

Questions are too short for letter statistics, but nearly all of them have a function word that only
one language has, such as the German "wann" or the Spanish "dónde".
"""

import re
import unicodedata
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

Language = Literal["en", "de", "fr", "es", "it", "nl", "pt", "ja", "zh", "ko", "ru"]

# If languages are equally likely, the first is taken.
_WORDS: dict[Language, tuple[str, ...]] = {
    "en": (
        "the a an this that these those his her its their he she it they we i you me my our",
        "your us in on at of for and or but with by from as is was are were be been to not no",
        "who whom whose what which when where why how do does did have has had can could will",
        "would should shall may might must if than then there here about into over between",
        "through out up down off so such any some all both each other more most many much few",
        "also only am any please",
    ),
    "de": (
        "der die das den dem des ein eine einen einem einer eines kein keine keinen keiner",
        "ich du er sie es wir ihr mich mir dich dir ihn ihm uns euch sich mein meine meinen",
        "meiner unser unsere unserer unseren sein seine seinen seiner ihre ihren ihrem ihrer",
        "und oder aber denn weil dass daß ob wenn als wie wer wen wem wessen was wann wo",
        "woher wohin warum wieso weshalb welche welcher welches welchen welchem wieviel worin",
        "wovon womit wofür worüber woran ist sind war waren bin bist seid wird werden wurde",
        "wurden worden hat haben hatte hatten habe kann können konnte konnten könnte muss",
        "müssen musste soll sollen sollte darf dürfen will wollen wollte möchte mag gibt gab",
        "in im an am auf aus bei beim mit nach von vom zu zum zur für über unter vor zwischen",
        "durch gegen ohne um bis seit während trotz nicht nichts nur auch noch schon sehr",
        "mehr man hier dort da dann dies diese dieser dieses diesen jede jeder jedes alle",
        "bitte lange viel viele",
    ),
    "fr": (
        "le la les l un une des du de d et ou mais donc car ne n pas plus que qu qui quoi",
        "quel quelle quels quelles quand où comment pourquoi combien lequel laquelle est sont",
        "était étaient suis es êtes sommes a ont avait avaient ai as avons avez être avoir",
        "fut sera seront peut peuvent pouvait dois doit doivent faut fait font je j tu il",
        "elle on nous vous ils elles me m te t se s lui leur leurs mon ma mes ton ta tes son",
        "sa ses notre nos votre vos ce c cet cette ces ça cela dans en sur sous avec sans",
        "pour par chez vers entre depuis pendant avant après au aux y si très aussi même tout",
        "toute tous toutes quelque",
    ),
    "es": (
        "el la los las lo un una unos unas del de al a y e u pero sino que qué quien quién",
        "quiénes cual cuál cuáles cuando cuándo donde dónde adónde como cómo cuanto cuánto",
        "cuánta cuántos cuántas por para porque con sin sobre entre desde hasta hacia en es",
        "son era eran fue fueron soy eres somos está están estaba estoy ser estar ha han",
        "había he hay tiene tienen tengo puede pueden puedo debe deben debo hace hacen hizo",
        "se me te le les nos yo tú él ella ellos ellas usted ustedes mi mis tu tus su sus",
        "nuestro nuestra nuestros no ni sí si más muy también este esta esto estos estas ese",
        "esa eso esos cada todo toda todos todas ya",
    ),
    "nl": (
        "de het een der van voor in op aan met bij uit naar over onder tussen door tegen",
        "zonder om tot sinds tijdens en of maar want omdat dat dit die deze wie wat waar",
        "wanneer waarom hoe welke welk hoeveel waarvoor waarmee is zijn was waren ben bent",
        "wordt worden werd werden heeft hebben had hadden heb kan kunnen kon konden moet",
        "moeten moest mag mogen zal zullen zou wil ik jij je hij zij ze wij we jullie u mij",
        "me hem haar ons onze hun mijn jouw zijn er niet geen ook nog al zeer meer te men",
        "daar hier dan als toen",
    ),
    "pt": (
        "o a os as um uma uns umas do da dos das de no na nos nas ao à aos às pelo pela e ou",
        "mas que quem qual quais quando onde aonde como porque porquê por quê quanto quanta",
        "quantos quantas para com sem sobre entre desde até em é são era eram foi foram sou",
        "somos está estão estava ser estar tem têm tinha tenho há pode podem posso deve devem",
        "devo faz fazem fez se me te lhe eu tu você vocês ele ela eles elas nós meu minha",
        "meus seu sua seus suas nosso nossa não nem sim mais muito também este esta isto esse",
        "essa isso cada todo toda todos todas já",
    ),
    "it": (
        "il lo la i gli le l un uno una del dello della dei degli delle di d al allo alla ai",
        "agli alle a da dal dalla in nel nella nei nelle con su sul sulla per tra fra e ed ma",
        "che chi cosa quale quali quando dove dov come perché quanto quanta quanti quante è",
        "sono era erano sei siamo essere ha hanno aveva ho hai abbiamo avere fu può possono",
        "posso deve devono devo fa fanno si mi ti ci vi ne io tu lui lei noi voi loro mio mia",
        "miei suo sua suoi nostro nostra non più anche molto questo questa questi queste quel",
        "quello quella ogni tutto tutti c",
    ),
}
_FUNCTION_WORDS = MappingProxyType(
    {language: frozenset(" ".join(lines).split()) for language, lines in _WORDS.items()}
)
# Words that begin questions or are in most of them count more.
_ASKING = frozenset(
    (
        "who what when where why how which wer wann wo warum wieso weshalb wie was wem wen welche"
        " welcher welches welchen qui quoi quel quelle quand où comment pourquoi combien quién"
        " quiénes qué cuál cuándo dónde cómo cuánto cuánta cuántos cuántas chi cosa quale dove"
        " perché quanto quanti wie wat waar wanneer waarom hoe welke hoeveel quem qual"
        " onde porquê quantos"
    ).split()
)
_MARKS: dict[Language, str] = {  # letters and signs that few of these languages have
    "de": "ßäöü",
    "fr": "çœêèàûîôë",
    "es": "ñ¿¡",
    "it": "ìòù",
    "pt": "ãõ",
}
_WORD = re.compile(r"[^\W\d_]+")
_ALONE = re.compile(r"(?<![\w./-])[^\W\d_]+(?![\w/-]|\.\w)")  # no part of a path or a code
_SCRIPTS: tuple[tuple[Language, str], ...] = (
    ("ja", r"[\u3040-\u30ff\uff66-\uff9f]"),
    ("ko", r"[\uac00-\ud7af\u1100-\u11ff]"),
    ("zh", r"[\u3400-\u9fff]"),
    ("ru", r"[\u0400-\u04ff]"),
)


@lru_cache(1024)
def recognise_language(text: str) -> Language | None:
    """Return the language of a question or a sentence, or None if no known language fits.

    >>> recognise_language("Wann wurde die Brücke eröffnet?"), recognise_language("NATS server")
    ('de', None)
    """
    text = unicodedata.normalize("NFC", text)
    for language, script in _SCRIPTS:
        if re.search(script, text):
            return language
    scores = _score_languages(_WORD.findall(text.lower()), text.lower())
    best = max(scores.values())
    return next(language for language, score in scores.items() if score == best) if best else None


def _score_languages(words: list[str], text: str) -> dict[Language, float]:
    """Return a score for each language. A word counts less if other languages also have it."""
    scores = dict.fromkeys(_FUNCTION_WORDS, 0.0)
    for word in words:
        languages = [language for language, listed in _FUNCTION_WORDS.items() if word in listed]
        worth = (2.0 if word in _ASKING else 1.0) / max(len(languages), 1)
        for language in languages:
            scores[language] += worth
    for language, marks in _MARKS.items():
        if any(mark in text for mark in marks):
            scores[language] += 0.5
    return scores


def list_foreign_function_words(text: str) -> frozenset[str]:
    """Return the function words of the text's language. For English or an unknown language, returns
    an empty set.
    """
    language = recognise_language(text)
    if language is None or language == "en":
        return frozenset()
    return _FUNCTION_WORDS.get(language, frozenset())


def drop_foreign_function_words(text: str) -> str:
    """Remove the function words of the text's language, unless the language is English or no word
    would remain.

    >>> drop_foreign_function_words("Wann wurde die Brücke eröffnet?").split()
    ['Brücke', 'eröffnet?']
    """
    foreign = list_foreign_function_words(text)
    if not foreign:
        return text

    def keep(match: re.Match[str]) -> str:
        is_abbreviation = len(match[0]) > 1 and match[0].isupper() and not text.isupper()
        return " " if match[0].lower() in foreign and not is_abbreviation else match[0]

    remaining = _ALONE.sub(keep, text)
    return remaining if _WORD.search(remaining) else text
