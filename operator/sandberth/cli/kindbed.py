"""What `sandberth cluster` does with a kind bed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import typer

from sandberth.cli.outcome import interruptible, one_line_errors, this_command

if TYPE_CHECKING:
    from sandberth.cluster.kind.deploy import Sample
    from sandberth.cluster.progress import Progress


class TimedProgress:
    """Passes everything on, and remembers how long each step took."""

    def __init__(self, shown: "Progress") -> None:
        self._shown = shown
        self.steps: list[tuple[str, float]] = []

    def say(self, line: str) -> None:
        """Tell one fact."""
        self._shown.say(line)

    def step(self, label: str) -> AbstractContextManager[None]:
        """Show the step, and note its time when it has got through."""
        return self._timed(label)

    @contextmanager
    def _timed(self, label: str) -> Iterator[None]:
        began = time.monotonic()
        with self._shown.step(label):
            yield
        self.steps.append((label, time.monotonic() - began))


def up(name: str, workers: int, node_image: str, *, operator: bool, build: bool, samples: bool) -> None:
    """Start the bed, put Sandberth into it, and say where what runs and how long each step took."""
    with one_line_errors(), interruptible():
        from sandberth.cluster.kind.cluster import KindCluster  # noqa: PLC0415
        from sandberth.cluster.kind.deploy import apply_samples, deploy  # noqa: PLC0415
        from sandberth.cluster.progress import progress_for_stderr  # noqa: PLC0415

        began = time.monotonic()
        progress = TimedProgress(progress_for_stderr())
        bed = KindCluster.up(name, workers=workers, image=node_image, progress=progress)
        running: list[Sample] = []
        if operator:
            deploy(bed, progress, build=build)
            if samples:
                running = apply_samples(bed, progress)
        status = bed.status()
    typer.echo("\n".join(["", *time_lines(progress.steps, time.monotonic() - began), ""]))
    typer.echo("\n".join(container_lines(status, status["nodes"])))
    if running:
        typer.echo("\n".join(["", *sample_lines(running)]))
    selector = "" if name == "default" else f" --name {name}"
    typer.echo(f"\nbed {name} is up at {bed.server}")
    typer.echo(f'point your shell at it:  eval "$({this_command()} cluster env{selector})"')
    if operator:
        typer.echo("look at it:              kubectl get nodecapacities,sandboxes -A -o wide")
    typer.echo(f"stop it:                 {this_command()} cluster down{selector}")


def build() -> None:
    """Build the images of the nodes and of Sandberth. Raises ClusterError."""
    from sandberth.cluster.kind.docker import find_docker  # noqa: PLC0415
    from sandberth.cluster.kind.image import DEFAULT_TAG, build_image  # noqa: PLC0415
    from sandberth.cluster.kind.nodeimage import AUTO, ensure_node_image  # noqa: PLC0415
    from sandberth.cluster.programs import ensure_programs  # noqa: PLC0415
    from sandberth.cluster.progress import progress_for_stderr  # noqa: PLC0415

    docker, progress = find_docker(), progress_for_stderr()
    ensure_programs(("kind", "kubectl"), progress)
    node_image = ensure_node_image(docker, AUTO, progress)
    build_image(docker, progress)
    typer.echo(f"Docker has {node_image} and {DEFAULT_TAG}")


def image(tag: str, base: str | None) -> None:
    """Build the image of Sandberth and say how large it is. Raises ClusterError."""
    from sandberth.cluster.kind.docker import find_docker  # noqa: PLC0415
    from sandberth.cluster.kind.image import build_image  # noqa: PLC0415
    from sandberth.cluster.progress import progress_for_stderr  # noqa: PLC0415

    docker = find_docker()
    identity = build_image(docker, progress_for_stderr(), tag, base)
    size = int(docker.run("image", "inspect", "--format", "{{.Size}}", tag))
    typer.echo(f"{tag} is {identity}, {size / 1e6:.0f} MB")


def load(name: str, images: Sequence[str]) -> None:
    """Load images of this machine's Docker into the bed. Raises ClusterError."""
    from sandberth.cluster.errors import ClusterError  # noqa: PLC0415
    from sandberth.cluster.kind.cluster import KindCluster  # noqa: PLC0415
    from sandberth.cluster.progress import progress_for_stderr  # noqa: PLC0415

    bed = KindCluster.find(name)
    if bed is None:
        raise ClusterError(f"there is no kind bed {name}; start it with: {KindCluster(name).start_command}")
    bed.load(images, progress_for_stderr())
    typer.echo(f"every running node of bed {name} has {', '.join(images)}")


def time_lines(steps: Sequence[tuple[str, float]], total_seconds: float) -> list[str]:
    """Return a table of the steps and their seconds."""
    rows = [*steps, ("everything", total_seconds)]
    width = max(len(label) for label, _ in rows)
    return [f"{'STEP':<{width}}  SECONDS", *(f"{label:<{width}}  {seconds:>7.1f}" for label, seconds in rows)]


def sample_lines(samples: Sequence["Sample"]) -> list[str]:
    """Return a table of the Sandboxes and their nodes."""
    rows = [f"{each.name:<12}  {each.phase:<9}  {each.node}" for each in samples]
    return [f"{'SANDBOX':<12}  {'PHASE':<9}  NODE", *rows]


def container_lines(report: dict[str, Any], nodes: dict[str, int] | None) -> list[str]:
    """Return a table of the nodes' containers, and how to start what is stopped."""
    containers = report["containers"]
    width = max((len(each["name"]) for each in containers), default=4)
    lines = [f"{'NODE':<{width}}  CONTAINER"]
    lines += [f"{each['name']:<{width}}  {'running' if each['running'] else 'stopped'}" for each in containers]
    if report["state"] != "up" or nodes is None:
        selector = "" if report["name"] == "default" else f" --name {report['name']}"
        lines += ["", f"start what is stopped with: {this_command()} cluster up --provider kind{selector}"]
    return lines
