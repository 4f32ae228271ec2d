// Tiles between off-chip memory and the buffer: tile_load; and convert, a tensor written anew through the buffer.
#pragma once

#include <span>

#include "../engine.hpp"

namespace hwsim {

enum class Residency { none, lru, keep, overbooked };

struct TilePlan {
  std::span<const std::int64_t> value_bytes, metadata_bytes, address;
  Traffic* account = nullptr;
  Residency residency = Residency::none;
  std::int64_t capacity_bytes = 0;   // 0: everything fits
  std::int64_t streaming_bytes = 0;  // overbooked: what the tail of a tile larger than the buffer streams through
  double fill_bytes_per_cycle = 0;   // 0: unlimited
};

// Which bytes of which tiles the buffer holds; under lru and overbooked in a ring, most recently used first.
class TileBuffer {
 public:
  explicit TileBuffer(const TilePlan& plan) : policy_(plan.residency), capacity_(plan.capacity_bytes) {
    if (policy_ == Residency::none) return;
    const std::size_t tiles = plan.address.size();
    next_.resize(tiles + 1), previous_.resize(tiles + 1), bytes_.resize(tiles, -1);
    next_[tiles] = previous_[tiles] = tiles;  // the ring's anchor
    head_ = capacity_ - plan.streaming_bytes;
  }

  // A visit of a tile of so many bytes: how many of its first bytes are there already. The rest must be fetched.
  std::int64_t visit(std::size_t tile, std::int64_t bytes) {
    if (policy_ == Residency::none) return 0;
    const bool here = bytes_[tile] >= 0, larger = capacity_ && bytes > capacity_;
    if (policy_ == Residency::keep) {
      if (!here && (!capacity_ || total_ + bytes <= capacity_)) bytes_[tile] = bytes, total_ += bytes;
      return here ? bytes : 0;
    }
    const bool booked = policy_ == Residency::overbooked && larger;
    if (here) unlink(tile);
    link(tile, booked ? capacity_ : bytes);
    while (capacity_ && total_ > capacity_) unlink(previous_[bytes_.size()]);
    return !here ? 0 : booked ? head_ : bytes;
  }

 private:
  void link(std::size_t tile, std::int64_t bytes) {
    const std::size_t anchor = bytes_.size(), first = next_[anchor];
    previous_[tile] = anchor, next_[tile] = first;
    next_[anchor] = previous_[first] = tile;
    bytes_[tile] = bytes, total_ += bytes;
  }
  void unlink(std::size_t tile) {
    next_[previous_[tile]] = next_[tile];
    previous_[next_[tile]] = previous_[tile];
    total_ -= bytes_[tile], bytes_[tile] = -1;
  }
  Residency policy_;
  std::int64_t capacity_, head_ = 0, total_ = 0;
  std::vector<std::size_t> next_, previous_;
  std::vector<std::int64_t> bytes_;  // -1: not resident
};

// Passes references to tiles on when their data is there. Loads are issued one per cycle and pipelined: the clock does
// not wait for the data, so the capacity of the output channel is the prefetch depth. The buffer is filled as the data
// come, one tile after the other, no faster than its banks take them in.
inline Task tile_load(Unit& u, In in, LateOut ref, TilePlan plan) {
  TileBuffer buffer(plan);
  Time filled = 0;
  u.loads = true;
  for (;;) {
    POP(r, in);
    if (!r.is_val()) {
      PUSH(ref, r);
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
    ref.wait_slot(u);
    Time available = 0;
    if (const std::int64_t bytes = values + metadata; bytes > 0) {
      const std::int64_t there = buffer.visit(tile, bytes), rest = bytes - there;
      ++(rest ? u.record.misses : u.record.hits);
      if (rest) {  // the last bytes of a tile are its values
        plan.account->read.add(std::min(values, rest), rest - std::min(values, rest));
        const Time begin = std::max(filled, u.t);
        available = co_await u.access(plan.account, plan.address[tile] + there, rest, false);
        if (plan.fill_bytes_per_cycle > 0)
          available = filled = std::max(available, begin + Time(std::ceil(double(rest) / plan.fill_bytes_per_cycle)));
      }
    }
    ref.push(u, r, available);
    u.end_turn();
  }
}

// Reads a tensor and writes it in another layout, or another tensor made of it, in pieces of 16 bursts; up to 16
// pieces are read ahead.
inline Task convert(Unit& u, Traffic& source, Traffic& result, Account read, Account write, std::int64_t burst_bytes) {
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
      there[std::size_t(r)] = co_await u.access(&source, share(in, r - 1), share(in, r) - share(in, r - 1), false);
      ++source.read.requests;
    }
    if (k < 0) continue;
    u.reach(there[std::size_t(k)]);
    if (share(out, k) > share(out, k - 1)) {
      const Time finish = co_await u.access(&result, share(out, k - 1), share(out, k) - share(out, k - 1), true);
      written = std::max(written, finish);  // an earlier write may finish later, on another channel
      ++result.write.requests;
    }
    u.end_free_turn();
  }
  u.reach(written);
  source.read.values_bytes += read.values_bytes, source.read.metadata_bytes += read.metadata_bytes;
  result.write.values_bytes += write.values_bytes, result.write.metadata_bytes += write.metadata_bytes;
}

}  // namespace hwsim
