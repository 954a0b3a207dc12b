"""Loads the extension sqlite-vec."""

import sqlite3

import sqlite_vec


def load_extension(connection: sqlite3.Connection) -> None:
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    connection.enable_load_extension(False)
