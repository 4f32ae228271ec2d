// Walks over levels that are stored as bit masks, as runs, as N of every M, with repeated or with plain coordinates. Only
// coordinates lo <= c < hi are seen. Each tells, for levels that are read off-chip, which entries it looks at: from
// `entry` before `next` up to `seen` after it.
#pragma once

#include <algorithm>
#include <bit>

#include "direct.hpp"

namespace hwsim {

struct Element {
  std::int64_t crd, ref;
  Time idle;   // cycles spent before it on storage that holds no element
  bool found;  // false: the fiber has no more
};

constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();

// A bit per coordinate, packed into words of 64, every fiber from a fresh word on. Elements are numbered through. The
// unit reads `word_bits` bits at once: an element per cycle, and a cycle for a group of bits without any.
struct BitmaskWalk {
  std::span<const std::int64_t> pos{}, mask{};
  std::int64_t size = 0, word_bits = 64, lo = 0, hi = all;
  std::int64_t fiber = 0, at = 0, end = 0, ref = 0;
  bool used = false;  // the group of bits at `at` has had an element

  static constexpr std::int64_t places_read = 1, entry_bits = 1;  // 0: parameter 'crd_bits'
  static constexpr bool refs_are_read = true;

  std::int64_t words() const { return (size + 63) / 64; }
  std::int64_t entry() const { return fiber * words() * 64 + at / word_bits * word_bits; }
  std::int64_t seen() const { return fiber * words() * 64 + (at + word_bits - 1) / word_bits * word_bits; }
  std::uint64_t word(std::int64_t w) const { return std::uint64_t(mask[std::size_t(fiber * words() + w)]); }
  void open(std::int64_t r) {
    fiber = r, end = std::min(size, hi), at = std::min(lo, end), ref = pos[std::size_t(r)], used = false;
    for (std::int64_t w = 0; w < at / 64; ++w) ref += std::popcount(word(w));
    if (at % 64 && at < size) ref += std::popcount(word(at / 64) << (64 - at % 64));
  }
  Element next() {
    for (Time idle = 0;;) {
      if (at >= end) return {0, 0, idle, false};
      const std::int64_t stop = std::min(at - at % word_bits + word_bits, end);
      const std::uint64_t rest = word(at / 64) >> at % 64;
      const std::int64_t found = rest ? at + std::countr_zero(rest) : stop;
      if (found < stop) {
        at = found + 1, used = at < stop;
        return {found, ref++, idle, true};
      }
      idle += !used;
      at = stop, used = false;
    }
  }
};

// Runs of coordinates crd[q] .. crd[q] + length[q]; all elements of run q have reference q, for they share its value.
struct RunWalk {
  std::span<const std::int64_t> pos{}, crd{}, length{};
  std::int64_t lo = 0, hi = all, run = 0, end = 0, offset = 0;

  static constexpr std::int64_t places_read = 2, entry_bits = 0;
  static constexpr bool refs_are_read = true;

  std::int64_t entry() const { return run; }
  std::int64_t seen() const { return std::min(run + 1, end); }
  void open(std::int64_t r) {
    run = pos[std::size_t(r)], end = pos[std::size_t(r) + 1];
    while (lo > 0 && run < end && crd[std::size_t(run)] + length[std::size_t(run)] <= lo) ++run;
    offset = run < end ? std::max<std::int64_t>(0, lo - crd[std::size_t(run)]) : 0;
  }
  Element next() {
    while (run < end && offset == length[std::size_t(run)]) ++run, offset = 0;
    if (run == end || crd[std::size_t(run)] + offset >= hi) return {0, 0, 0, false};
    return {crd[std::size_t(run)] + offset++, run, 0, true};
  }
};

// Of every m coordinates, n have a place: place p holds coordinate m * (group of p in its fiber) + crd[p]. The last
// group of a fiber may have fewer places.
struct GroupWalk {
  std::span<const std::int64_t> pos{}, crd{};
  std::int64_t n = 2, m = 4, lo = 0, hi = all;
  std::int64_t begin = 0, at = 0, end = 0;

  static constexpr std::int64_t places_read = 2, entry_bits = 0;
  static constexpr bool refs_are_read = false;

  std::int64_t entry() const { return at; }
  std::int64_t seen() const { return at; }
  std::int64_t coordinate(std::int64_t p) const { return (p - begin) / n * m + crd[std::size_t(p)]; }
  void open(std::int64_t r) {
    begin = pos[std::size_t(r)], end = pos[std::size_t(r) + 1];
    at = lo / m < (end - begin + n - 1) / n ? begin + lo / m * n : end;
    while (at < end && coordinate(at) < lo) ++at;
  }
  Element next() {
    if (at == end || coordinate(at) >= hi) return {0, 0, 0, false};
    const std::int64_t p = at++;
    return {coordinate(p), p, 0, true};
  }
};

// Coordinate crd[g] is stored length[g] times, one after the other, and yields one element, g: reading past the
// repetitions takes a cycle each.
struct RepeatedWalk {
  std::span<const std::int64_t> pos{}, crd{}, length{};
  std::int64_t lo = 0, hi = all, at = 0, end = 0;
  Time owed = 0;

  static constexpr std::int64_t places_read = 2, entry_bits = 0;
  static constexpr bool refs_are_read = false;

  std::int64_t entry() const { return at; }
  std::int64_t seen() const { return at; }

  void open(std::int64_t r) {
    const auto begin = crd.begin() + pos[std::size_t(r)], last = crd.begin() + pos[std::size_t(r) + 1];
    at = std::lower_bound(begin, last, lo) - crd.begin(), end = std::lower_bound(begin, last, hi) - crd.begin();
    owed = 0;
  }
  Element next() {
    const Time idle = owed;
    if (at == end) return {0, 0, idle, false};
    owed = Time(length[std::size_t(at)] - 1);
    const std::int64_t g = at++;
    return {crd[std::size_t(g)], g, idle, true};
  }
};

// A dense or compressed level, element by element: `scan` for lanes that take turns and for levels read in place.
struct LevelWalk {
  std::span<const std::int64_t> pos{}, crd{};
  bool compressed = false;
  std::int64_t lo = 0, hi = all, begin = 0, at = 0, end = 0;

  static constexpr std::int64_t places_read = 2, entry_bits = 0;
  static constexpr bool refs_are_read = false;

  std::int64_t entry() const { return at; }
  std::int64_t seen() const { return at; }
  std::int64_t coordinate(std::int64_t p) const { return compressed ? crd[std::size_t(p)] : p - begin; }
  void open(std::int64_t r) {
    begin = at = pos[std::size_t(r)], end = pos[std::size_t(r) + 1];
    while (at < end && coordinate(at) < lo) ++at;
  }
  Element next() {
    if (at == end || coordinate(at) >= hi) return {0, 0, 0, false};
    const std::int64_t p = at++;
    return {coordinate(p), p, 0, true};
  }
};

// Lanes that take turns: of `step` of them the one that has every coordinate c with c % step == phase. What the others
// have costs nothing here.
struct Turns {
  std::int64_t phase = 0, step = 1;

  explicit Turns(const Builder& b) : phase(b.param<std::int64_t>("phase", 0)), step(b.param<std::int64_t>("step", 1)) {
    if (step < 1 || phase < 0 || phase >= step) b.u.fail("'phase' and 'step' must be 0 <= phase < step.");
  }
  bool holds(std::int64_t c) const { return c % step == phase; }
};

// `scan` turn for turn, elements coming from a walk.
template <class Walk>
Task scan_walk(Unit& u, In in, Out crd, Out ref, Walk walk, Turns turns) {
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
        if (r.bits < 0 || r.bits + 1 >= std::int64_t(walk.pos.size()))
          u.fail("port ref has reference " + std::to_string(r.bits) + ", the level has " +
                 std::to_string(walk.pos.size() - 1) + " fibers.");
        walk.open(r.bits);
        for (;;) {
          const Element element = walk.next();
          u.spend(element.idle);
          if (!element.found) break;
          if (!turns.holds(element.crd)) continue;
          PUSH(crd, Token::val(element.crd));
          PUSH(ref, Token::val(element.ref));
          u.end_turn();
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

template <class Walk>
Task scan_walk(const Builder& b, Walk walk) {
  walk.lo = std::max<std::int64_t>(b.param("lo", walk.lo), 0);
  walk.hi = std::max(b.param("hi", walk.hi), walk.lo);
  if (!b.has("tensor")) return scan_walk(b.u, b.in(0), b.out(0), b.out(1), walk, Turns(b));
  for (const char* limit : {"lo", "hi", "step"})
    if (b.has(limit)) b.u.fail("lanes cannot share a level that is read off-chip; leave out 'lo', 'hi' and 'step'.");
  return scan_direct(b, walk);
}

inline Task scan_bitmask(const Builder& b) {
  BitmaskWalk walk{.mask = b.values<std::int64_t>("mask"), .size = b.param<std::int64_t>("size"),
                   .word_bits = b.param<std::int64_t>("word_bits", 64)};
  walk.pos = b.fibers("pos", std::numeric_limits<std::int64_t>::max(), "memory");
  const std::int64_t fibers = std::int64_t(walk.pos.size()) - 1;
  if (walk.word_bits < 1 || walk.word_bits > 64 || 64 % walk.word_bits)
    b.u.fail("'word_bits' must be a power of two up to 64, got " + std::to_string(walk.word_bits) + ".");
  if (walk.size < 1 || std::int64_t(walk.mask.size()) != fibers * walk.words())
    b.u.fail("array 'mask' must hold " + std::to_string(walk.words()) + " words of 64 bits for each of the " +
             std::to_string(fibers) + " fibers of extent 'size' " + std::to_string(walk.size) + ", got " +
             std::to_string(walk.mask.size()) + ".");
  for (std::int64_t r = 0; r < fibers; ++r) {
    std::int64_t set = 0;
    for (std::int64_t w = r * walk.words(); w < (r + 1) * walk.words(); ++w)
      set += std::popcount(std::uint64_t(walk.mask[std::size_t(w)]));
    const auto last = std::uint64_t(walk.mask[std::size_t((r + 1) * walk.words() - 1)]);
    if (set != walk.pos[std::size_t(r) + 1] - walk.pos[std::size_t(r)] || (walk.size % 64 && last >> walk.size % 64))
      b.u.fail("the bits of fiber " + std::to_string(r) + " in 'mask' must be as many as 'pos' says, below 'size'.");
  }
  return scan_walk(b, walk);
}

inline Task scan_runs(const Builder& b) {
  RunWalk walk{.crd = b.values<std::int64_t>("crd"), .length = b.values<std::int64_t>("length")};
  walk.pos = b.fibers("pos", std::int64_t(walk.crd.size()), "'crd'");
  if (walk.length.size() != walk.crd.size()) b.u.fail("arrays 'crd' and 'length' must have one entry per run each.");
  for (const std::int64_t length : walk.length)
    if (length < 0) b.u.fail("array 'length' must not be negative, got " + std::to_string(length) + ".");
  return scan_walk(b, walk);
}

inline Task scan_groups(const Builder& b) {
  GroupWalk walk{.crd = b.values<std::int64_t>("crd"), .n = b.param<std::int64_t>("n"),
                 .m = b.param<std::int64_t>("m")};
  walk.pos = b.fibers("pos", std::int64_t(walk.crd.size()), "'crd'");
  if (walk.n < 1 || walk.m < walk.n) b.u.fail("'n' and 'm' must be 1 <= n <= m.");
  for (std::size_t r = 0; r + 1 < walk.pos.size(); ++r) {
    const std::int64_t begin = walk.pos[r], end = walk.pos[r + 1];
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t c = walk.crd[std::size_t(p)];
      if (c < 0 || c >= walk.m || ((p - begin) % walk.n && c <= walk.crd[std::size_t(p) - 1]))
        b.u.fail("array 'crd' must increase from 0 or more to below 'm' in every group, place " + std::to_string(p) +
                 " has " + std::to_string(c) + ".");
    }
  }
  return scan_walk(b, walk);
}

inline Task scan_coordinates(const Builder& b) {
  if (!b.spec.arrays.contains("crd")) b.u.fail("a dense level stores nothing that could be read; leave out 'tensor'.");
  LevelWalk walk{.crd = b.values<std::int64_t>("crd"), .compressed = true};
  walk.pos = b.fibers("pos", std::int64_t(walk.crd.size()), "'crd'");
  return scan_walk(b, walk);
}

inline Task scan_repeated(const Builder& b) {
  if (b.has("tensor")) b.u.fail("a level of repeated coordinates cannot be read off-chip; leave out 'tensor'.");
  RepeatedWalk walk{.crd = b.values<std::int64_t>("crd"), .length = b.values<std::int64_t>("length")};
  walk.pos = b.fibers("pos", std::int64_t(walk.crd.size()), "'crd'");
  if (walk.length.size() != walk.crd.size()) b.u.fail("arrays 'crd' and 'length' must have one entry per place each.");
  for (const std::int64_t length : walk.length)
    if (length < 1) b.u.fail("array 'length' must be at least 1, got " + std::to_string(length) + ".");
  return scan_walk(b, walk);
}

inline Task scan_stored(const Builder& b) {
  if (!b.has("storage")) return scan_coordinates(b);
  switch (b.choice<int>("storage", {"bitmask", "run_length", "n_of_m", "repeated"})) {
    case 0: return scan_bitmask(b);
    case 1: return scan_runs(b);
    case 2: return scan_groups(b);
    default: return scan_repeated(b);
  }
}

}  // namespace hwsim
