"""MinimisedSpace: a parameter space as the search sees it, whose estimates are to be minimised like the outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mapper.errors import InputError
from tuner.parameter_groups import Codes
from tuner.parameter_space import ParameterSpace
from tuner.permutation_features import FloatArray
from tuner.quantities import Quantities


class MinimisedSpace:
    """``space`` with estimates of ``quantities``."""

    def __init__(self, space: ParameterSpace, quantities: Quantities) -> None:
        self._space, self._quantities = space, quantities

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """See ``ParameterSpace``, as for all below."""
        return self._space.groups

    def sample(self, rng: np.random.Generator, count: int) -> list[Codes]:
        """Uniform legal points."""
        return self._space.sample(rng, count)

    def neighbours(self, point: Codes, rng: np.random.Generator) -> list[Codes]:
        """Legal points that differ little."""
        return self._space.neighbours(point, rng)

    def kind(self, point: Codes) -> int:
        """All points are alike."""
        return self._space.kind(point)

    def few(self) -> list[Codes] | None:
        """All points of a small space."""
        return self._space.few()

    def features(self, points: Sequence[Codes]) -> FloatArray:
        """float64[points, features]."""
        return self._space.features(points)

    def estimates(self, points: Sequence[Codes]) -> FloatArray | None:
        """float64[points, quantities] to be minimised. Raises InputError unless there is one estimate per quantity."""
        found = self._space.estimates(points)
        if found is None or not len(found):
            return found
        names = self._quantities.names
        if found.shape[1] != len(names):
            raise InputError(
                f"the estimate of the space must give {len(names)} numbers ({', '.join(names)}), got {found.shape[1]}"
            )
        return self._quantities.minimised(found)
