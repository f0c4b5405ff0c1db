"""Where the CRDs and manifests are: beside the package in a checkout, inside it when it was installed."""

from pathlib import Path

from sandberth.cluster.errors import ClusterError

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "assets", _PACKAGE.parents[1])
LOCAL_OVERLAY = "manifests/overlays/local"


def assets_directory(places: tuple[Path, ...] = _PLACES) -> Path:
    """Return the first folder that holds both `crds` and `manifests`. Raises ClusterError where none does."""
    for place in places:
        if (place / "crds").is_dir() and (place / "manifests").is_dir():
            return place
    raise ClusterError(f"crds and manifests are in none of {', '.join(map(str, places))}; install sandberth anew")
