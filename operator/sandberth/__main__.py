"""`python -m sandberth` is the command `sandberth`."""

from sandberth.cli import main

main()
