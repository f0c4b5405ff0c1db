"""Ends the process when its leadership runs out, from a thread of its own: also when the event loop is stuck.

After SIGSTOP and SIGCONT this thread and the event loop wake together. What the loop does in that moment meets the
check before every write; a moment later the process is gone.
"""

import logging
import os
import threading
import time

from sandberth.control.leadership import Leadership

LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.25
_LAST_WORDS_SECONDS = 0.2


def watch(leadership: Leadership) -> None:
    """Start to watch; from the first moment at which the leadership does not hold, the process has milliseconds."""
    threading.Thread(target=_watch, args=(leadership,), name="watchdog", daemon=True).start()


def leave_at_once(reason: str) -> None:
    """End the process with exit code 1; the log line may get lost where stderr blocks, the end may not."""
    words = threading.Thread(target=LOG.critical, args=("The operator leaves at once: %s.", reason), daemon=True)
    words.start()
    words.join(_LAST_WORDS_SECONDS)
    os._exit(1)


def _watch(leadership: Leadership) -> None:
    while not leadership.is_over:
        left = leadership.seconds_left
        if left <= 0 and not leadership.is_over:
            leave_at_once("its Lease was not renewed in time")
        time.sleep(min(left, _LOOK_SECONDS))
