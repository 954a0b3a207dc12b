"""config.toml: one typed model, and every mistake with its line and a suggestion."""
