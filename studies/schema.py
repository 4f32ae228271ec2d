"""The shape of a study specification: which keys exist and what type each value has.

Meaning (names that must be known, tensors that must match the program) is checked in ``spec``.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from mapper.document import Document, Place
from mapper.errors import InputError, nearest


def _listed(value: Any) -> Any:
    """A single value stands for a list of one."""
    return value if isinstance(value, list) else [value]


def _preset(value: Any) -> Any:
    """A machine given by its name alone."""
    return {"preset": value} if isinstance(value, str) else value


def _notation(value: Any) -> Any:
    """A program given by its text alone."""
    return value if isinstance(value, dict) else {"notation": value}


def _untiled(value: Any) -> Any:
    """Tile extents with ``none`` as the extent of an index that is not tiled."""
    return [None if item == "none" else item for item in _listed(value)]


Words = Annotated[list[str], BeforeValidator(_listed)]
Positive = Annotated[int, Field(ge=1)]
Counted = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""What the simulator counts, in 64 bits."""

Tiles = Annotated[list[Positive | None], BeforeValidator(_untiled)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ValuesModel(_Strict):
    """Values drawn in place of those of a file, if a seed is given."""

    seed: Annotated[int, Field(ge=0)] | None = None


class ProgramModel(_Strict):
    """Exactly one of ``notation``, ``einsum``, ``torch`` (file.py:Name) and ``teaal`` (a YAML file)."""

    notation: str | None = None
    einsum: str | None = None
    operands: list[str] = []
    result: str = "Z"
    torch: str | None = None
    teaal: str | None = None


class DataModel(_Strict):
    """Where a tensor's entries come from."""

    file: str | None = None
    member: str | None = None
    values: ValuesModel = ValuesModel()
    random: dict[str, Any] | None = None
    duplicates: str = "sum"


class TensorModel(DataModel):
    """Data and the formats in which they may be stored."""

    format: Words = []


class ParallelModel(_Strict):
    """Lanes of the parallel index."""

    max: Positive | None = None
    index: Words | None = None
    partition: Words | None = None


class MappingModel(_Strict):
    """What the search may not choose freely."""

    parallel: ParallelModel = ParallelModel()
    residency: Words | None = None
    orders: dict[str, Annotated[list[Any], BeforeValidator(_listed)]] = {}
    tiles: dict[str, Tiles] = {}
    fuse: Literal["all", "none"] | dict[str, bool] = {}
    cut: Words | None = None
    rewrite: Words | None = None
    joins: Words | None = None


class SearchModel(_Strict):
    """How the space is searched."""

    sampler: str = "tpe"
    simulations: Positive = 60
    seed: Annotated[int, Field(ge=0)] = 0
    batch: Positive = 8
    candidates: Positive = 5
    workers: Positive = 2
    descents: Annotated[int, Field(ge=0)] = 8
    audit: Annotated[float, Field(ge=0, le=1)] = 0.1
    over_inputs: str = "mean"
    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    regret: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    transfer: Words = []
    early_stop: bool = False
    sample: Annotated[int, Field(ge=2)] | None = None


class LimitsModel(_Strict):
    """Where one simulation stops; absent: it does not."""

    cycles: Counted | None = None
    tokens: Counted | None = None
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class SpecModel(_Strict):
    """A whole specification."""

    program: Annotated[ProgramModel, BeforeValidator(_notation)]
    tensors: dict[str, TensorModel] = {}
    inputs: dict[Annotated[str, Field(min_length=1)], dict[str, DataModel]] = {}
    name: Annotated[str, Field(min_length=1, pattern=r"^[^/\\\s]+$")] | None = None
    machine: Annotated[dict[str, Any], BeforeValidator(_preset)] = {"preset": "rda"}
    mapping: MappingModel = MappingModel()
    objectives: Words = ["latency_cycles", "traffic_bytes"]
    constraints: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = {}
    search: SearchModel = SearchModel()
    limits: LimitsModel = LimitsModel()
    storage: str = "sqlite:///studies.db"
    report: str | None = None


def read_schema(document: Document) -> SpecModel:
    """The document as a model. Raises InputError at the first key or value, in file order, that does not fit."""
    try:
        return SpecModel.model_validate(document.values)
    except ValidationError as failure:
        found = failure.errors(include_url=False)
        raise min((_located(document, e) for e in found), key=lambda pair: pair[0])[1] from failure


def _located(document: Document, error: ErrorDetails) -> tuple[tuple[int, int], InputError]:
    place: Place = tuple(error["loc"])
    node = document.keys.get(place) or document.nodes.get(place)
    order = (node.start_mark.line, node.start_mark.column) if node else (0, 0)
    match error["type"]:
        case "extra_forbidden":
            below = ".".join(map(str, place[:-1]))
            hint = nearest(str(place[-1]), _keys(place[:-1]))
            text = f"unknown key {place[-1]!r}{' in ' + below if below else ''}.{hint}"
            return order, document.error(place, text, key=True)
        case "missing":
            return order, document.error(place[:-1], f"key {'.'.join(map(str, place))!r} is required")
        case "model_type" | "dict_type":
            expected = "must be a mapping of keys to values"
        case "string_pattern_mismatch":
            expected = "must hold neither white space nor slashes"
        case _:
            expected = error["msg"].replace("Input should be", "must be")
    name = ".".join(map(str, place)) or "a study"
    return order, document.error(place, f"{name} {expected}, got {json.dumps(error['input'], default=repr)}")


def _keys(place: Place) -> list[str]:
    """Valid keys of the model at ``place``."""
    kind: Any = SpecModel
    for step in place:
        kind = kind.model_fields[step].annotation if hasattr(kind, "model_fields") else get_args(kind)[-1]
    return list(kind.model_fields)
