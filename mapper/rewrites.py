"""Rewrites: other programs with the same results, one of which a mapping may choose.

* ``products``: a product of products may be multiplied in any order, ``(A * X) * W`` as ``A * (X * W)`` or at once; so
  a mask that multiplies a product is applied first (``M * (Q * K)`` as ``M * Q * K``: the sampled product).
* ``recompute``: a fused tensor is made anew for every use, inside its reader's loops, so that only a fiber of it
  exists at a time (FuseFlow, section 2: full fusion of two graph layers).
* ``activations``: a relu stores positive results alone.
* ``windows``: the windows of a view are not stored, readers load them from the tensor below (``mapper.windows``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from mapper.errors import InputError, nearest
from mapper.program import IN_PLACE, Access, Edge, Program, Statement, joinable
from mapper.regions import renaming

KINDS = ("products", "recompute", "activations", "windows")

MOST_VARIANTS = 64
"""Rewritings that are offered; the first in order of discovery, the program as written first of all."""

MOST_FACTORS = 5
"""Factors of a product up to which every order is offered."""

Tree = int | tuple["Tree", ...]
"""A product: the number of a leaf, or what is multiplied at once."""


def rewriting(program: Program, label: str) -> Program:
    """The program that ``label`` names. Raises InputError for a label that no kind of rewriting gives."""
    chosen = (itertools.combinations(KINDS, size) for size in range(len(KINDS) + 1))
    for kinds in itertools.chain.from_iterable(chosen):  # whichever of them a search was limited to
        if label in (known := variants(program, kinds)):
            return known[label]
    raise InputError(f"the program has no rewriting {label!r}.{nearest(label, variants(program))}")


@lru_cache(maxsize=256)
def variants(program: Program, kinds: tuple[str, ...] = KINDS) -> dict[str, Program]:
    """The rewritings by label; the empty label is the program as written."""
    found = {"": program}
    if "products" in kinds:
        found |= {label: p for label, p in _products(program) if label}
    for kind, rewritten in (("activations", _activations), ("recompute", _recomputed), ("windows", _unstored)):
        if kind in kinds:
            for label, known in list(found.items()):
                several = itertools.islice(rewritten(known), MOST_VARIANTS)
                found |= {", ".join(filter(None, (label, more))): p for more, p in several}
    joined = ((label, p) for label, p in found.items() if not label or all(joinable(s.operands) for s in p.statements))
    return dict(itertools.islice(joined, MOST_VARIANTS))


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A product of products: its statements, the last of which makes the result, and its factors in that one's
    indices. ``names``: tensors by the set of factors whose product they are."""

    statements: tuple[int, ...]
    target: Access
    leaves: tuple[Access, ...]
    tree: Tree
    names: dict[frozenset[int], str]


def _products(program: Program) -> Iterator[tuple[str, Program]]:
    """(label, program) for every combination of ways to multiply; the label says what differs from the text."""
    clusters = [c for c in _clusters(program) if 2 < len(c.leaves) <= MOST_FACTORS]
    options = [[c.tree, *(t for t in _trees(c) if t != c.tree)] for c in clusters]
    for chosen in itertools.product(*options):
        changed = [(c, t) for c, t in zip(clusters, chosen, strict=True) if t != c.tree]
        yield ", ".join(_text(c, t) for c, t in changed), _rebuilt(program, changed)


def _clusters(program: Program) -> list[_Cluster]:
    def merges(edge: Edge) -> bool:
        made, read = program.statements[edge.producer], program.statements[edge.consumer]
        uses = sum(e.tensor == edge.tensor for e in program.edges)
        access = read.operands[edge.operand]
        return _is_product(made) and _is_product(read) and uses == 1 and not access.pattern

    inner = {(e.consumer, e.operand): e for e in program.edges if merges(e)}
    below = {e.producer for e in inner.values()}
    found = []
    for number, statement in enumerate(program.statements):
        if _is_product(statement) and number not in below:
            builder = _Gathering(program, inner, {*statement.indices})
            tree = builder.gather(number, {i: i for i in statement.indices})
            found.append(
                _Cluster(tuple(builder.statements), statement.target, tuple(builder.leaves), tree, builder.names)
            )
    return found


def _is_product(statement: Statement) -> bool:
    return (statement.kind, statement.combine, statement.reduction) == ("contract", "mul", "sum")


class _Gathering:
    """Collects the factors of a product of products, indices that are summed inside under fresh names."""

    def __init__(self, program: Program, inner: dict[tuple[int, int], Edge], taken: set[str]) -> None:
        self.program, self.inner, self.taken = program, inner, taken
        self.leaves: list[Access] = []
        self.statements: list[int] = []
        self.names: dict[frozenset[int], str] = {}

    def gather(self, number: int, names: dict[str, str]) -> Tree:
        statement = self.program.statements[number]
        first, parts = len(self.leaves), list[Tree]()
        for n, access in enumerate(statement.operands):
            edge = self.inner.get((number, n))
            if edge is None:
                self.leaves.append(replace(access, indices=tuple(names[i] for i in access.indices)))
                parts.append(len(self.leaves) - 1)
                continue
            below = {made: names[read] for made, read in renaming(self.program, edge).items()}
            for index in self.program.statements[edge.producer].reduced:
                below[index] = self._fresh(index)
            parts.append(self.gather(edge.producer, below))
        self.statements.append(number)
        self.names[frozenset(range(first, len(self.leaves)))] = statement.target.tensor
        return tuple(parts)

    def _fresh(self, index: str) -> str:
        name, count = index, 1
        while name in self.taken:
            count += 1
            name = f"{index}{count}"
        self.taken.add(name)
        return name


def _trees(cluster: _Cluster) -> Iterator[Tree]:
    """Every way to multiply the factors in which an inner product shares indices and sums over one."""
    yield from dict.fromkeys(_grouped(cluster, tuple(range(len(cluster.leaves)))))


def _grouped(cluster: _Cluster, leaves: tuple[int, ...]) -> Iterator[Tree]:
    """Trees over ``leaves``: all at once, or some of them in groups of their own first."""
    for partition in _partitions(leaves):
        if len(partition) == 1 and len(leaves) > 1:
            continue
        if all(len(group) == 1 or (_connected(cluster, group) and _sums(cluster, group)) for group in partition):
            parts = ((group if len(group) == 1 else tuple(_grouped(cluster, group))) for group in partition)
            yield from (tuple(chosen) for chosen in itertools.product(*parts))


def _partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Partitions into groups, those of single items first."""
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = tuple(i for i in rest if i not in others)
            yield from (((first, *others), *groups) for groups in _partitions(left))


def _connected(cluster: _Cluster, group: tuple[int, ...]) -> bool:
    reached, edge = set(cluster.leaves[group[0]].indices), True
    left = set(group[1:])
    while edge and left:
        near = {n for n in left if reached & set(cluster.leaves[n].indices)}
        reached |= {i for n in near for i in cluster.leaves[n].indices}
        left, edge = left - near, bool(near)
    return not left


def _sums(cluster: _Cluster, group: tuple[int, ...]) -> bool:
    """Whether some index of the group is used nowhere else."""
    outside = {*cluster.target.indices}.union(*(a.indices for n, a in enumerate(cluster.leaves) if n not in group))
    return any(i not in outside for n in group for i in cluster.leaves[n].indices)


def _text(cluster: _Cluster, tree: Tree) -> str:
    if isinstance(tree, int):
        access = cluster.leaves[tree]
        return f"pattern({access.tensor})" if access.pattern else access.tensor
    parts = (_text(cluster, t) if isinstance(t, int) else f"({_text(cluster, t)})" for t in tree)
    return "*".join(parts)


def _rebuilt(program: Program, changed: list[tuple[_Cluster, Tree]]) -> Program:
    """The program with other ways to multiply, each cluster where its result was made."""
    gone = {n for cluster, _ in changed for n in cluster.statements}
    at = {cluster.statements[-1]: (cluster, tree) for cluster, tree in changed}
    taken = {*program.inputs, *program.producers}
    statements: list[Statement] = []
    for number, statement in enumerate(program.statements):
        if number in at:
            statements += _multiplied(*at[number], taken)
        elif number not in gone:
            statements.append(statement)
    return Program(tuple(statements))


def _multiplied(cluster: _Cluster, tree: Tree, taken: set[str]) -> list[Statement]:
    statements: list[Statement] = []

    def leaves_of(part: Tree) -> frozenset[int]:
        return frozenset({part}) if isinstance(part, int) else frozenset().union(*map(leaves_of, part))

    def product(part: Tree) -> Access:
        if isinstance(part, int):
            return cluster.leaves[part]
        operands = tuple(map(product, part))
        own = leaves_of(part)
        target = cluster.target
        if len(own) < len(cluster.leaves):
            outside = {*cluster.target.indices}.union(
                *(a.indices for n, a in enumerate(cluster.leaves) if n not in own)
            )
            kept = tuple(dict.fromkeys(i for o in operands for i in o.indices if i in outside))
            target = Access(cluster.names.get(own) or _fresh_name(cluster.target.tensor, taken), kept)
        statements.append(Statement(target, "contract", operands))
        return target

    product(tree)
    return statements


def _fresh_name(base: str, taken: set[str]) -> str:
    name = next(n for n in (f"{base}_{count}" for count in itertools.count(1)) if n not in taken)
    taken.add(name)
    return name


def _activations(program: Program) -> Iterator[tuple[str, Program]]:
    """Every set of relus made sparse."""
    relus = [n for n, s in enumerate(program.statements) if (s.kind, s.function) == ("map", "relu")]
    for label, changed in _with_function(program, relus, "sparse_relu"):
        yield f"sparse {label}", changed


def _unstored(program: Program) -> Iterator[tuple[str, Program]]:
    """Every set of views read in place, but for those that something else reads the result of, or nothing."""
    views = [n for n, s in enumerate(program.statements) if s.kind == "view" and not s.function]
    barred = {s.operands[0].tensor for s in program.statements if s.kind == "view"} | {*program.outputs}
    inner = [n for n in views if program.statements[n].target.tensor not in barred]
    for label, changed in _with_function(program, inner, IN_PLACE):
        yield f"{label} in place", changed


def _with_function(program: Program, numbers: list[int], function: str) -> Iterator[tuple[str, Program]]:
    """(targets, program) for every set of the statements ``numbers`` given another function, all of them first."""
    for size in (len(numbers), *range(1, len(numbers))) if numbers else ():
        for chosen in itertools.combinations(numbers, size):
            statements = (replace(s, function=function) if n in chosen else s for n, s in enumerate(program.statements))
            label = " and ".join(program.statements[n].target.tensor for n in chosen)
            yield label, Program(tuple(statements))


def _recomputed(program: Program) -> Iterator[tuple[str, Program]]:
    """Every tensor that a product reads along a foreign index, made anew for each coordinate of that index."""
    for edge in program.edges:
        reader = program.statements[edge.consumer]
        read = reader.operands[edge.operand]
        if not _is_product(reader) or read.pattern or len(reader.operands) < 2:
            continue
        for driver in (a for n, a in enumerate(reader.operands) if n != edge.operand):
            foreign = tuple(i for i in driver.indices if i not in read.indices)
            shared = set(driver.indices) & set(read.indices)
            if foreign and shared and driver.tensor in program.inputs:
                lifted = _Lifting(program, driver, foreign).run(edge)
                if lifted is not None:
                    yield f"recompute {edge.tensor}", lifted
                break


class _Lifting:
    """Gives the statements that make a tensor the foreign indices of ``driver``, whose pattern says which fibers are
    wanted."""

    def __init__(self, program: Program, driver: Access, foreign: tuple[str, ...]) -> None:
        self.program, self.driver, self.foreign = program, driver, foreign
        self.taken = {*program.inputs, *program.producers}
        self.made: list[Statement] = []

    def run(self, edge: Edge) -> Program | None:
        """The program in which the reader of ``edge`` reads the lifted tensor, None if it cannot be lifted."""
        reader = self.program.statements[edge.consumer]
        lifted = self._lift(edge.producer, renaming(self.program, edge))
        if lifted is None:
            return None
        operands = tuple(lifted if n == edge.operand else a for n, a in enumerate(reader.operands))
        statements = list(self.program.statements)
        statements[edge.consumer : edge.consumer + 1] = [*self.made, replace(reader, operands=operands)]
        return _pruned(Program(tuple(statements)), self.program.outputs)

    def _lift(self, number: int, names: dict[str, str]) -> Access | None:
        """The lifted result of a statement in the reader's names (``names``: those of its target)."""
        statement = self.program.statements[number]
        if statement.kind == "view":
            return None
        dense = statement.kind == "map" and statement.function not in ("relu", "sparse_relu", "scale", "gelu", "tanh")
        if dense or (statement.kind == "contract" and statement.reduction != "sum"):
            return None
        own = tuple(names[i] for i in statement.target.indices)
        names = dict(names)
        for index in statement.reduced:
            names[index] = self._index(index, names)
        stays = {*self.driver.indices} <= {*self.foreign, *own}  # else the driver's pattern would be summed over
        operands = []
        driven = False
        for access in statement.operands:
            renamed = replace(access, indices=tuple(names[i] for i in access.indices))
            producer = self.program.producers.get(access.tensor)
            if producer is not None and set(renamed.indices) & set(self.driver.indices) and not access.pattern:
                made = self.program.statements[producer].target.indices
                below = self._lift(producer, dict(zip(made, renamed.indices, strict=True)))
                if below is None:
                    return None
                operands.append(below)
                driven = True
            elif statement.kind == "add":
                if not stays:
                    return None
                kept = tuple(dict.fromkeys((*self.foreign, *self.driver.indices, *renamed.indices)))
                target_access = Access(_fresh_name(access.tensor, self.taken), kept)
                self.made.append(Statement(target_access, "contract", (replace(self.driver, pattern=True), renamed)))
                operands.append(target_access)
                driven = True
            else:
                operands.append(renamed)
        if not driven:
            if statement.kind != "contract" or statement.combine != "mul" or not stays:
                return None
            operands.insert(0, replace(self.driver, pattern=True))
        target = Access(_fresh_name(statement.target.tensor, self.taken), (*self.foreign, *own))
        self.made.append(replace(statement, target=target, operands=tuple(operands)))
        return target

    def _index(self, index: str, names: dict[str, str]) -> str:
        used = {*names.values(), *self.driver.indices}
        return next(n for k in itertools.count(1) for n in [index if k == 1 else f"{index}{k}"] if n not in used)


def _pruned(program: Program, wanted: Iterable[str]) -> Program:
    """Without statements that no wanted tensor needs."""
    needed = set(wanted)
    kept: list[Statement] = []
    for statement in reversed(program.statements):
        if statement.target.tensor in needed:
            needed |= {a.tensor for a in statement.operands}
            kept.append(statement)
    return Program(tuple(reversed(kept)))
