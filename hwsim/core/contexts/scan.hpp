// Walks over stored levels: scan, and stream_scan over a level that is produced on the fly.
#pragma once

#include <span>

#include "../engine.hpp"

namespace hwsim {

// A stored level: fiber r holds positions pos[r] .. pos[r+1]; dense when it has no coordinates.
struct Level {
  std::span<const std::int64_t> pos, crd;
  bool compressed = false;
  std::int64_t lo = 0, hi = std::numeric_limits<std::int64_t>::max();  // only coordinates lo <= c < hi are seen

  std::int64_t parents() const { return std::int64_t(pos.size()) - 1; }
  std::int64_t coordinate(std::int64_t fiber, std::int64_t p) const {
    return compressed ? crd[std::size_t(p)] : p - pos[std::size_t(fiber)];
  }
  std::pair<std::int64_t, std::int64_t> positions(std::int64_t fiber) const {
    const std::int64_t begin = pos[std::size_t(fiber)], end = pos[std::size_t(fiber) + 1];
    if (!compressed) return {begin + std::min(lo, end - begin), begin + std::min(hi, end - begin)};
    if (lo == 0 && hi == std::numeric_limits<std::int64_t>::max()) return {begin, end};
    const auto at = [&](std::int64_t c) {
      return std::lower_bound(crd.begin() + begin, crd.begin() + end, c) - crd.begin();
    };
    return {at(lo), at(hi)};
  }
};

// Pushes elements of a fiber from position p on while both outputs have room; the position reached.
HWSIM_INLINE std::int64_t emit(Unit& u, Out crd, Out ref, const Level& level, std::int64_t fiber, std::int64_t p,
                               std::int64_t end) {
  for (; p < end && !crd.full() && !ref.full(); ++p) {
    crd.push(u, Token::val(level.coordinate(fiber, p)));
    ref.push(u, Token::val(p));
    u.end_turn();
  }
  return p;
}

// One fiber per reference (none for Empty), then its closing stop, which waits for the next reference: a Stop there
// is folded in. The reference of a tile stays at the head until its fiber has ended.
inline Task scan(Unit& u, In in, Out crd, Out ref, Level level) {
  const bool holds = in.holds_tiles();
  for (;;) {
    PEEK(r, in);
    if (!holds || !r.is_val()) in.drop(u);
    if (r.is_done()) break;
    std::int64_t closing = 0;
    if (r.is_stop()) {
      closing = r.bits + 1;
    } else {
      if (r.is_val()) {
        if (r.bits < 0 || r.bits >= level.parents())
          u.fail("port ref has reference " + std::to_string(r.bits) + ", the level has " +
                 std::to_string(level.parents()) + " fibers.");
        auto [p, end] = level.positions(r.bits);
        while ((p = emit(u, crd, ref, level, r.bits, p, end)) < end) {  // one element by waiting for room
          PUSH(crd, Token::val(level.coordinate(r.bits, p)));
          PUSH(ref, Token::val(p));
          u.end_turn();
          ++p;
        }
      }
      if (holds && r.is_val()) in.drop(u);
      PEEK(next, in);
      if (next.is_stop()) in.drop(u), closing = next.bits + 1;
    }
    PUSH(crd, Token::stop(closing));
    PUSH(ref, Token::stop(closing));
    u.end_turn();
  }
  PUSH(crd, Token::done());
  PUSH(ref, Token::done());
}

// The raw level under a stream_scan: the k-th value of `parent` owns the k-th fiber of `crd` (and of `payload`), and
// the stops of `parent` say which groups hold no fiber at all.
struct RawLevel {
  In crd, payload, parent;
  std::int64_t fiber = 0, element = 0;  // numbers of the current fiber and the next element
  std::int64_t last_stop = 0;           // level of the last raw Stop; above 0 it has ended the group too

  // Takes note of a token of the current fiber and its payload, both popped; at its Stop the owner goes too.
  void taken(Unit& u, Token owner, Token x, Token y) {
    if (last_stop > 0) u.misaligned({{"parent", owner}, {"crd", Token::stop(last_stop)}});
    if (!owner.is_val() || x.is_empty() || x.is_done()) u.misaligned({{"parent", owner}, {"crd", x}});
    if (x.is_val() ? !y.is_val() && !y.is_empty() : x != y) u.misaligned({{"crd", x}, {"payload", y}});
    if (x.is_val()) ++element;
    else parent.drop(u), last_stop = x.bits, ++fiber;
  }
  // Takes note of the lone Stop of a group without fibers.
  void taken_empty_group(Unit& u, Token owner, Token x, Token y) {
    if (x != Token::stop(owner.bits + 1) || x != y) u.misaligned({{"parent", owner}, {"crd", x}, {"payload", y}});
    last_stop = x.bits;
  }
  // Drops the Stop that ends a group of `parent`, the group's raw tokens being gone.
  void close_group(Unit& u, Token owner) {
    if (last_stop != owner.bits + 1) u.misaligned({{"parent", owner}, {"crd", Token::stop(last_stop)}});
    parent.drop(u);
    last_stop = 0;
  }
};

// A scan of a level that is produced on the fly. `ref` asks for fibers by number, in increasing order, perhaps leaving
// some out: those are discarded, one raw token per cycle, once a later one is asked for or the stream ends. Groups of
// `ref` need not be groups of `parent`: a union adds empty ones, an intersection leaves some out. Only Stops of `ref`
// from level `aligned` on end the same groups in both: what is left of such a group, at least the Stop that stands for
// no fiber, is discarded at its end. Else the Stops of many empty groups would wait for the next fiber and, once they
// fill a FIFO, hold up a producer of several levels.
inline Task stream_scan(Unit& u, In ref, RawLevel raw, Out crd, Out out, std::int64_t aligned) {
  for (;;) {
    POP(r, ref);
    if (r.is_val() && r.bits < raw.fiber)
      u.fail("port ref asks for fiber " + std::to_string(r.bits) + " but the stream is at fiber " +
             std::to_string(raw.fiber) + " already.");
    Token end = r;  // how far the raw streams are read: past a fiber, past the last of a group, to their end
    for (bool more = end.is_done() || (end.is_stop() ? end.bits >= aligned : end.is_val());;) {
      if (!more) {
        if (end.is_stop() || end.is_done()) break;
        PEEK(next, ref);
        if (!next.is_stop()) break;
        ref.drop(u);
        end = next;
        more = end.bits >= aligned;
        continue;
      }
      PEEK(owner, raw.parent);
      if (owner.is_done()) {
        if (!end.is_done()) u.misaligned({{"ref", end}, {"parent", owner}});
        break;
      }
      if (owner.is_stop()) {
        if (raw.last_stop == 0) {
          POP(x, raw.crd);
          Token y = x;
          if (raw.payload.connected()) {
            POP(payload, raw.payload);
            y = payload;
          }
          raw.taken_empty_group(u, owner, x, y);
          u.end_turn();
        }
        raw.close_group(u, owner);
        if (end.is_stop() && owner.bits >= aligned) {
          if (owner != end) u.misaligned({{"ref", end}, {"parent", owner}});
          more = false;
        }
        continue;
      }
      const bool wanted = end.is_val() && raw.fiber == end.bits;
      POP(x, raw.crd);
      Token y = x.is_val() ? Token::val(raw.element) : x;
      if (raw.payload.connected()) {
        POP(payload, raw.payload);
        y = payload;
      }
      raw.taken(u, owner, x, y);
      if (wanted && !x.is_val()) {
        more = false;  // its Stop goes with the closing turn below
        continue;
      }
      if (wanted) {
        PUSH(crd, x);
        PUSH(out, y);
      }
      u.end_turn();
    }
    if (r.is_done()) break;
    const Token closing = Token::stop(end.is_stop() ? end.bits + 1 : 0);
    PUSH(crd, closing);
    PUSH(out, closing);
    u.end_turn();
  }
  PUSH(crd, Token::done());
  PUSH(out, Token::done());
}

}  // namespace hwsim
