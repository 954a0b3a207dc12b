"""Reads the web as a source: single pages, and the pages to which sitemaps, feeds and start pages
link."""
