"""Reads the web as a source: pages, and the pages listed by sitemaps, feeds and start pages."""
