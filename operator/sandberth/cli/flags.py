"""`sandberth flags`: which flags are in force, and what is wrong with the ConfigMap."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sandberth.kube import names

_NARROW = 110


class Output(StrEnum):
    """The forms of an answer."""

    TABLE = "table"
    JSON = "json"


def show_flags(
    kubeconfig: Annotated[Path | None, typer.Option(envvar="SANDBERTH_KUBECONFIG", help="Kubeconfig.")] = None,
    namespace: Annotated[
        str, typer.Option(envvar="SANDBERTH_NAMESPACE", help="Namespace of the ConfigMap.")
    ] = names.NAMESPACE,
    output: Annotated[Output, typer.Option("--output", "-o", help="table or json.")] = Output.TABLE,
) -> None:
    """Show every feature flag as the ConfigMap has it now, its default, and what it means.

    A value that cannot be read shows as (last good), in JSON as null: the operator alone knows what it was before.

    Example: sandberth flags --output json
    """
    import asyncio  # noqa: PLC0415 - keeps --help quick
    import json  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from sandberth.flags import Flags, read  # noqa: PLC0415

    reading = read(asyncio.run(_data(kubeconfig, namespace)), Flags())
    values: dict[str, str | None] = dict(reading.flags.by_key())
    values |= dict.fromkeys((problem.key for problem in reading.problems), None)
    defaults = Flags().by_key()
    kept = "the operator stays at its last good value, see its metric sandberth_flag"
    for problem in reading.problems:
        typer.echo(f"sandberth: {problem.key}={problem.value}: {problem.message}; {kept}", err=True)
    for key in reading.unknown:
        typer.echo(f"sandberth: {key} is no flag that Sandberth knows", err=True)
    if output is Output.JSON:
        typer.echo(json.dumps(values, indent=2))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("FLAG", "VALUE", "DEFAULT"):
        table.add_column(heading, no_wrap=True, overflow="ignore")  # a key must stay whole to be copied
    table.add_column("MEANING", overflow="fold", min_width=20)
    for field in Flags.model_fields.values():
        key = field.alias or ""
        table.add_row(key, values[key] or "(last good)", defaults[key], field.description)
    console = Console()
    console.print(table, soft_wrap=console.width < _NARROW)


async def _data(kubeconfig: Path | None, namespace: str) -> dict[str, str] | None:
    from sandberth.kube.client import Client  # noqa: PLC0415
    from sandberth.kube.errors import ApiError  # noqa: PLC0415
    from sandberth.kube.kubeconfig import cluster_access  # noqa: PLC0415
    from sandberth.kube.paths import configmap_path  # noqa: PLC0415

    async with Client(cluster_access(kubeconfig)) as client:
        try:
            body = await client.get(configmap_path(namespace, names.FLAGS_CONFIGMAP))
        except ApiError as error:
            if error.not_found:
                return None
            raise
    data: dict[str, str] = body.get("data") or {}
    return data
