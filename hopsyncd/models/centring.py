"""Moves an encoder's vectors so that unrelated texts have a cosine near zero.

The vectors of many encoders have a large common component: with E5, unrelated texts have cosines of
0.7 and more. Search combines cosines and words with weights that were fitted to the default
encoder, whose vectors have no such component. The centre is the mean vector of a few fixed texts,
so it depends only on the model and not on the documents.
"""

import numpy as np
from numpy.typing import NDArray

from store.records import GRID

VERSION = "c1"  # Part of the names of encoders. Change it with the texts below.
CENTRE_TEXTS = (
    "Add two spoons of sugar and stir until the mixture is smooth.",
    "The function returns an error if the file does not exist.",
    "Shares of the company fell by four percent after the report.",
    "Patients with high blood pressure should take the tablet in the morning.",
    "The court decided that the contract was void.",
    "The oldest part of the castle dates from the twelfth century.",
    "Der Zug nach Hamburg fährt heute von Gleis sieben ab.",
    "Bitte senden Sie uns das unterschriebene Formular bis Freitag zurück.",
    "Die Forscher maßen die Temperatur des Meerwassers in drei Tiefen.",
    "Le maire a inauguré la nouvelle école du quartier.",
    "Mélangez la farine et les œufs, puis laissez reposer la pâte.",
    "Le moteur s'arrête lorsque la pression d'huile est trop basse.",
    "El equipo ganó el partido en el último minuto.",
    "La reunión se aplaza hasta el próximo martes por la tarde.",
    "Las hojas de este árbol se vuelven rojas en otoño.",
    "Il museo è chiuso il lunedì e nei giorni festivi.",
    "De gemeente repareert volgende week de brug over het kanaal.",
    "O preço do café subiu por causa da seca.",
    "会議は来週の水曜日に延期されました。",
    "この薬は食後に水と一緒に飲んでください。",
    "图书馆每天早上九点开门。",
    "这个软件需要连接网络才能更新。",
    "Поезд опоздал на двадцать минут из-за снега.",
    "한국의 겨울은 춥고 건조합니다.",
)


def compute_centre(vectors: NDArray[np.float32]) -> NDArray[np.int16]:
    """Return the mean direction of the (m, d) vectors of `CENTRE_TEXTS` as a (d,) array of
    integers, in units of 1 / GRID."""
    mean = _normalise(vectors).mean(axis=0)
    centre: NDArray[np.int16] = np.rint(mean * GRID).astype(np.int16)
    return centre


def subtract_centre(vectors: NDArray[np.float32], centre: NDArray[np.int16]) -> NDArray[np.float32]:
    """Subtract the (d,) centre from the directions of the (m, d) vectors. Returns (m, d) vectors of
    length 1."""
    moved = _normalise(vectors) - centre.astype(np.float64) / GRID
    return _normalise(moved).astype(np.float32)


def _normalise(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    wide = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(wide, norms, out=np.zeros_like(wide), where=norms > 0)
    return unit
