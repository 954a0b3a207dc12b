"""Analyses text: words, dates, abbreviations and languages. Several packages use it."""
