// Arithmetic on tiles: streams carry tile numbers, arrays hold the tiles, row by row.
#pragma once

#include "../builder.hpp"

namespace hwsim {

enum class BlockOp { matmul, mul, add, sub };

struct BlockPlan {
  std::span<const double> a, b;
  std::span<double> out;
  BlockOp op = BlockOp::matmul;
  std::int64_t rows = 0, cols = 0, inner = 0;  // an r x k by a k x c tile, or two r x c tiles (inner = 1)
  std::int64_t operations_per_cycle = 0;
  Time latency_cycles = 0;

  bool product() const { return op == BlockOp::matmul; }
  std::int64_t left() const { return rows * (product() ? inner : cols); }
  std::int64_t right() const { return (product() ? inner : rows) * cols; }
  Time interval() const {
    return Time((rows * cols * inner + operations_per_cycle - 1) / operations_per_cycle);
  }
};

// Tile `to` of the result, from tile x (null: all zeros) and tile y.
inline void work(Record& record, const BlockPlan& plan, const double* x, const double* y, double* to) {
  for (std::int64_t i = 0; i < plan.rows; ++i)
    for (std::int64_t j = 0; j < plan.cols; ++j) {
      double& sum = to[i * plan.cols + j];
      sum = 0.0;
      for (std::int64_t k = 0; k < plan.inner; ++k) {
        const double l = x ? x[plan.product() ? i * plan.inner + k : i * plan.cols + j] : 0.0;
        const double r = y ? y[plan.product() ? k * plan.cols + j : i * plan.cols + j] : 0.0;
        const bool multiplies = plan.product() || plan.op == BlockOp::mul;
        record.multiplies += multiplies && l != 0.0 && r != 0.0;
        record.additions += !multiplies || k > 0;
        sum += multiplies ? l * r : plan.op == BlockOp::add ? l + r : l - r;
      }
    }
}

// One result tile per pair; results are numbered 0, 1, ... in `out`. The unit starts a pair every interval() cycles;
// the result is there interval() - 1 + latency_cycles cycles later than a scalar alu's. Empty is a tile of zeros.
inline Task block_alu(Unit& u, In a, In b, Out out, BlockPlan plan) {
  const std::int64_t size = plan.rows * plan.cols;
  std::int64_t next = 0;
  const auto tile = [&u](std::span<const double> tiles, std::int64_t entries, Token x, const char* port) {
    if (x.is_empty()) return static_cast<const double*>(nullptr);
    if (x.bits < 0 || (x.bits + 1) * entries > std::int64_t(tiles.size()))
      u.fail(std::string("port ") + port + " has tile " + std::to_string(x.bits) + ", its array has " +
             std::to_string(std::int64_t(tiles.size()) / entries) + " tiles.");
    return tiles.data() + x.bits * entries;
  };
  for (;;) {
    PEEK(x, a);
    PEEK(y, b);
    const bool tiles = (x.is_val() || x.is_empty()) && (y.is_val() || y.is_empty());
    if (!tiles && x != y) u.misaligned({{"a", x}, {"b", y}});
    a.drop(u);
    b.drop(u);
    AWAIT_ROOM(out);
    if (out.channel) out.channel->wait_slot(u.t);
    if (tiles) {
      if ((next + 1) * size > std::int64_t(plan.out.size()))
        u.fail("array 'out' has room for " + std::to_string(next) + " tiles only.");
      work(u.record, plan, tile(plan.a, plan.left(), x, "a"), tile(plan.b, plan.right(), y, "b"),
           plan.out.data() + next * size);
      const Time there = u.t + (out.channel ? out.channel->latency : 0) + plan.interval() - 1 + plan.latency_cycles;
      out.push(u, Token::val(next++), there);
      u.end_turn(plan.interval());
    } else {
      out.push(u, x, 0);
      u.end_turn();
    }
    if (x.is_done()) co_return;
  }
}

inline const Maker block_maker("block_alu", [](const Builder& b) {
  BlockPlan plan{.a = b.values<double>("a"),
                 .b = b.values<double>("b"),
                 .out = b.writable("out"),
                 .op = b.choice<BlockOp>("op", {"matmul", "mul", "add", "sub"}),
                 .rows = b.param<std::int64_t>("rows"),
                 .cols = b.param<std::int64_t>("cols"),
                 .inner = b.param<std::int64_t>("inner", 1),
                 .operations_per_cycle = b.param<std::int64_t>("operations_per_cycle"),
                 .latency_cycles = b.param<Time>("latency_cycles", 0)};
  if (plan.rows < 1 || plan.cols < 1 || plan.inner < 1 || plan.operations_per_cycle < 1)
    b.u.fail("'rows', 'cols', 'inner' and 'operations_per_cycle' must be at least 1.");
  if (!plan.product() && plan.inner != 1) b.u.fail("'inner' is for op matmul only.");
  return block_alu(b.u, b.in(0), b.in(1), b.out(0), plan);
});

}  // namespace hwsim
