"""What the models of both kinds are built from: base class, metadata, quantities, timestamps, conditions.

Models read objects that the API server has stored, so unknown fields are ignored and only the bounds a reader
relies on are checked again; sizes of strings and maps are left to the CRDs.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from sandberth.core.quantity import QuantityError

MAX_MESSAGE_LENGTH = 32_768

INT_OR_STRING = {"x-kubernetes-int-or-string": True}


class ApiModel(BaseModel):
    """A frozen piece of an API object: snake_case in Python, camelCase on the wire."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    def to_api(self) -> dict[str, Any]:
        """Return the JSON form with the API's names; absent fields are left out, not null."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def quantity_text(value: object) -> object:
    """Return a number from YAML or JSON as the text of a quantity; anything else unchanged."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


AnyQuantity = Annotated[str, BeforeValidator(quantity_text), WithJsonSchema(INT_OR_STRING)]
"""A quantity that the API takes as a number or a string; add an AfterValidator to bound it."""


def bounded(read: Callable[[str], int], low: int, below: int, message: str) -> Callable[[str], str]:
    """Return a check that a quantity, counted by `read`, lies in [low, below); `message` is the refusal."""

    def check(text: str) -> str:
        try:
            amount = read(text)
        except QuantityError as error:
            raise ValueError(message) from error
        if not low <= amount < below:
            raise ValueError(message)
        return text

    return check


def _cut(message: str) -> str:
    return message[:MAX_MESSAGE_LENGTH]


def _to_second(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


Timestamp = Annotated[AwareDatetime, AfterValidator(_to_second), PlainSerializer(_rfc3339, when_used="json")]
"""An instant as Kubernetes stores it: UTC, whole seconds, so that what is read equals what was written."""

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(ApiModel):
    """One claim about an object, in the shape of metav1.Condition."""

    type: str
    status: ConditionStatus
    reason: str
    message: Annotated[str, AfterValidator(_cut)] = ""  # a longer text would make the whole status invalid
    last_transition_time: Timestamp
    observed_generation: int | None = Field(None, ge=0)


class OwnerReference(ApiModel):
    """Who an object belongs to; only `uid` identifies the owner, its name may have been reused."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(ApiModel):
    """The metadata that Sandberth reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    finalizers: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()


class ApiObject(ApiModel):
    """An object with metadata; the parts that everyone asks for are properties."""

    metadata: ObjectMeta

    @classmethod
    def from_object(cls, obj: Any) -> Self:
        """Return the model of an API object.

        Raises pydantic's ValidationError; `describe` turns it into one line that names each field.
        """
        return cls.model_validate(obj)

    @property
    def name(self) -> str:
        """Return metadata.name."""
        return self.metadata.name

    @property
    def uid(self) -> str:
        """Return metadata.uid, the only identity; a name may come back as another object."""
        return self.metadata.uid

    @property
    def resource_version(self) -> str:
        """Return metadata.resourceVersion."""
        return self.metadata.resource_version

    @property
    def deletion_timestamp(self) -> datetime | None:
        """Return when the deletion was asked for, None while nobody did."""
        return self.metadata.deletion_timestamp


def describe(error: ValidationError) -> str:
    """Return what is wrong as one line for a condition or an event: `spec.resources.cpu: cpu must be ...`."""
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        field = ".".join(str(part) for part in item["loc"]) or "object"
        lines.append(f"{field}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(lines)
