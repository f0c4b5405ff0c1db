"""Whether a Sandbox may run at all, and what it then asks of a node.

The API server refused most of what is wrong at apply. This is the second look: it also knows the policy's parameters,
the RuntimeClass and the claimed volumes, and it stands where a policy was missing when the Sandbox was stored.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from sandberth.control.state import State
from sandberth.control.tracks import Track
from sandberth.core.constraints import Term
from sandberth.core.fit import Ask
from sandberth.kube import names
from sandberth.kube.building import ask_of
from sandberth.kube.constraints import RuntimeClass, volume_terms
from sandberth.kube.errors import ApiError
from sandberth.kube.paths import claim_path, namespace_path, runtime_class_path, volume_path
from sandberth.kube.pods import PodSpecError
from sandberth.kube.sandbox import Sandbox
from sandberth.kube.template import claims_of, parse_host_features, sandbox_refusals

_MOST_CLAIMS = 16  # looked up for one placement; of the others kube-scheduler tells


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
            runtime_class, claims = await self._runtime_class(sandbox), claims_of(sandbox.spec)
            ask = ask_of(sandbox.spec, runtime_class, await self._volumes(sandbox.namespace, claims))
        except PodSpecError as error:
            return Verdict(None, str(error))
        if runtime_class is None and not claims:
            track.ask = (sandbox.generation, ask)
        return Verdict(ask)

    async def _allowed_host_features(self) -> frozenset[str]:
        own = await self._state.api.get(namespace_path(self._state.settings.namespace))
        annotations = (own or {"metadata": {}})["metadata"].get("annotations") or {}
        return parse_host_features(annotations.get(names.HOST_FEATURES_ANNOTATION))

    async def _volumes(self, namespace: str, claims: list[str]) -> tuple[tuple[Term, ...], ...]:
        """Return where the volumes can be mounted that the claims are bound to already.

        kube-scheduler has the last word and knows more, but it would be asked in vain, node by node.
        """
        found: list[tuple[Term, ...]] = []
        for name in claims[:_MOST_CLAIMS]:
            claim = await self._if_readable(claim_path(namespace, name))
            volume_name = (claim.get("spec") or {}).get("volumeName")
            if volume_name:
                terms = volume_terms(await self._if_readable(volume_path(volume_name)))
                if terms is not None:
                    found.append(terms)
        return tuple(found)

    async def _if_readable(self, path: str) -> dict[str, Any]:
        try:
            return await self._state.api.get(path) or {}
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                return {}
            raise

    async def _runtime_class(self, sandbox: Sandbox) -> RuntimeClass | None:
        template = sandbox.spec.pod_template
        name = template.spec.get("runtimeClassName") if template is not None else None
        if not isinstance(name, str) or not name:
            return None
        found = await self._state.api.get(runtime_class_path(name))
        if found is None:
            raise PodSpecError(f"podTemplate.spec.runtimeClassName: there is no RuntimeClass {name}")
        return msgspec.convert(found, RuntimeClass)
