// Arithmetic on tiles: streams carry tile numbers, arrays hold the tiles, row by row.
#pragma once

#include <unordered_map>

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
  bool ring = false;  // numbers of results start anew where `out` ends

  bool product() const { return op == BlockOp::matmul; }
  std::int64_t left() const { return rows * (product() ? inner : cols); }
  std::int64_t right() const { return (product() ? inner : rows) * cols; }
  Time interval() const {
    return Time((rows * cols * inner + operations_per_cycle - 1) / operations_per_cycle);
  }
};

// Tile `to` of the result, from tile x (null: all zeros) and tile y; with `more` they are added to what `to` holds.
inline void work(Record& record, const BlockPlan& plan, const double* x, const double* y, double* to,
                 bool more = false) {
  for (std::int64_t i = 0; i < plan.rows; ++i)
    for (std::int64_t j = 0; j < plan.cols; ++j) {
      double& sum = to[i * plan.cols + j];
      if (!more) sum = 0.0;
      for (std::int64_t k = 0; k < plan.inner; ++k) {
        const double l = x ? x[plan.product() ? i * plan.inner + k : i * plan.cols + j] : 0.0;
        const double r = y ? y[plan.product() ? k * plan.cols + j : i * plan.cols + j] : 0.0;
        const bool multiplies = plan.product() || plan.op == BlockOp::mul;
        record.multiplies += multiplies && l != 0.0 && r != 0.0;
        record.additions += !multiplies || k > 0 || more;
        sum += multiplies ? l * r : plan.op == BlockOp::add ? l + r : l - r;
      }
    }
}

// Tile x of an array, null for Empty.
inline const double* tile_of(const Unit& u, std::span<const double> tiles, std::int64_t entries, Token x,
                             const char* port) {
  if (x.is_empty()) return nullptr;
  if (x.bits < 0 || (x.bits + 1) * entries > std::int64_t(tiles.size()))
    u.fail(std::string("port ") + port + " has tile " + std::to_string(x.bits) + ", its array has " +
           std::to_string(std::int64_t(tiles.size()) / entries) + " tiles.");
  return tiles.data() + x.bits * entries;
}

// Where result n goes: place n of `out`, or with `ring` place n mod the room, once nobody needs what was there.
inline double* place(const Unit& u, const BlockPlan& plan, std::int64_t n) {
  const std::int64_t size = plan.rows * plan.cols, room = std::int64_t(plan.out.size()) / size;
  if (!room || (!plan.ring && n >= room)) u.fail("array 'out' has room for " + std::to_string(room) + " tiles only.");
  return plan.out.data() + n % room * size;
}
inline Token number_of(const BlockPlan& plan, std::int64_t n) {
  return Token::val(n % (std::int64_t(plan.out.size()) / (plan.rows * plan.cols)));
}

// One result tile per pair; results are numbered 0, 1, ... in `out`. The unit starts a pair every interval() cycles;
// the result is there interval() - 1 + latency_cycles cycles later than a scalar alu's. Empty is a tile of zeros.
inline Task block_alu(Unit& u, In a, In b, LateOut out, BlockPlan plan) {
  std::int64_t next = 0;
  for (;;) {
    PEEK(x, a);
    PEEK(y, b);
    const bool tiles = (x.is_val() || x.is_empty()) && (y.is_val() || y.is_empty());
    if (!tiles && x != y) u.misaligned({{"a", x}, {"b", y}});
    a.drop(u);
    b.drop(u);
    AWAIT_ROOM(out);
    out.wait_slot(u);
    if (tiles) {
      double* const to = place(u, plan, next);
      work(u.record, plan, tile_of(u, plan.a, plan.left(), x, "a"), tile_of(u, plan.b, plan.right(), y, "b"), to);
      const Time there = u.t + out.latency() + plan.interval() - 1 + plan.latency_cycles;
      out.push(u, Token::val(next++), there);
      u.end_turn(plan.interval());
    } else {
      out.push(u, x);
      u.end_turn();
    }
    if (x.is_done()) co_return;
  }
}

// Sums of tile products of every innermost fiber: reduce for pairs of tiles. A pair takes interval() cycles; the Stop
// that ends its fiber hands the sum on (Empty for a fiber without pairs). `outer` as in reduce.
inline Task block_mac(Unit& u, In a, In b, In outer, Out out, BlockPlan plan) {
  std::int64_t next = 0;
  bool any = false;
  for (;;) {
    PEEK(x, a);
    PEEK(y, b);
    const bool pair = (x.is_val() || x.is_empty()) && (y.is_val() || y.is_empty());
    if (!pair && x != y) u.misaligned({{"a", x}, {"b", y}});
    a.drop(u);
    b.drop(u);
    if (pair) {
      double* const to = place(u, plan, next);
      work(u.record, plan, tile_of(u, plan.a, plan.left(), x, "a"), tile_of(u, plan.b, plan.right(), y, "b"), to, any);
      any = true;
      u.end_turn(plan.interval());
      continue;
    }
    bool fiber = x.is_stop();
    if (outer.connected()) {
      PEEK(o, outer);
      fiber = x.is_stop() && (o.is_val() || o.is_empty());
      const Token close = x.is_done() ? x : Token::stop(x.bits - 1);
      if (fiber) outer.drop(u);
      else if (o != close) u.misaligned({{"a", x}, {"outer", o}});
      if (fiber && x.bits > 0) {
        PEEK(end, outer);
        if (end != close) u.misaligned({{"a", x}, {"outer", end}});
      }
      if (x.is_stop() && x.bits > 0) outer.drop(u);
    }
    if (fiber) {
      PUSH(out, any ? number_of(plan, next) : Token::empty());
      next += any;
    } else if (any) {
      u.fail("port a has tiles in a group for which port outer has none.");
    }
    any = false;
    if (x.is_done()) break;
    if (x.bits > 0) {
      PUSH(out, Token::stop(x.bits - 1));
    }
    u.end_turn();
  }
  PUSH(out, Token::done());
}

// The sums of an accumulator whose values are tiles: tile products or, with an op but matmul and no b, tiles.
class TileSums {
 public:
  explicit TileSums(BlockPlan plan) : plan_(plan) {}

  Time interval() const { return plan_.interval(); }
  // Adds to the sum of a key; true if the key is new.
  bool add(Unit& u, std::int64_t key, Token x, Token y) {
    const auto [at, fresh] = sums_.try_emplace(key, std::size_t(plan_.rows * plan_.cols), 0.0);
    double* const sum = at->second.data();
    const double* const tile = tile_of(u, plan_.a, plan_.left(), x, "a");
    if (plan_.product()) {
      work(u.record, plan_, tile, tile_of(u, plan_.b, plan_.right(), y, "b"), sum, !fresh);
    } else if (tile) {
      for (std::size_t i = 0; i < at->second.size(); ++i) sum[i] += tile[i];
      u.record.additions += fresh ? 0 : std::int64_t(at->second.size());
    }
    return fresh;
  }
  // Puts the sum of a key among the results.
  Token leave(const Unit& u, std::int64_t key) {
    const auto at = sums_.find(key);
    std::copy(at->second.begin(), at->second.end(), place(u, plan_, next_));
    sums_.erase(at);
    return number_of(plan_, next_++);
  }

 private:
  BlockPlan plan_;
  std::unordered_map<std::int64_t, std::vector<double>> sums_;
  std::int64_t next_ = 0;
};

inline BlockPlan block_plan(const Builder& b, bool product) {
  const auto none = std::span<const double>{};
  BlockPlan plan{.a = b.values<double>("a"),
                 .b = b.spec.arrays.contains("b") ? b.values<double>("b") : none,
                 .out = b.writable("out"),
                 .op = product ? BlockOp::matmul : BlockOp::add,
                 .rows = b.param<std::int64_t>("rows"),
                 .cols = b.param<std::int64_t>("cols"),
                 .inner = b.param<std::int64_t>("inner", 1),
                 .operations_per_cycle = b.param<std::int64_t>("operations_per_cycle"),
                 .latency_cycles = b.param<Time>("latency_cycles", 0),
                 .ring = b.param<std::int64_t>("ring", 0) != 0};
  if (b.has("op")) plan.op = b.choice<BlockOp>("op", {"matmul", "mul", "add", "sub"});
  if (plan.rows < 1 || plan.cols < 1 || plan.inner < 1 || plan.operations_per_cycle < 1)
    b.u.fail("'rows', 'cols', 'inner' and 'operations_per_cycle' must be at least 1.");
  if (!plan.product() && plan.inner != 1) b.u.fail("'inner' is for op matmul only.");
  return plan;
}

inline const Maker block_makers[] = {
    {"block_alu", [](const Builder& b) { return block_alu(b.u, b.in(0), b.in(1), b.out(0), block_plan(b, true)); }},
    {"block_mac",
     [](const Builder& b) { return block_mac(b.u, b.in(0), b.in(1), b.in(2), b.out(0), block_plan(b, true)); }},
};

}  // namespace hwsim
