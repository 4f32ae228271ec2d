"""Tunes a compiler that SparseLoom knows nothing of: loop order and flags of gcc for a matrix product, really timed."""

import subprocess
import tempfile
from pathlib import Path

from tuner import Categorical, Optimizer, Ordinal, ParameterSpace, Permutation

SOURCE = """
#include <stdio.h>
#include <time.h>
#define EACH(x) for (int x = 0; x < 256; x++)
float a[256][256], b[256][256], c[256][256];
int main(void) {
    clock_t start = clock();
    EACH(%s) EACH(%s) EACH(%s) c[i][j] += a[i][k] * b[k][j];
    printf("%%f", (double)(clock() - start) / CLOCKS_PER_SEC);
}
"""
space = ParameterSpace(
    [Permutation("order", ["i", "j", "k"]), Categorical("level", ["-O1", "-O2", "-O3"]),
     Ordinal("unroll", [1, 2, 4, 8, 16], log=True), Categorical("math", ["-ffast-math", "-fno-fast-math"]),
     Categorical("machine", ["x86-64", "x86-64-v3", "x86-64-v4"])],
    ["unroll == 1 or level != '-O1'"],
)  # fmt: skip


def seconds(point: dict) -> float:
    """What raises, such as an instruction that this processor lacks, is a failure of the point, and learned from."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "product.c", Path(folder) / "product"
        source.write_text(SOURCE % point["order"])
        unrolled = ["-funroll-loops", f"--param=max-unroll-times={point['unroll']}"]
        flags = [point["level"], point["math"], f"-march={point['machine']}", *unrolled]
        subprocess.run(["gcc", *flags, source, "-o", program], check=True, capture_output=True)
        return float(subprocess.run([program], check=True, capture_output=True, timeout=10).stdout)


tuner = Optimizer(space, objectives=["seconds"], evaluations=30, seed=0)
print(tuner.run(seconds, batch=5), tuner.best, sum(t.failure is not None for t in tuner.trials), "failed")
