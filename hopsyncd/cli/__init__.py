"""The command line. Each module has a group of commands."""
