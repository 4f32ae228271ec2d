"""Features of mappings: fixed length, exact values, distances of orders."""

from __future__ import annotations

import dataclasses
import itertools
import time

import numpy as np
import pytest
from scipy.stats import kendalltau
from small_spaces import PROGRAMS, RDA, space, workload

from mapper.default_mapping import default_mapping
from mapper.errors import InputError
from mapper.features import PERMUTATIONS, FeatureMap
from mapper.formats import parse_format
from mapper.mapping import Loops, Mapping
from mapper.space import MappingSpace
from mapper.space_limits import SpaceLimits

CSF = ("compressed", "compressed")


def product_space() -> MappingSpace:
    csf, narrow = parse_format("csf", 2), parse_format("csf:int8", 2)
    limits = SpaceLimits(
        tiles={"i": (8, 16, 0), "j": (0,)}, max_lanes=4, partitions=("block", "cyclic"), residency=("none", "lru"),
        formats={"A": (csf, narrow), "B": (csf,), "Z": (csf,)},
        machine={"fifo_depth": (15, None)},
    )  # fmt: skip
    return MappingSpace(workload("product"), RDA, limits)


def test_every_feature_of_a_product() -> None:
    features = FeatureMap(product_space())
    loops = Loops(("k", "i", "j"), (("k", 8), ("i", 16)), (("i", 4, "cyclic"),))
    mapping = Mapping(
        (),
        (loops,),
        (("A", CSF), ("B", CSF), ("Z", CSF)),
        "lru",
        (("fifo_depth", 15),),
        "",
        (("A", "int8"),),
        "locate",
    )
    text = " of Z(i,j) = A(i,k) * B(k,j)"
    want = {
        "order i above j" + text: 0.5,
        "order i above k" + text: -0.5,
        "order j above k" + text: -0.5,
        "tiled i" + text: 1.0,
        "tiled k" + text: 1.0,
        "log2 tile i" + text: 4.0,
        "log2 tile k" + text: 3.0,
        "tile order i above k" + text: -0.5,
        "log2 lanes i" + text: 2.0,
        "log2 lanes j" + text: 0.0,
        "log2 lanes k" + text: 0.0,
        "partition=block" + text: 0.0,
        "partition=cyclic" + text: 1.0,
        "format A=csf": 0.0,
        "format A=csf:int8": 1.0,
        "residency=none": 0.0,
        "residency=lru": 1.0,
        "log2 1 + machine fifo_depth": 4.0,
        "machine fifo_depth=null": 0.0,
    }
    assert dict(zip(features.names(), features.vector(mapping), strict=True)) == want
    assert features.mask(mapping).all()
    plain = dataclasses.replace(mapping, loops=(Loops(("i", "j", "k"), (("i", 8),)),), machine=(("fifo_depth", None),))
    named = dict(zip(features.names(), features.vector(plain), strict=True))
    inactive = {n for n, active in zip(features.names(), features.mask(plain), strict=True) if not active}
    dropped = ("log2 tile k", "tile order i above k", "partition=block", "partition=cyclic")
    assert inactive == {*(name + text for name in dropped), "log2 1 + machine fifo_depth"}
    assert all(named[name] == 0.0 for name in inactive)
    assert (named["log2 tile i" + text], named["tiled k" + text], named["machine fifo_depth=null"]) == (3.0, 0.0, 1.0)


@pytest.mark.parametrize("permutations", PERMUTATIONS)
def test_distances_of_orders(permutations: str) -> None:
    """Kendall: pairs in different order; Spearman: squared differences of positions; Hamming: twice the moved loops."""
    found = MappingSpace(workload("tensor"), RDA)
    features, start = FeatureMap(found, permutations), default_mapping(found)
    indices = start.loops[0].order
    vectors = {}
    for order in itertools.permutations(indices):
        mapping = dataclasses.replace(start, loops=(Loops(order),))
        vectors[order] = features.vector(mapping)
    n = len(indices)
    for a, b in itertools.combinations(vectors, 2):
        place = [[order.index(i) for i in indices] for order in (a, b)]
        distance = float(((vectors[a] - vectors[b]) ** 2).sum())
        swapped = n * (n - 1) / 4 * (1 - kendalltau(*place).statistic)
        moved = sum(x != y for x, y in zip(*place, strict=True))
        squares = sum((x - y) ** 2 for x, y in zip(*place, strict=True))
        assert distance == pytest.approx({"kendall": swapped, "spearman": squares, "hamming": 2 * moved}[permutations])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("permutations", PERMUTATIONS)
def test_samples_of_every_rewriting(name: str, permutations: str) -> None:
    """One length, different mappings apart, 0 where inactive."""
    found = space(name)
    features, rng = FeatureMap(found, permutations), np.random.default_rng(5)
    mappings = {found.sample(rng) for _ in range(80)}
    vectors = [features.vector(m) for m in mappings]
    assert {(v.dtype, v.shape) for v in vectors} == {(np.dtype(np.float64), (len(features.names()),))}
    assert len(set(features.names())) == len(features.names())
    assert all(np.isfinite(v).all() for v in vectors)
    assert len({v.tobytes() for v in vectors}) == len(mappings)
    for mapping, vector in zip(mappings, vectors, strict=True):
        assert not vector[~features.mask(mapping)].any()


def test_rewritings_share_the_features_of_what_they_share() -> None:
    found = MappingSpace(workload("layer"), RDA)
    features = FeatureMap(found)
    names = [name for name in features.names() if "Z(i,m) = relu" in name and name.startswith("order")]
    assert names == ["order i above m of Z(i,m) = relu(T3(i,m))"]
    active = {label: set() for label in found.programs}
    for label in found.programs:
        mapping = default_mapping(found, label)
        active[label] = {n for n, known in zip(features.names(), features.mask(mapping), strict=True) if known}
    assert set.intersection(*active.values()) >= set(names)
    assert any(active[label] - active[""] for label in found.programs)


def test_fast_enough_for_every_candidate() -> None:
    found = space("layer")
    features, rng = FeatureMap(found), np.random.default_rng(0)
    mappings = [found.sample(rng) for _ in range(100)]
    started = time.process_time()
    for mapping in mappings:
        features.vector(mapping)
    assert (time.process_time() - started) / len(mappings) < 0.003  # a tenth of it on an idle machine


def test_what_the_space_does_not_have() -> None:
    found = product_space()
    features, mapping = FeatureMap(found), found.sample(np.random.default_rng(0))
    with pytest.raises(InputError, match=r"no features for the format of A 'dense'\. Valid: csf, csf:int8"):
        features.vector(
            dataclasses.replace(mapping, formats=(("A", ("dense", "dense")), *mapping.formats[1:]), dtypes=())
        )
    with pytest.raises(InputError, match="no features for the rewriting 'B"):
        features.vector(dataclasses.replace(mapping, variant="B*A"))
    with pytest.raises(InputError, match="Did you mean 'kendall'"):
        FeatureMap(found, "kendal")


def test_features_of_one_knob_share_a_group() -> None:
    features = FeatureMap(product_space())
    groups: dict[int, set[str]] = {}
    for name, group in zip(features.names(), features.groups.tolist(), strict=True):
        groups.setdefault(group, set()).add(name.partition(" of ")[0])
    found = list(groups.values())
    assert {"order i above j", "order i above k", "order j above k"} in found
    assert {"tiled i", "log2 tile i"} in found
    assert {"log2 lanes i", "log2 lanes j", "log2 lanes k"} in found
    assert {"residency=none", "residency=lru"} in found
    assert {"log2 1 + machine fifo_depth", "machine fifo_depth=null"} in found
