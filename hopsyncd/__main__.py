"""`python -m hopsyncd`."""

from hopsyncd.cli.main import main

main()
