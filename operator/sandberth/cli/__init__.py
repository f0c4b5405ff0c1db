"""The commands."""

from sandberth.cli.root import main

__all__ = ["main"]
