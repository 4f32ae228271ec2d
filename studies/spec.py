"""StudySpec: what a study file says, checked against the program, with the identity that makes a study one.

Every error names file, line and column, and the nearest valid name where a name is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from mapper.canonical import content_hash, plain
from mapper.document import Document, Place, read_document
from mapper.errors import InputError
from mapper.machine import Machine
from mapper.program import Program
from mapper.space_limits import SpaceLimits
from mapper.synthetic import KINDS
from mapper.tensor import SparseTensor
from studies.program_source import ProgramSource, read_program
from studies.schema import DataModel, SpecModel, TensorModel, read_schema
from studies.spec_space import program_modes, read_space

OBJECTIVES = ("latency_cycles", "traffic_bytes", "energy_pj")
SAMPLERS = (
    "sparseloom", "sparseloom-no-prior", "sparseloom-no-classifier", "sparseloom-no-local-search",
    "sparseloom-no-fantasies", "sparseloom-no-log-objective", "tpe", "random", "nsga2", "gp",
)  # fmt: skip
DUPLICATES = ("sum", "error")
OVER_INPUTS = ("mean", "worst")
UNUSED = ("regret", "transfer", "early_stop", "sample")
"""Settings that are no part of the identity where they are off."""

ALL_RELATED = "all"
"""``transfer`` from every study of the same program in the database."""


@dataclass(frozen=True, slots=True)
class TensorSource:
    """Where an input comes from: a ``file``, a seeded generator (``kind``, ``params``), the ``model`` that is the
    program or, with none of them, memory.

    ``member``: which tensor of an archive; ``values_seed``: seed of values drawn in place of those of the file, as a
    file that stores a pattern has none. ``input``: the one to which it belongs, None for all.
    """

    name: str
    file: str | None = None
    duplicates: str = "sum"
    member: str | None = None
    values_seed: int | None = None
    kind: str | None = None
    params: tuple[tuple[str, Any], ...] = ()
    model: str | None = None
    input: str | None = None

    @property
    def label(self) -> str:
        """``A``, or ``A of cora``."""
        return self.name if self.input is None else f"{self.name} of {self.input}"

    @property
    def place(self) -> Place:
        """Where the specification says it."""
        return ("tensors", self.name) if self.input is None else ("inputs", self.input, self.name)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """``candidates`` are asked per simulated one. ``descents`` of them in every batch (none with the random sampler)
    come from local searches over the model's estimates, the others from the sampler. ``audit`` is the share of
    simulations given to candidates that the model alone would have passed over. ``workers`` never changes a result.
    ``over_inputs``: what of several inputs counts (``OVER_INPUTS``). Beside the budget, ``minutes`` of a run end it
    between two batches, and so does an expected gain below ``regret`` in several batches in a row. ``transfer``: names
    of studies whose best mappings come first, or ``ALL_RELATED``. ``early_stop`` cuts simulations short that cannot
    improve the front any more. ``sample``: candidates are compared by simulations of one in so many rows before some
    are simulated whole.
    """

    sampler: str
    simulations: int
    seed: int
    batch: int
    candidates: int
    descents: int
    audit: float
    workers: int
    over_inputs: str
    minutes: float | None = None
    regret: float | None = None
    transfer: tuple[str, ...] = ()
    early_stop: bool = False
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class SimulationLimits:
    """Where one simulation stops; None: nowhere. Cycles and tokens are the same on every machine; the study keeps what
    ``seconds`` of wall time ended."""

    cycles: int | None
    tokens: int | None
    seconds: float | None = None


@dataclass(frozen=True)
class StudySpec:
    """A checked study. ``machine`` has every field that the user fixed; fields given as lists are in
    ``space.machine``. ``inputs``: (name, where each tensor comes from) of every input; one without a name where the
    study has just one. ``budgets``: upper limits on objectives, sorted by name. ``given``: tensors that come with the
    program."""

    name: str
    program: Program
    inputs: tuple[tuple[str, tuple[TensorSource, ...]], ...]
    machine: Machine
    space: SpaceLimits
    objectives: tuple[str, ...]
    budgets: tuple[tuple[str, float], ...]
    search: SearchSettings
    limits: SimulationLimits
    storage: sa.URL
    report: Path | None
    folder: Path
    document: Document = field(compare=False, repr=False)
    given: Mapping[str, SparseTensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def sources(self) -> tuple[TensorSource, ...]:
        """Where the tensors of the first input come from."""
        return self.inputs[0][1]

    def identity(self, tensor_keys: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, Any]:
        """Everything that decides the rows of the study, as JSON types; ``tensor_keys`` are content hashes, by input
        and tensor."""
        formats = {tensor: [str(f) for f in allowed] for tensor, allowed in self.space.formats.items()}
        search = plain(self.search)
        del search["workers"], search["minutes"]
        for name in UNUSED:  # studies that were made before these were known stay what they are
            if not search[name]:
                del search[name]
        data: Mapping[str, Any] = tensor_keys or {}
        if len(self.inputs) == 1:
            del search["over_inputs"]
            data = data.get(self.inputs[0][0], {})
        several = {"inputs": [name for name, _ in self.inputs]} if len(self.inputs) > 1 else {}
        return {
            **several,
            "program": str(self.program),
            "data": plain(data),
            "machine": {"fields": plain(self.machine)},
            "space": {**plain(self.space), "formats": formats},
            "objectives": list(self.objectives),
            "constraints": dict(self.budgets),
            "search": search,
            "limits": {name: limit for name, limit in plain(self.limits).items() if name != "seconds" or limit},
        }

    @property
    def identity_hash(self) -> str:
        """sha256 of the identity without data."""
        return content_hash(self.identity())


def load_spec(path: str | Path) -> StudySpec:
    """The study that the YAML file ``path`` describes. Raises InputError with file, line and column."""
    file = Path(path)
    return read_spec(read_document(file), folder=file.resolve().parent, name=file.stem)


def spec_from_values(
    values: Mapping[str, Any], *, folder: Path, name: str, in_memory: Collection[str] = ()
) -> StudySpec:
    """``load_spec`` for keys and values given in Python; ``in_memory`` names tensors that the caller holds, those of
    one input alone as ``A of cora``."""
    return read_spec(Document("study", dict(values)), folder=folder, name=name, in_memory=in_memory)


def read_spec(document: Document, *, folder: Path, name: str, in_memory: Collection[str] = ()) -> StudySpec:
    """The study of a document; relative paths resolve against ``folder``, ``name`` stands in for a missing one."""
    model = read_schema(document)
    source = read_program(document, model.program, folder)
    program = source.program
    inputs = _inputs(document, model, source, in_memory)
    machine, space = read_space(document, model, program)
    given = {f: getattr(model.search, f) for f in SearchSettings.__slots__}
    search = SearchSettings(**{**given, "transfer": tuple(model.search.transfer)})
    document.known(("search", "sampler"), search.sampler, SAMPLERS)
    document.known(("search", "over_inputs"), search.over_inputs, OVER_INPUTS)
    if search.early_stop and "latency_cycles" not in model.objectives:
        text = "early_stop counts cycles, so latency_cycles must be an objective"
        raise document.error(("search", "early_stop"), text, key=True)
    if search.sample is not None and search.sampler.startswith("sparseloom"):
        text = f"sample helps to choose among candidates, but sampler {search.sampler} simulates all that it proposes"
        raise document.error(("search", "sample"), text, key=True)
    if search.regret is not None and not search.sampler.startswith("sparseloom"):
        text = f"regret is what the model of sampler sparseloom expects, got sampler {search.sampler}"
        raise document.error(("search", "regret"), text, key=True)
    if "over_inputs" in model.search.model_fields_set and len(inputs) < 2:
        raise document.error(("search", "over_inputs"), "over_inputs needs at least two inputs", key=True)
    return StudySpec(
        name=model.name or name,
        program=program,
        inputs=inputs,
        machine=machine,
        space=space,
        objectives=_objectives(document, model),
        budgets=tuple(sorted(model.constraints.items())),
        search=search,
        limits=SimulationLimits(model.limits.cycles, model.limits.tokens, model.limits.seconds),
        storage=_storage(document, model.storage, folder),
        report=folder / model.report if model.report else None,
        folder=folder,
        document=document,
        given=source.tensors,
    )


def _inputs(
    document: Document, model: SpecModel, found: ProgramSource, in_memory: Collection[str]
) -> tuple[tuple[str, tuple[TensorSource, ...]], ...]:
    program = found.program
    for label in in_memory:
        tensor = label.partition(" of ")[0]
        document.known(("tensors", tensor), tensor, program.inputs, key=True)
    for tensor, entry in model.tensors.items():
        document.known(("tensors", tensor), tensor, (*program.inputs, *program.producers), key=True)
        given = entry.file is not None or entry.random is not None
        if tensor in program.producers and given:
            raise document.error(
                ("tensors", tensor), f"{tensor!r} is computed by the program: only its format may be given", key=True
            )
    for name, entries in model.inputs.items():
        for tensor in entries:
            document.known(("inputs", name, tensor), tensor, program.inputs, key=True)
    return tuple(
        (name, tuple(_source(document, model, found, tensor, name, in_memory) for tensor in program.inputs))
        for name in model.inputs or ("",)
    )


def _source(
    document: Document, model: SpecModel, found: ProgramSource, tensor: str, name: str, in_memory: Collection[str]
) -> TensorSource:
    """Where an input gets a tensor from: what it says itself, else what is said for all, else the program."""
    own = TensorSource(tensor, input=name)
    if name and own.label in in_memory:
        return own
    if (entry := model.inputs.get(name, {}).get(tensor)) is not None:
        if (entry.file is None) == (entry.random is None):
            raise document.error(own.place, f"tensor {tensor!r} needs either a file or random", key=True)
        return _described(document, found.program, own, entry)
    entry = model.tensors.get(tensor, TensorModel())
    described = (entry.file is not None) + (entry.random is not None)
    if not described and tensor in found.tensors and tensor not in in_memory:
        return TensorSource(tensor, model=found.origin)
    if described == 2 or (not described and tensor not in in_memory):
        raise _without_data(document, model, found, tensor)
    return _described(document, found.program, TensorSource(tensor), entry)


def _without_data(document: Document, model: SpecModel, found: ProgramSource, tensor: str) -> InputError:
    if tensor in model.tensors:
        return document.error(("tensors", tensor), f"tensor {tensor!r} needs either a file or random", key=True)
    return found.without_data(document, tensor, model.tensors)


def _described(document: Document, program: Program, source: TensorSource, entry: DataModel) -> TensorSource:
    tensor, place = source.name, source.place
    document.known((*place, "duplicates"), entry.duplicates, DUPLICATES)
    for key, given in (("member", entry.member), ("values", entry.values.seed)):
        if given is not None and entry.file is None:
            raise document.error((*place, key), f"{key} of {tensor!r} is for data from a file", key=True)
    if entry.random is None:
        return TensorSource(tensor, entry.file, entry.duplicates, entry.member, entry.values.seed, input=source.input)
    params = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.random.items()}
    kind, shape = str(params.pop("kind", "uniform")), params.get("shape")
    document.known((*place, "random", "kind"), kind, KINDS)
    for name in params:
        document.known((*place, "random", name), name, signature(KINDS[kind]).parameters, key=True)
    ndim = program_modes(program, tensor)
    whole = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not isinstance(shape, tuple) or not whole or len(shape) != ndim:
        text = f"shape of {tensor!r} must be a list of {ndim} extents, as the program uses it"
        raise document.error((*place, "random", "shape"), f"{text}, got {entry.random.get('shape')}")
    return TensorSource(tensor, kind=kind, params=tuple(sorted(params.items())), input=source.input)


def _objectives(document: Document, model: SpecModel) -> tuple[str, ...]:
    for n, name in enumerate(model.objectives):
        document.known(("objectives", n), name, OBJECTIVES)
        if name in model.objectives[:n]:
            raise document.error(("objectives", n), f"objective {name!r} is given twice")
    if not model.objectives:
        raise document.error(("objectives",), f"at least one objective is needed, among {', '.join(OBJECTIVES)}")
    for name in model.constraints:
        document.known(("constraints", name), name, OBJECTIVES, key=True)
    return tuple(model.objectives)


def _storage(document: Document, text: str, folder: Path) -> sa.URL:
    """The URL with a relative SQLite path made absolute; the folder may hold what a URL would have to escape."""
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):  # ValueError: of a port that is no number
        url = None
    on_file = url is not None and url.drivername == "sqlite" and not url.host and bool(url.database)
    if url is None or not (on_file or url.drivername in ("postgresql", "postgresql+psycopg")):
        reason = f"storage must be a URL such as sqlite:///studies.db or postgresql://host/name, got {text!r}"
        raise document.error(("storage",), reason)
    return url.set(database=(folder / str(url.database)).as_posix()) if on_file and url.database != ":memory:" else url
