"""Cost model: traffic, latency and energy of a mapping predicted from tile statistics, and screening rules."""

from costmodel.bounds import Bounds, bounds
from costmodel.estimate import MODEL_VERSION, Estimate, StepEstimate, estimate
from costmodel.screening import Verdict, capacity_verdicts, screen
from costmodel.statistics import MODEL_LEVELS, Statistics, TensorStatistics, shared_statistics
from costmodel.tile_search import best_tiling
from costmodel.traffic import TensorTraffic, predict_traffic

__all__ = [
    "MODEL_LEVELS",
    "MODEL_VERSION",
    "Bounds",
    "Estimate",
    "Statistics",
    "StepEstimate",
    "TensorStatistics",
    "TensorTraffic",
    "Verdict",
    "best_tiling",
    "bounds",
    "capacity_verdicts",
    "estimate",
    "predict_traffic",
    "screen",
    "shared_statistics",
]
