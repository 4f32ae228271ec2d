// Tiles between off-chip memory and the buffer: tile_load; and convert, a tensor re-laid out through the buffer.
#pragma once

#include <span>

#include "../engine.hpp"

namespace hwsim {

// Tiles in the buffer, most recently used first, as far as their bytes fit. Capacity 0: everything fits.
class Residency {
 public:
  Residency(std::size_t tiles, std::int64_t capacity)
      : capacity_(capacity), next_(tiles + 1), previous_(tiles + 1), bytes_(tiles, -1) {
    next_[tiles] = previous_[tiles] = tiles;  // the ring's anchor
  }
  bool resident(std::size_t tile) const { return bytes_[tile] >= 0; }

  void use(std::size_t tile, std::int64_t bytes) {
    if (resident(tile)) unlink(tile);
    const std::size_t anchor = bytes_.size(), first = next_[anchor];
    previous_[tile] = anchor, next_[tile] = first;
    next_[anchor] = previous_[first] = tile;
    bytes_[tile] = bytes, total_ += bytes;
    while (capacity_ && total_ > capacity_) unlink(previous_[anchor]);
  }

 private:
  void unlink(std::size_t tile) {
    next_[previous_[tile]] = next_[tile];
    previous_[next_[tile]] = previous_[tile];
    total_ -= bytes_[tile], bytes_[tile] = -1;
  }
  std::int64_t capacity_, total_ = 0;
  std::vector<std::size_t> next_, previous_;
  std::vector<std::int64_t> bytes_;  // -1: not resident
};

struct TilePlan {
  std::span<const std::int64_t> value_bytes, metadata_bytes, address;
  Traffic* account = nullptr;
  bool keeps = false;  // lru, else every visit loads
  std::int64_t capacity_bytes = 0;
};

// Passes references to tiles on when their data is there. Loads are issued one per cycle and pipelined: the clock does
// not wait for the data, so the capacity of the output channel is the prefetch depth.
inline Task tile_load(Unit& u, In in, Out ref, TilePlan plan) {
  Residency buffer(plan.keeps ? plan.address.size() : 0, plan.capacity_bytes);
  for (;;) {
    POP(r, in);
    if (!r.is_val()) {
      AWAIT_ROOM(ref);
      ref.push(u, r, 0);
      if (r.is_done()) co_return;
      u.end_turn();
      continue;
    }
    if (std::uint64_t(r.bits) >= plan.address.size())
      u.fail("port ref has tile " + std::to_string(r.bits) + ", the tensor has " + std::to_string(plan.address.size()) +
             " tiles.");
    const std::size_t tile = std::size_t(r.bits);
    const std::int64_t values = plan.value_bytes[tile], metadata = plan.metadata_bytes[tile];
    AWAIT_ROOM(ref);
    if (ref.channel) ref.channel->wait_slot(u.t);
    Time available = 0;
    if (values + metadata > 0) {
      const bool hit = plan.keeps && buffer.resident(tile);
      if (plan.keeps) buffer.use(tile, values + metadata);
      ++(hit ? u.record.hits : u.record.misses);
      if (!hit) {
        plan.account->read.add(values, metadata);
        available = co_await u.access(plan.address[tile], values + metadata, false);
      }
    }
    ref.push(u, r, available);
    u.end_turn();
  }
}

// Reads a tensor in one layout and writes it in another, in pieces of 16 bursts; up to 16 pieces are read ahead.
inline Task convert(Unit& u, Traffic& account, Account read, Account write, std::int64_t burst_bytes) {
  constexpr std::int64_t bursts_per_piece = 16, pieces_ahead = 16;
  const std::int64_t in = read.values_bytes + read.metadata_bytes, out = write.values_bytes + write.metadata_bytes;
  const std::int64_t piece = burst_bytes * bursts_per_piece;
  const std::int64_t pieces = piece ? (std::max(in, out) + piece - 1) / piece : in || out ? 1 : 0;
  const auto share = [pieces, piece](std::int64_t total, std::int64_t k) {  // end of piece k of `total` bytes
    return k < 0 ? 0 : k + 1 == pieces ? total : std::min(total, (k + 1) * piece);
  };
  std::vector<Time> there(std::size_t(pieces), 0);
  Time written = 0;
  for (std::int64_t k = -pieces_ahead; k < pieces; ++k) {
    const std::int64_t r = k + pieces_ahead;  // the piece to read now
    if (r < pieces && share(in, r) > share(in, r - 1)) {
      there[std::size_t(r)] = co_await u.access(share(in, r - 1), share(in, r) - share(in, r - 1), false);
      ++account.read.requests;
    }
    if (k < 0) continue;
    u.reach(there[std::size_t(k)]);
    if (share(out, k) > share(out, k - 1)) {
      const Time finish = co_await u.access(share(out, k - 1), share(out, k) - share(out, k - 1), true);
      written = std::max(written, finish);  // an earlier write may finish later, on another channel
      ++account.write.requests;
    }
    u.end_free_turn();
  }
  u.reach(written);
  account.read.values_bytes += read.values_bytes, account.read.metadata_bytes += read.metadata_bytes;
  account.write.values_bytes += write.values_bytes, account.write.metadata_bytes += write.metadata_bytes;
}

}  // namespace hwsim
