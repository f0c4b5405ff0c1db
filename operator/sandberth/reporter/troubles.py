"""What may go wrong for long, told in as few lines as there are changes."""

import logging


class Trouble:
    """One thing that can be in trouble: a warning when that begins or gets another cause, a line when it is over."""

    def __init__(self, log: logging.Logger, over: str) -> None:
        self._log = log
        self._over = over
        self.cause = ""  # "" while nothing is wrong

    def begin(self, cause: str, text: str) -> None:
        """Log the text, unless this cause is the one already told."""
        if cause != self.cause:
            self._log.warning("%s", text)
        self.cause = cause

    def end(self) -> None:
        """Log that it is over, if anything was wrong."""
        if self.cause:
            self._log.info("%s", self._over)
        self.cause = ""
