// The sparse accumulator: reductions whose loop lies outside loops that survive.
#pragma once

#include "align.hpp"
#include "block.hpp"
#include "table.hpp"

namespace hwsim {

struct AccumulatePlan {
  std::vector<std::int64_t> sizes;  // extents of the keys
  std::int64_t depth = 0;           // loops in scope, the reduction `outer` being the first
  Time drain_cycles_per_entry = 0;
  std::int64_t capacity_entries = 0, entry_value_bytes = 0, entry_metadata_bytes = 0;  // capacity 0: unlimited
  Traffic* account = nullptr;
  bool larger = false;  // keeps the largest value of a key instead of the sum

  std::int64_t key_space() const {
    std::int64_t product = 1;
    for (const std::int64_t size : sizes) product *= std::max<std::int64_t>(size, 1);
    return product;
  }
};

// Runs written to off-chip memory when more keys are live than fit; sums themselves stay with the host.
struct Runs {
  SumTable keys;  // of the current run
  std::int64_t spilled_entries = 0;
  explicit Runs(std::int64_t key_space) : keys(key_space) {}
};

// Pairs (key, value) are summed while `outer` is inside its fiber, one per cycle; at its Stop n all sums leave in key
// order: one fiber of crd_1, for each of its coordinates a fiber of crd_2, and so on, closed by Stop n, Stop n+1, ...
// With `drain_cycles_per_entry` 0 the drain is a single turn; else every entry takes that long, and the end a cycle.
// With `tiles` values are numbers of tiles, of which `right` has the second factors if it is connected.
inline Task accumulate(Unit& u, In outer, std::vector<KeyStream> keys, In val, In right, std::vector<Out> out_crd,
                       Out out_val, AccumulatePlan plan, std::unique_ptr<TileSums> tiles = nullptr) {
  const std::size_t order = keys.size();
  const std::int64_t m = plan.depth, entry_bytes = plan.entry_value_bytes + plan.entry_metadata_bytes;
  SumTable sums(plan.key_space(), plan.larger);
  Runs runs(plan.capacity_entries ? plan.key_space() : 1);
  std::vector<std::int64_t> previous(order), current(order);
  std::int64_t ended = -1;  // level of the inner Stop that ended the scope, -1: none yet
  for (;;) {
    PEEK(o, outer);
    for (const KeyStream& key : keys) {
      AWAIT_TOKEN(key.in);
      key.in.peek(u);
    }
    PEEK(v, val);
    Token w = v;
    if (right.connected()) {
      PEEK(r, right);
      if (v.is_stop() || v.is_done() || r.is_stop() || r.is_done() ? r != v : false)
        u.misaligned({{"a", v}, {"b", r}});
      w = r;
    }
    if (o.is_val() && (v.is_val() || v.is_empty())) {
      std::int64_t packed = 0;
      for (std::size_t q = 0; q < order; ++q) {
        const Token c = keys[q].in.peek(u);
        if (!c.is_val()) u.misaligned({{keys[q].port, c}, {"val", v}});
        if (c.bits < 0 || c.bits >= plan.sizes[q])
          u.fail(std::string("port ") + keys[q].port + " has coordinate " + std::to_string(c.bits) +
                 ", its extent is " + std::to_string(plan.sizes[q]) + ".");
        packed = packed * plan.sizes[q] + c.bits;
      }
      if (v.is_val() || (right.connected() && w.is_val())) {
        if (plan.capacity_entries && runs.keys.add(packed, 0.0) &&
            std::int64_t(runs.keys.entries()) > plan.capacity_entries) {
          const std::int64_t n = std::int64_t(runs.keys.drain().size()) - 1;
          runs.keys.add(packed, 0.0);
          const std::int64_t address = runs.spilled_entries * entry_bytes;
          u.reach(co_await u.access(plan.account, address, n * entry_bytes, true));
          plan.account->write.add(n * plan.entry_value_bytes, n * plan.entry_metadata_bytes);
          runs.spilled_entries += n, u.record.spilled += n;
        }
        if (!tiles) u.record.additions += !sums.add(packed, v.number());
        else if (tiles->add(u, packed, v, right.connected() ? w : Token::empty())) sums.add(packed, 0.0);
      }
      keys.back().in.drop(u);
      val.drop(u);
      if (right.connected()) right.drop(u);
      u.end_turn(tiles ? tiles->interval() : 1);
      continue;
    }
    if (o.is_val()) {
      if (!v.is_stop() || ended >= 0) u.misaligned({{"outer", o}, {"val", v}});
      for (KeyStream& key : keys) {
        CLOSE(key, v.bits);
      }
      if (v.bits >= m - 2) outer.drop(u);
      if (v.bits >= m - 1) ended = v.bits;
      val.drop(u);
      if (right.connected()) right.drop(u);
      u.end_turn();
      continue;
    }
    if (o.is_done()) {
      if (!v.is_done()) u.misaligned({{"outer", o}, {"val", v}});
      break;
    }
    if (!o.is_stop()) u.misaligned({{"outer", o}, {"val", v}});
    if (ended < 0) {  // nothing in this scope: its inner stops are still there
      if (v != Token::stop(o.bits + m - 1)) u.misaligned({{"outer", o}, {"val", v}});
      for (KeyStream& key : keys) {
        CLOSE(key, v.bits);
      }
      val.drop(u);
      if (right.connected()) right.drop(u);
    } else if (ended != o.bits + m - 1) {
      u.misaligned({{"outer", o}, {"val", Token::stop(ended)}});
    }
    ended = -1;
    if (runs.spilled_entries) {
      const std::int64_t n = runs.spilled_entries;
      u.reach(co_await u.access(plan.account, 0, n * entry_bytes, false));
      plan.account->read.add(n * plan.entry_value_bytes, n * plan.entry_metadata_bytes);
      runs.spilled_entries = 0;
    }
    if (plan.capacity_entries) runs.keys.drain();
    bool first = true;
    for (const auto& [packed, sum] : sums.drain()) {
      std::size_t changed = order;  // the outermost key that differs from the previous entry's
      std::int64_t rest = packed;
      for (std::size_t q = order; q-- > 0; rest /= plan.sizes[q]) {
        current[q] = rest % plan.sizes[q];
        if (first || current[q] != previous[q]) changed = q;
      }
      if (!first && changed + 1 < order) {
        for (std::size_t q = changed + 1; q < order; ++q) {
          PUSH(out_crd[q], Token::stop(std::int64_t(q - changed) - 1));
        }
        PUSH(out_val, Token::stop(std::int64_t(order - changed) - 2));
      }
      for (std::size_t q = changed; q < order; ++q) {
        PUSH(out_crd[q], Token::val(current[q]));
      }
      const Token left = tiles ? tiles->leave(u, packed) : Token::val(sum);
      PUSH(out_val, left);
      if (plan.drain_cycles_per_entry) u.end_turn(plan.drain_cycles_per_entry);
      std::swap(previous, current);
      first = false;
    }
    PUSH(out_val, Token::stop(o.bits + std::int64_t(order) - 1));
    for (std::size_t q = 0; q < order; ++q) {
      PUSH(out_crd[q], Token::stop(o.bits + std::int64_t(q)));
    }
    outer.drop(u);
    u.end_turn();
  }
  PUSH(out_val, Token::done());
  for (std::size_t q = 0; q < order; ++q) {
    PUSH(out_crd[q], Token::done());
  }
}

}  // namespace hwsim
