"""The program of a study: index notation, an einsum, a PyTorch model or the einsum block of a TeAAL file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mapper.document import Document, Place, read_document
from mapper.errors import InputError, NotationError, nearest
from mapper.notation import locate, parse_einsum, parse_program
from mapper.program import Program
from mapper.teaal_program import teaal_text
from mapper.tensor import SparseTensor
from studies.schema import ProgramModel

KINDS = ("notation", "einsum", "torch", "teaal")


@dataclass(frozen=True, eq=False)
class ProgramSource:
    """A program, the tensors that come with it, and where both are said."""

    program: Program
    place: Place
    notation: str = ""
    origin: str = ""
    tensors: Mapping[str, SparseTensor] = field(default_factory=dict)

    def without_data(self, document: Document, tensor: str, described: Mapping[str, object]) -> InputError:
        """The error for an input that nothing gives data."""
        text = f"tensor {tensor!r} has no data.{nearest(tensor, described)}"
        if self.notation:
            return document.text_error(self.place, *locate(self.notation, tensor), text)
        return document.error(self.place, text)


def read_program(document: Document, model: ProgramModel, folder: Path) -> ProgramSource:
    """The program that a specification names; files are looked for from ``folder``. A PyTorch file is executed.

    Raises InputError, placed in the specification, for whatever cannot be read.
    """
    said = [kind for kind in KINDS if getattr(model, kind) is not None]
    if len(said) != 1:
        got = f"got {' and '.join(said) or 'none'}"
        raise document.error(("program",), f"a program is one of {', '.join(KINDS)}; {got}")
    kind, value = said[0], str(getattr(model, said[0]))
    place: Place = ("program", kind) if ("program", kind) in document.nodes or kind != "notation" else ("program",)
    for key in ("operands", "result"):
        if kind != "einsum" and key in model.model_fields_set:
            text = f"{key} belongs to an einsum, the program is given by {kind}"
            raise document.error(("program", key), text, key=True)
    try:
        match kind:
            case "notation":
                return ProgramSource(parse_program(value), place, value)
            case "einsum":
                return ProgramSource(parse_einsum(value, model.operands, model.result), place)
            case "teaal":
                return ProgramSource(_teaal(folder / value), place)
            case _:
                from mapper.torch_file import import_file

                found = import_file(value, folder)
                return ProgramSource(found.program, place, origin=value, tensors=found.tensors)
    except NotationError as error:
        raise document.notation_error(place, error) from error
    except InputError as error:
        raise document.error(place, str(error)) from error


def _teaal(path: Path) -> Program:
    values = read_document(path).values
    try:
        return parse_program(teaal_text(values.get("einsum", values)))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
