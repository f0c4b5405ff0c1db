"""Which nodes of a bed Sandberth has not reported yet."""

from sandberth.cluster.api import BedApi
from sandberth.kube import names


def unreported_nodes(api: BedApi) -> list[str]:
    """Return the Nodes that no NodeCapacity reports: a report of an earlier node of the same name does not count."""
    nodes = api.get("/api/v1/nodes")["items"]
    found = api.get(f"/apis/{names.API_VERSION}/{names.NODECAPACITIES}")["items"]
    reported = {each.get("status", {}).get("report", {}).get("nodeUID") for each in found}
    return [node["metadata"]["name"] for node in nodes if node["metadata"]["uid"] not in reported]
