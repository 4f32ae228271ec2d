// Materialises an output: records its entries and writes its tiles to off-chip memory.
#pragma once

#include <set>

#include "align.hpp"

namespace hwsim {

// `repeated` and `singleton` levels hold one coordinate per place of the last singleton that follows.
enum class LevelKind { dense, compressed, bitmask, repeated, singleton, blocked };

struct StoreLevel {
  LevelKind kind = LevelKind::dense;
  std::int64_t rows = 1, cols = 1;  // of a block
  std::int64_t dim = 0, tile = 0;  // extents of the index and of its tiles
  std::int64_t tile_level = -1;    // which tile level holds the tile's coordinate, -1: not tiled
  std::int64_t side = 1;           // positions that a coordinate of the stream stands for: those of a block
};

struct StorePlan {
  std::size_t tile_levels = 0;     // the first levels are tile coordinates
  std::vector<StoreLevel> inner;   // the stored levels of a tile
  std::int64_t value_bytes = 0, coordinate_bytes = 0, pointer_bytes = 0, descriptor_bytes = 0;
  Traffic* account = nullptr;
};

// The tile being filled: how many distinct prefixes of every length its entries have, and what its blocks hold.
class OpenTile {
 public:
  OpenTile(const StorePlan& plan) : plan_(plan), prefixes_(plan.inner.size(), 0) {}

  bool open() const { return entries_ > 0; }
  // Whether an entry at `at` (all levels) lies in another tile than the last one.
  bool leaves(const std::vector<std::int64_t>& at) const {
    return open() && !std::equal(at.begin(), at.begin() + std::ptrdiff_t(plan_.tile_levels), last_.begin());
  }
  void add(const std::vector<std::int64_t>& at) {
    std::size_t changed = 0;
    if (open())
      while (changed < prefixes_.size() && at[plan_.tile_levels + changed] == last_[plan_.tile_levels + changed])
        ++changed;
    for (std::size_t q = changed; q < prefixes_.size(); ++q) ++prefixes_[q];
    ++entries_, last_ = at;
    if (!plan_.inner.empty() && plan_.inner.back().kind == LevelKind::blocked) add_block(changed);
  }
  // Bytes (values, metadata) of the tile, which is then empty.
  std::pair<std::int64_t, std::int64_t> close() {
    std::int64_t nodes = 1, metadata = plan_.descriptor_bytes;
    for (std::size_t q = 0; q < prefixes_.size(); ++q) {
      switch (plan_.inner[q].kind) {
        case LevelKind::dense: {
          const bool in_blocks = q + 1 < prefixes_.size() && plan_.inner[q + 1].kind == LevelKind::blocked;
          const std::int64_t rows = in_blocks ? plan_.inner[q + 1].rows : 1;
          nodes *= (extent(q) + rows - 1) / rows;
          continue;
        }
        case LevelKind::compressed:
        case LevelKind::repeated: metadata += (nodes + 1) * plan_.pointer_bytes; [[fallthrough]];
        case LevelKind::singleton: metadata += places(q) * plan_.coordinate_bytes; break;
        case LevelKind::bitmask: metadata += (nodes * extent(q) + 7) / 8; break;
        case LevelKind::blocked:
          metadata += (nodes + 1) * plan_.pointer_bytes + blocks_ * plan_.coordinate_bytes;
          nodes = positions_;
          continue;
      }
      nodes = prefixes_[q];
    }
    std::fill(prefixes_.begin(), prefixes_.end(), 0);
    block_row_.clear();
    entries_ = blocks_ = positions_ = 0;
    return {nodes * plan_.value_bytes, metadata};
  }

 private:
  // Positions of level q in this tile: edge tiles are smaller.
  std::int64_t extent(std::size_t q) const {
    const StoreLevel& level = plan_.inner[q];
    const std::int64_t start = level.tile_level < 0 ? 0 : last_[std::size_t(level.tile_level)] * level.tile;
    return std::min(level.tile, level.dim - start);
  }
  std::int64_t places(std::size_t q) const {
    while (q + 1 < prefixes_.size() && plan_.inner[q + 1].kind == LevelKind::singleton) ++q;
    return prefixes_[q];
  }
  // The innermost level is stored in blocks; the last entry is the first to differ from the one before at `changed`.
  void add_block(std::size_t changed) {
    const std::size_t q = prefixes_.size() - 1;
    const StoreLevel& level = plan_.inner[q];
    const std::int64_t row = last_[plan_.tile_levels + q - 1] * plan_.inner[q - 1].side / level.rows;
    const std::int64_t col = last_[plan_.tile_levels + q] * level.side / level.cols;
    if (changed + 1 < q || row != row_) block_row_.clear(), row_ = row;
    if (!block_row_.insert(col).second) return;
    ++blocks_;
    positions_ += std::min(level.rows, extent(q - 1) - row * level.rows) *
                  std::min(level.cols, extent(q) - col * level.cols);
  }

  const StorePlan& plan_;
  std::vector<std::int64_t> prefixes_, last_;
  std::set<std::int64_t> block_row_;  // block columns met in the current row of blocks
  std::int64_t entries_ = 0, blocks_ = 0, positions_ = 0, row_ = 0;
};

// One entry per cycle; a coordinate whose value is Empty is left out but takes its cycle, stops take none. A finished
// tile is written while the next one fills: one write in flight.
inline Task store(Unit& u, std::vector<KeyStream> keys, In val, StorePlan plan) {
  const std::size_t n = keys.size();
  OpenTile tile(plan);
  std::vector<std::int64_t> at(n);
  std::int64_t address = 0;
  Time written = 0;
  u.record.coords.resize(n);
  for (bool ended = false; !ended;) {
    for (const KeyStream& key : keys) {
      AWAIT_TOKEN(key.in);
      key.in.peek(u);
    }
    PEEK(v, val);
    if (v.is_stop()) {
      for (KeyStream& key : keys) {
        CLOSE(key, v.bits);
      }
      if (n == 0) u.misaligned({{"val", v}});
      val.drop(u);
      u.end_free_turn();
      continue;
    }
    ended = v.is_done();
    for (std::size_t q = 0; q < n; ++q) {
      const Token c = keys[q].in.peek(u);
      if (ended ? !c.is_done() : !c.is_val()) u.misaligned({{keys[q].port, c}, {"val", v}});
      at[q] = c.bits;
      if (ended || q < plan.tile_levels) continue;
      const StoreLevel& level = plan.inner[q - plan.tile_levels];
      const std::int64_t extent = (level.dim + level.side - 1) / level.side;
      if (c.bits < 0 || c.bits >= extent)
        u.fail(std::string("port ") + keys[q].port + " has coordinate " + std::to_string(c.bits) + ", its extent is " +
               std::to_string(extent) + ".");
    }
    if (tile.open() && (ended || (v.is_val() && tile.leaves(at)))) {
      const auto [values, metadata] = tile.close();
      u.reach(written);
      plan.account->write.add(values, metadata);
      written = co_await u.access(plan.account, address, values + metadata, true);
      address += values + metadata;
    }
    if (v.is_val()) {
      tile.add(at);
      for (std::size_t q = 0; q < n; ++q) u.record.coords[q].push_back(at[q]);
      u.record.values.push_back(v.number());
    }
    if (ended) u.reach(written);
    if (!ended && n > 0) keys.back().in.drop(u);
    val.drop(u);
    u.end_turn();
  }
}

}  // namespace hwsim
