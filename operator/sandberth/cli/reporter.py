"""`sandberth reporter`."""


def run_reporter() -> None:
    """Report nodes."""
