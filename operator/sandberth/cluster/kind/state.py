"""What a kind bed remembers between commands."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self


@dataclass(slots=True)
class KindState:
    """The state file; a bed is `complete` once `up` has got through."""

    nodes: int
    image: str
    programs_directory: str
    server: str = ""
    complete: bool = False

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the stored state, None when there is none or it cannot be read (cut short by a full disk)."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Store the state as a whole or not at all."""
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(self), indent=1))
        unfinished.replace(path)
