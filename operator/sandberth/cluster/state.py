"""What a bed remembers between commands: its options, ports and processes."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from sandberth.cluster.processes import Process


@dataclass(frozen=True, slots=True)
class BedOptions:
    """What a bed was asked to be."""

    nodes: int = 3
    node_cpu: str = "192"
    node_memory: str = "512Gi"
    node_pods: int = 500
    scheduler: bool = False
    audit: bool = True

    def differences(self, asked: "BedOptions") -> list[str]:
        """Return what `asked` wants otherwise, such as "nodes is 3, not 10"."""
        mine, theirs = asdict(self), asdict(asked)
        return [f"{key} is {value}, not {theirs[key]}" for key, value in mine.items() if value != theirs[key]]


@dataclass(frozen=True, slots=True)
class Service:
    """One of Sandberth's own programs in a bed: with what it was started, and where it answers probes."""

    process: Process
    port: int
    arguments: list[str]


@dataclass(slots=True)
class BedState:
    """The state file; a bed is `complete` once `up` has got through."""

    options: BedOptions
    programs_directory: str
    complete: bool = False
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)

    @property
    def used_ports(self) -> set[int]:
        """Return the ports that belong to the bed, also while a program is stopped."""
        return {*self.ports.values(), *(service.port for service in self.services.values())}

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Return the stored state, None when there is none or it cannot be read (cut short by a full disk)."""
        try:
            stored = json.loads(path.read_text())
            stored["options"] = BedOptions(**stored["options"])
            stored["processes"] = {name: Process(**each) for name, each in stored["processes"].items()}
            services = stored.get("services", {}).items()  # absent in a file of an older version
            stored["services"] = {
                name: Service(Process(**each["process"]), each["port"], each["arguments"]) for name, each in services
            }
            return cls(**stored)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Store the state as a whole or not at all."""
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(asdict(self), indent=1))
        unfinished.replace(path)
