"""The web as a source: pages, and the pages that sitemaps, feeds and start pages list."""
