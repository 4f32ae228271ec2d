// Arrays and levels that are read in place, element by element: off-chip through a window of one burst, or out of a
// banked buffer.
#pragma once

#include "../builder.hpp"
#include "compute.hpp"

namespace hwsim {

// An array in off-chip memory and the burst of it that was fetched last: what lies in there costs no request.
class Window {
 public:
  Window(const Builder& b, const char* address, std::int64_t width, bool metadata)
      : account_(b.account("tensor")), address_(b.param<std::int64_t>(address, 0)), width_(width),
        burst_(std::max<std::int64_t>(b.engine.dram.burst_bytes(), 1)), metadata_(metadata),
        keeps_(b.engine.dram.burst_bytes() > 0) {
    if (address_ < 0 || width < 1)
      b.u.fail(std::string("parameter '") + address + "' must not be negative, widths of elements at least 1 bit.");
  }

  // Whether elements `from` to `end` lie in bursts that are not held, which are then to be fetched.
  bool misses(std::int64_t from, std::int64_t end) {
    if (from >= end) return false;
    first_ = (address_ + from * width_ / 8) / burst_;
    const std::int64_t last = (address_ + (end * width_ - 1) / 8) / burst_;
    const bool begins = first_ == held_, ends = last == held_;  // with the burst that is held
    if (!begins && !ends) there_ = 0;
    count_ = last - first_ + 1 - (begins || ends), first_ += begins, held_ = keeps_ ? last : -1;
    return count_ > 0;
  }
  auto fetch(Unit& u) const {
    const std::int64_t bytes = count_ * burst_;
    account_->read.add(metadata_ ? 0 : bytes, metadata_ ? bytes : 0);
    return u.access(account_, first_ * burst_, bytes, false);
  }
  void arrived(Time finish) { there_ = std::max(there_, finish); }
  Time there() const { return there_; }  // when what was asked for last is there

 private:
  Traffic* account_;
  std::int64_t address_, width_, burst_;  // bytes, but bits of an element
  bool metadata_, keeps_;  // without a memory model there are no bursts: every element counts its own bytes
  std::int64_t held_ = -1, first_ = 0, count_ = 0;
  Time there_ = 0;
};

#define FETCH(window, from, end) \
  if ((window).misses(from, end)) (window).arrived(co_await (window).fetch(u))

// `array` with its values off-chip. Like tiles, they are asked for one per cycle, as far as the output has room.
inline Task array_direct(Unit& u, In ref, LateOut val, std::span<const double> values, Window window) {
  u.loads = true;
  for (;;) {
    POP(r, ref);
    const Token found = value_at(u, r, values);
    AWAIT_ROOM(val);
    val.wait_slot(u);
    if (r.is_val()) {
      FETCH(window, r.bits, r.bits + 1);
    }
    val.push(u, found, r.is_val() ? window.there() : 0);
    if (r.is_done()) co_return;
    u.end_turn();
  }
}

// Element p of a buffer is in bank p mod their number; a bank gives one element every `cycles`.
struct Banks {
  std::vector<Time> free;
  Time cycles;
};

// `array` out of banks: an element waits until its bank is free, and leaves when it has been read. The one read last is
// still at the port.
inline Task array_banked(Unit& u, In ref, LateOut val, std::span<const double> values, Banks banks) {
  std::int64_t last = -1;
  Time read = 0;  // when that one was
  for (;;) {
    POP(r, ref);
    const Token found = value_at(u, r, values);
    AWAIT_ROOM(val);
    val.wait_slot(u);
    if (r.is_val() && r.bits != last) {
      Time& free = banks.free[std::size_t(r.bits) % banks.free.size()];
      if (free > u.t) u.spend(free - u.t);
      free = u.t + banks.cycles, last = r.bits, read = free - 1 + val.latency();
    }
    val.push(u, found, r.is_val() ? read : 0);
    if (r.is_done()) co_return;
    u.end_turn();
  }
}

inline Task array_task(const Builder& b) {
  const auto values = b.values<double>("values");
  const bool banked = b.has("banks");
  if (b.has("tensor") && banked) b.u.fail("'tensor' reads off-chip, 'banks' out of a buffer: give one.");
  if (b.has("tensor")) return array_direct(b.u, b.in(0), b.out(0), values, Window(b, "address", b.param<std::int64_t>("value_bits"), false));
  if (!banked) return array(b.u, b.in(0), b.out(0), values);
  const auto count = b.param<std::int64_t>("banks"), bytes = b.param<std::int64_t>("value_bytes");
  const auto rate = b.param<double>("bank_bytes_per_cycle");
  if (count < 1 || bytes < 1 || !(rate > 0))
    b.u.fail("'banks', 'value_bytes' and 'bank_bytes_per_cycle' must be above 0.");
  Banks banks{std::vector<Time>(std::size_t(count), 0), Time(std::ceil(double(bytes) / rate))};
  return array_banked(b.u, b.in(0), b.out(0), values, std::move(banks));
}

// `scan_walk` with its level off-chip: the clock waits for the places of a fiber, as nothing is known before; its
// entries are then asked for ahead, as far as the output has room. References that follow from the places alone do not
// wait for the entries.
template <class Walk>
Task scan_direct(Unit& u, In in, LateOut crd, LateOut ref, Walk walk, Window places, Window entries) {
  u.loads = true;
  for (;;) {
    POP(r, in);
    if (r.is_done()) break;
    std::int64_t closing = 0;
    Time there = 0;
    if (r.is_stop()) {
      closing = r.bits + 1;
    } else {
      if (r.is_val()) {
        if (r.bits < 0 || r.bits + 1 >= std::int64_t(walk.pos.size()))
          u.fail("port ref has reference " + std::to_string(r.bits) + ", the level has " +
                 std::to_string(walk.pos.size() - 1) + " fibers.");
        FETCH(places, r.bits, r.bits + Walk::places_read);
        u.reach(places.there());
        walk.open(r.bits);
        for (;;) {
          const std::int64_t from = walk.entry();
          const auto element = walk.next();
          if (element.found) {
            AWAIT_ROOM(crd);
            crd.wait_slot(u);
          }
          FETCH(entries, from, walk.seen());
          there = from < walk.seen() ? entries.there() : 0;
          u.spend(element.idle);
          if (!element.found) break;
          crd.push(u, Token::val(element.crd), there);
          AWAIT_ROOM(ref);
          ref.push(u, Token::val(element.ref), Walk::refs_are_read ? there : 0);
          u.end_turn();
        }
      }
      PEEK(next, in);
      if (next.is_stop()) in.drop(u), closing = next.bits + 1;
    }
    AWAIT_ROOM(crd);
    crd.push(u, Token::stop(closing), there);
    AWAIT_ROOM(ref);
    ref.push(u, Token::stop(closing), Walk::refs_are_read ? there : 0);
    u.end_turn();
  }
  PUSH(crd, Token::done());
  PUSH(ref, Token::done());
}

template <class Walk>
Task scan_direct(const Builder& b, Walk walk) {
  const std::int64_t width = Walk::entry_bits ? Walk::entry_bits : b.param<std::int64_t>("crd_bits");
  return scan_direct(b.u, b.in(0), b.out(0), b.out(1), walk,
                     Window(b, "pos_address", b.param<std::int64_t>("pos_bits"), true),
                     Window(b, "crd_address", width, true));
}

}  // namespace hwsim
