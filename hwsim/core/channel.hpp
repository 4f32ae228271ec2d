// A FIFO in simulated time: a ring of 16-byte slots that holds tokens, and in freed slots their release times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "watch.hpp"

namespace hwsim {

struct Unit;

// While it holds a token, `meta` is availability << 2 | kind; once popped, the time its slot is free again.
struct Slot {
  std::int64_t bits;
  std::uint64_t meta;
};

struct Channel {
  static constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t no_fill = unbounded / 2;

  Slot* slots = nullptr;
  std::uint64_t mask = 0;
  std::uint64_t head = 0;   // tokens popped
  std::uint64_t tail = 0;   // tokens pushed
  std::uint64_t limit = 0;  // the producer may push up to here before it asks `extend` again
  std::uint64_t back = 0;   // the next push waits for the release of slot `tail - back`
  std::uint64_t keep = 0;   // all ones where that wait counts, 0 where it does not (unbounded, ring still growing)
  Time latency = 1, response = 1;
  Time waited = 0;   // cycles the consumer's clock was moved by availability
  Time blocked = 0;  // cycles the producer's clock was moved by missing slots
  // The largest number of slots in use at once, in simulated time (bounded channels). It is above f once the slot of
  // some token n - f is released after token n is pushed; whichever of the two moves the host makes later, checks.
  // Once `fill` is f, all pairs further apart are known to be no violation, so one number is state enough.
  // `no_fill`: not counted here, or as full as can be.
  std::uint64_t fill = 0;
  bool starving = false;   // consumer suspended: no token
  bool stuffed = false;    // producer suspended: no room
  std::uint64_t capacity = unbounded;
  std::uint64_t batch = 0;  // on the host, more tokens than this wait only if nothing else can run
  std::uint64_t lot = 0;    // a worthwhile number of tokens or free slots to wake somebody for
  Unit* producer = nullptr;
  Unit* consumer = nullptr;
  std::uint64_t* host_bytes = nullptr;
  // Where tokens may be available later than `latency` says, availability does not tell when they were pushed: their
  // times are kept, as the slots are, and every slot is looked at once its release and all later pushes are known.
  bool late = false;
  std::vector<Time> push_times{};
  std::uint64_t late_fill = 0;
  bool must_be_finite = false;  // watched build only, as the next one
  Token last_taken = Token::done();  // the last Val or Empty; Done: none yet

  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { std::free(slots); }

  void open(std::uint64_t capacity_, Time latency_, Time response_, std::uint64_t batch_, std::uint64_t* bytes) {
    capacity = capacity_, latency = latency_, response = response_, batch = batch_, host_bytes = bytes;
    lot = (std::min(capacity, batch) + 1) / 2;
    fill = capacity == unbounded ? no_fill : 0;
    resize(std::bit_ceil(std::min<std::uint64_t>(capacity, 64)));
  }

  bool empty() const { return head == tail; }
  bool has_room() const { return tail - head < capacity; }

  // The head without any wait: for a second look after `peek`.
  HWSIM_INLINE Token front() const {
    const Slot s = slots[head & mask];
    return {s.bits, Kind(s.meta & 3)};
  }
  HWSIM_INLINE Token peek(Time& t) {
    const Slot s = slots[head & mask];
    if (const Time there = s.meta >> 2; there > t) {
      if constexpr (watched) saw_late_token(*this, t, there);
      waited += there - t, t = there;
    }
    return {s.bits, Kind(s.meta & 3)};
  }
  // Removes the head after a peek at clock `t`.
  HWSIM_INLINE void drop(Time t) { drop_if(true, t); }
  // The same if `taken`, without a branch: joins cannot predict which side goes.
  HWSIM_INLINE void drop_if(bool taken, Time t) {
    const Time release = t + response;
    while (head + fill < tail && taken && pushed(head + fill) < release) fill_one_more();
    std::uint64_t& meta = slots[head & mask].meta;
    if constexpr (watched)
      if (const Token x = front(); taken && (x.is_val() || x.is_empty())) last_taken = x;
    meta = taken ? release : meta;
    head += taken;
  }
  HWSIM_INLINE Token pop(Time& t) {
    const Token x = peek(t);
    drop(t);
    return x;
  }
  // The caller has made sure of room (tail != limit).
  HWSIM_INLINE void wait_slot(Time& t) {
    const Time after = std::max(t, slots[(tail - back) & mask].meta & keep);
    if constexpr (watched)
      if (after > t) saw_wait(*producer, State::blocked, t, after);
    blocked += after - t;
    t = after;
  }
  HWSIM_INLINE void push(Time& t, Token x, Time available = 0) {
    wait_slot(t);
    if (tail - fill < head && slots[(tail - fill) & mask].meta > t) fill_one_more();
    if constexpr (watched)
      if (must_be_finite && x.is_val() && !std::isfinite(x.number())) saw_not_finite(*this, x, t);
    slots[tail & mask] = {x.bits, std::max(available, t + latency) << 2 | std::uint64_t(x.kind)};
    ++tail;
  }

  // For producers that delay tokens: before any push, and before each at clock `t`, which has a slot.
  void keep_push_times() { late = capacity != unbounded, fill = no_fill; }
  void note_push(Time t) {
    if (!late) return;
    if (tail > mask) count_fill(tail - mask - 1);
    push_times.resize(mask + 1);
    push_times[tail & mask] = t;
  }
  // The largest number of slots in use at once, once the run is over.
  std::uint64_t most_held() {
    if (!late) return std::min(fill, capacity);
    for (std::uint64_t n = tail > mask ? tail - mask - 1 : 0; n < head; ++n) count_fill(n);
    return late_fill;
  }

  enum class Room { now, after_yield, none };

  // Called when tail == limit. `after_yield`: there is room, but enough tokens wait on the host already for the
  // consumer to run first; host scheduling only, simulated time knows nothing of it.
  Room extend() {
    if (!has_room()) return Room::none;
    if (tail - head > mask || (!keep && capacity != unbounded && tail > mask)) resize(2 * (mask + 1));
    const std::uint64_t room = capacity == unbounded ? head + mask + 1 : keep ? head + capacity : mask + 1;
    const bool crowded = tail - head >= batch;
    limit = std::min(room, crowded ? tail + batch : head + batch);
    return crowded ? Room::after_yield : Room::now;
  }

 private:
  Time pushed(std::uint64_t n) const { return (slots[n & mask].meta >> 2) - latency; }
  void count_fill(std::uint64_t n) {  // slots n .. n + late_fill are in use at once if the last is before n's release
    while (late_fill < capacity && n + late_fill < tail && slots[n & mask].meta > push_times[(n + late_fill) & mask])
      ++late_fill;
  }
  void fill_one_more() { fill = fill + 1 < capacity ? fill + 1 : no_fill; }

  // A bounded ring grows without wrapping until it holds `capacity` slots, because every release time of the last
  // `capacity` tokens must be kept; an unbounded ring grows when it is full.
  void resize(std::uint64_t size) {
    auto* bigger = static_cast<Slot*>(std::calloc(size, sizeof(Slot)));
    if (!bigger) throw std::bad_alloc();
    const std::uint64_t old = slots ? mask + 1 : 0;
    for (std::uint64_t n = tail > old ? tail - old : 0; n < tail; ++n) bigger[n & (size - 1)] = slots[n & mask];
    std::free(slots);
    *host_bytes += (size - old) * sizeof(Slot);
    slots = bigger, mask = size - 1;
    const bool full_size = capacity != unbounded && size >= capacity;
    back = full_size ? capacity : size;
    keep = full_size ? ~std::uint64_t{0} : 0;
  }
};

}  // namespace hwsim
