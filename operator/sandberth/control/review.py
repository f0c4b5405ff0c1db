"""Whether a Sandbox may run at all, and what it then asks of a node.

The API server refused most of what is wrong at apply. This is the second look: it also knows the policy's parameters
and the RuntimeClass, and it stands where a policy was missing when the Sandbox was stored.
"""

from dataclasses import dataclass

import msgspec

from sandberth.control.state import State
from sandberth.control.tracks import Track
from sandberth.core.fit import Ask
from sandberth.kube import names
from sandberth.kube.building import ask_of
from sandberth.kube.constraints import RuntimeClass
from sandberth.kube.paths import configmap_path, runtime_class_path
from sandberth.kube.pods import PodSpecError
from sandberth.kube.sandbox import Sandbox
from sandberth.kube.template import parse_host_features, sandbox_refusals


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a Sandbox asks for, or (`ask` None) why it may not run."""

    ask: Ask | None
    message: str = ""


class Review:
    """Looks at each version of a spec once; what depends on other objects is looked at again for each placement."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def of(self, sandbox: Sandbox, track: Track) -> Verdict:
        """Return the verdict. Raises ApiError or Unreachable where something it depends on cannot be read."""
        if track.ask is not None and track.ask[0] == sandbox.generation:
            return Verdict(track.ask[1])
        refused = sandbox_refusals(sandbox)
        if refused:
            refused = sandbox_refusals(sandbox, await self._allowed_host_features())
        if refused:
            return Verdict(None, "; ".join(refused))
        try:
            runtime_class = await self._runtime_class(sandbox)
            ask = ask_of(sandbox.spec, runtime_class)
        except PodSpecError as error:
            return Verdict(None, str(error))
        if runtime_class is None:
            track.ask = (sandbox.generation, ask)
        return Verdict(ask)

    async def _allowed_host_features(self) -> frozenset[str]:
        policy = await self._state.api.get(configmap_path(self._state.settings.namespace, names.POLICY_CONFIGMAP))
        data = (policy or {}).get("data") or {}
        return parse_host_features(data.get(names.ALLOWED_HOST_FEATURES_KEY))

    async def _runtime_class(self, sandbox: Sandbox) -> RuntimeClass | None:
        template = sandbox.spec.pod_template
        name = template.spec.get("runtimeClassName") if template is not None else None
        if not isinstance(name, str) or not name:
            return None
        found = await self._state.api.get(runtime_class_path(name))
        if found is None:
            raise PodSpecError(f"podTemplate.spec.runtimeClassName: there is no RuntimeClass {name}")
        return msgspec.convert(found, RuntimeClass)
