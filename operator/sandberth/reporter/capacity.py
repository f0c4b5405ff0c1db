"""NodeCapacities as a reporter needs them: whose they are and how far their reports have come.

The lists of sandboxes in them are not kept: every own report comes back as an event.
"""

import msgspec

from sandberth.kube.store import Key


class _Slim(msgspec.Struct, rename="camel", gc=False):
    pass


class _Owner(_Slim):
    kind: str = ""
    uid: str = ""


class _Metadata(_Slim):
    name: str
    uid: str
    resource_version: str
    owner_references: list[_Owner] | None = None


class _Report(_Slim):
    epoch: int = 0
    sequence: int = 0


class _Status(_Slim):
    report: _Report | None = None


class _NodeCapacity(_Slim):
    metadata: _Metadata
    status: _Status | None = None


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """One version of one NodeCapacity; epoch and sequence are 0 where it holds no report."""

    uid: str
    name: str
    resource_version: int
    node_uid: str | None  # of the Node that owns it
    epoch: int
    sequence: int


_DECODER = msgspec.json.Decoder(_NodeCapacity)


def decode_capacity(content: bytes) -> Capacity:
    """Return what is kept of a NodeCapacity in JSON. Raises msgspec.MsgspecError or ValueError on what is none."""
    decoded = _DECODER.decode(content)
    metadata = decoded.metadata
    report = decoded.status.report if decoded.status else None
    return Capacity(
        uid=metadata.uid,
        name=metadata.name,
        resource_version=int(metadata.resource_version),
        node_uid=next((owner.uid for owner in metadata.owner_references or () if owner.kind == "Node"), None),
        epoch=report.epoch if report else 0,
        sequence=report.sequence if report else 0,
    )


def capacity_key(capacity: Capacity) -> Key:
    """Return the key of a NodeCapacity for a Store."""
    return Key(capacity.uid, "", capacity.name, capacity.resource_version)
