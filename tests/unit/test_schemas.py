"""The hand-written CRDs and the pydantic models describe the same objects."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from sandberth.kube import names
from sandberth.kube.nodecapacity import NodeCapacity
from sandberth.kube.sandbox import Sandbox

Schema = Mapping[str, Any]

CRDS = Path(__file__).parents[2] / "crds"
KINDS: list[tuple[str, type[BaseModel]]] = [
    ("sandboxes.sandberth.dev", Sandbox),
    ("nodecapacities.sandberth.dev", NodeCapacity),
]
COMPARED = ("type", "format", "enum", "minimum", "maximum", "default")
COMPARED_WHEN_IN_MODEL = ("minItems", "maxItems", "minLength", "maxLength", "pattern")
INTEGER_WIDTHS = ("int32", "int64")
INT_OR_STRING = "x-kubernetes-int-or-string"


def crd_schema(crd_name: str) -> dict[str, Any]:
    crd = yaml.safe_load((CRDS / f"{crd_name}.yaml").read_text())
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def model_schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def resolved(schema: Schema, definitions: Schema) -> dict[str, Any]:
    """Return the schema with its reference followed and "or null" taken away: in a CRD, null means absent."""
    merged = dict(schema)
    if "$ref" in merged:
        target = definitions[merged.pop("$ref").removeprefix("#/$defs/")]
        merged = {**resolved(target, definitions), **merged}
    alternatives = [option for option in merged.get("anyOf", []) if option != {"type": "null"}]
    if len(alternatives) == 1:
        del merged["anyOf"]
        merged = {**resolved(alternatives[0], definitions), **merged}
    return merged


def stated(schema: Schema) -> dict[str, Any]:
    """Return what both sides must state in the same words."""
    found = {key: schema[key] for key in (*COMPARED, *COMPARED_WHEN_IN_MODEL) if key in schema}
    if found.get("format") in INTEGER_WIDTHS:
        del found["format"]
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if "enum" in found:
        found["enum"] = sorted(found["enum"])
    if found.get("default") in (None, [], {}) or isinstance(found.get("default"), dict):
        found.pop("default", None)  # an object that is left out equals one whose fields are left out
    if schema.get(INT_OR_STRING):
        found["type"] = INT_OR_STRING
    return found


def differences(crd: Schema, model: Schema, definitions: Schema, path: str) -> Iterator[str]:
    model = resolved(model, definitions)
    ours, theirs = stated(model), stated(crd)
    for key in COMPARED + COMPARED_WHEN_IN_MODEL:
        if key in COMPARED_WHEN_IN_MODEL and key not in ours:
            continue
        if ours.get(key) != theirs.get(key):
            yield f"{path}: {key} is {theirs.get(key)!r} in the CRD, {ours.get(key)!r} in the model"
    if crd.get("x-kubernetes-preserve-unknown-fields"):
        if model.get("additionalProperties") is not True:
            yield f"{path}: open in the CRD, closed in the model"
        return
    crd_required, model_required = set(crd.get("required", [])), set(model.get("required", []))
    for name in crd_required ^ model_required:
        yield f"{path}.{name}: required in the {'CRD' if name in crd_required else 'model'} only"
    yield from _member_differences(crd, model, definitions, path)


def _member_differences(crd: Schema, model: Schema, definitions: Schema, path: str) -> Iterator[str]:
    crd_fields, model_fields = crd.get("properties", {}), model.get("properties", {})
    for name in crd_fields.keys() ^ model_fields.keys():
        yield f"{path}.{name}: in the {'CRD' if name in crd_fields else 'model'} only"
    for name in crd_fields.keys() & model_fields.keys():
        yield from differences(crd_fields[name], model_fields[name], definitions, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if (key in crd) != (key in model):
            yield f"{path}: {key} in the {'CRD' if key in crd else 'model'} only"
        elif key in crd:
            yield from differences(crd[key], model[key], definitions, path + mark)


def all_differences(crd: Schema, model: Schema) -> list[str]:
    """Return every difference in spec and status; metadata is Kubernetes' own."""
    definitions = model.get("$defs", {})
    return sorted(
        line
        for part in ("spec", "status")
        for line in differences(crd["properties"][part], model["properties"][part], definitions, part)
    )


@pytest.mark.parametrize(("crd_name", "model"), KINDS)
def test_model_and_crd_agree(crd_name: str, model: type[BaseModel]) -> None:
    found = all_differences(crd_schema(crd_name), model_schema(model))

    assert found == []


def _edit(schema: dict[str, Any], path: str) -> dict[str, Any]:
    node = schema
    for part in path.split("."):
        node = node["items"] if part == "[]" else node["properties"][part]
    return node


@pytest.mark.parametrize(
    ("path", "key", "value", "difference"),
    [
        ("spec", "required", ["image"], "spec.image: required in the CRD only"),
        ("spec.recovery", "default", "Never", "default is 'Never' in the CRD, 'Recreate' in the model"),
        ("spec.recovery", "enum", ["Recreate"], "spec.recovery: enum"),
        ("spec.image", "type", "integer", "type is 'integer' in the CRD, 'string' in the model"),
        ("spec.ports.[].containerPort", "maximum", 65536, "maximum is 65536 in the CRD, 65535 in the model"),
        ("spec.lifetime.startDeadlineSeconds", "minimum", 0, "spec.lifetime.startDeadlineSeconds: minimum"),
        ("spec.lifetime.shutdownTime", "format", "date", "format is 'date'"),
        ("spec.lifetime", "properties", {}, "spec.lifetime.shutdownTime: in the model only"),
        ("spec.resources.cpu", INT_OR_STRING, False, "spec.resources.cpu: type"),
        ("spec.podTemplate.spec", "x-kubernetes-preserve-unknown-fields", False, "containers: in the CRD only"),
        ("status", "properties", {"surprise": {"type": "string"}}, "status.surprise: in the CRD only"),
        ("status.placement.candidates", "maxItems", 11, "maxItems is 11 in the CRD, 10 in the model"),
    ],
)
def test_a_changed_crd_is_noticed(path: str, key: str, value: object, difference: str) -> None:
    crd = copy.deepcopy(crd_schema("sandboxes.sandberth.dev"))
    _edit(crd, path)[key] = value

    found = all_differences(crd, model_schema(Sandbox))

    assert any(difference in line for line in found), found


@pytest.mark.parametrize(("crd_name", "model"), KINDS)
def test_crd_carries_the_names_that_the_code_uses(crd_name: str, model: type[BaseModel]) -> None:
    crd = yaml.safe_load((CRDS / f"{crd_name}.yaml").read_text())["spec"]

    assert crd["group"] == names.GROUP
    assert [version["name"] for version in crd["versions"]] == [names.VERSION]
    assert crd["names"]["kind"] == model.__name__
    assert crd["names"]["plural"] in (names.SANDBOXES, names.NODECAPACITIES)
    assert not {"sandbox", "sbx", "swp"} & set(crd["names"]["shortNames"])


def _undescribed(schema: Schema, path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if "description" not in field:
            yield f"{path}.{name}"
        yield from _undescribed(field, f"{path}.{name}")
        yield from _undescribed(field.get("items", {}), f"{path}.{name}[]")


@pytest.mark.parametrize("crd_name", [name for name, _ in KINDS])
def test_every_field_is_described_for_kubectl_explain(crd_name: str) -> None:
    schema = crd_schema(crd_name)

    found = [line for part in ("spec", "status") for line in _undescribed(schema["properties"][part], part)]

    assert found == []


def _rules(schema: Schema) -> Iterator[Mapping[str, str]]:
    yield from schema.get("x-kubernetes-validations", [])
    for field in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(field, Mapping):
            yield from _rules(field)


def test_immutability_rule_names_every_field_of_the_spec_but_lifetime() -> None:
    schema = crd_schema("sandboxes.sandberth.dev")
    immutable = schema["properties"]["spec"]["properties"].keys() - {"lifetime"}

    rule = schema["x-kubernetes-validations"][0]["rule"]

    assert {field for field in immutable if f"self.spec.{field} == oldSelf.spec.{field}" in rule} == immutable


@pytest.mark.parametrize("crd_name", [name for name, _ in KINDS])
def test_every_rule_has_a_message(crd_name: str) -> None:
    assert [rule["rule"] for rule in _rules(crd_schema(crd_name)) if not rule.get("message")] == []
