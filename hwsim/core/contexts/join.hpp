// Joins of coordinate streams: intersect, also galloping, and union; and drop_empty, which removes what a union left
// without a value.
#pragma once

#include <algorithm>
#include <array>

#include "../engine.hpp"

namespace hwsim {

template <std::size_t N>
struct JoinPorts {
  static constexpr std::int64_t ended = std::numeric_limits<std::int64_t>::max();
  std::array<In, N> crd, ref;
  Out out_crd;
  std::array<Out, N> out_ref;

  // An input without a token, null if all have one.
  HWSIM_INLINE Channel* missing() const {
    for (std::size_t i = 0; i < N; ++i)
      if (crd[i].starved()) return crd[i].channel;
    for (std::size_t i = 0; i < N; ++i)
      if (ref[i].starved()) return ref[i].channel;
    return nullptr;
  }
  // The coordinates at the heads, `ended` where a side has none left.
  HWSIM_INLINE std::array<std::int64_t, N> peek(Unit& u) const {
    std::array<std::int64_t, N> keys;
    bool values = true;
    for (std::size_t i = 0; i < N; ++i) {
      const Token c = crd[i].peek(u), r = ref[i].peek(u);
      values = values && c.is_val() && (r.is_val() || r.is_empty());
      keys[i] = c.is_val() ? c.bits : ended;
    }
    if (!values) check_control(u);
    return keys;
  }
  // Coordinates go with references, Stops and Dones must agree, and a Done meets nothing but Dones.
  void check_control(const Unit& u) const {
    Token control = Token::empty();
    bool values = false, aligned = true;
    for (std::size_t i = 0; i < N; ++i) {
      const Token c = crd[i].head(), r = ref[i].head();
      values = values || c.is_val();
      aligned = aligned && (c.is_val() ? r.is_val() || r.is_empty() : r == c && !c.is_empty());
      aligned = aligned && (c.is_val() || control.is_empty() || control == c);
      if (!c.is_val()) control = c;
    }
    if (aligned && !(control.is_done() && values)) return;
    std::string text = "misaligned streams:";
    for (std::size_t i = 0; i < N; ++i)
      text += " side " + std::to_string(i + 1) + " has crd " + crd[i].head().text() + ", ref " + ref[i].head().text() +
              ";";
    text.back() = '.';
    u.fail(text);
  }
  HWSIM_INLINE void drop(Unit& u, const std::array<bool, N>& taken) const {
    for (std::size_t i = 0; i < N; ++i) crd[i].drop_if(taken[i], u), ref[i].drop_if(taken[i], u);
  }
  // Drops the heads of all sides that are behind the furthest one; false if all are equally far.
  HWSIM_INLINE bool drop_behind(Unit& u) const {
    const auto keys = peek(u);
    const std::int64_t furthest = *std::max_element(keys.begin(), keys.end());
    std::array<bool, N> behind;
    bool any = false;
    for (std::size_t i = 0; i < N; ++i) any |= behind[i] = keys[i] < furthest;
    if (any) drop(u, behind);
    return any;
  }
};

// While some side ends or is ahead, the others lose their heads, one step per cycle; equal heads are passed on.
template <std::size_t N>
Task intersect(Unit& u, JoinPorts<N> p) {
  for (;;) {
    while (Channel* in = p.missing()) co_await u.token(in);
    if (!p.drop_behind(u)) {
      PUSH(p.out_crd, p.crd[0].head());
      for (std::size_t i = 0; i < N; ++i) {
        PUSH(p.out_ref[i], p.ref[i].head());
      }
      if (p.crd[0].head().is_done()) co_return;
      for (std::size_t i = 0; i < N; ++i) p.crd[i].drop(u), p.ref[i].drop(u);
    }
    u.end_turn();
  }
}

// An intersect in which the sides that are behind skip their elements below the furthest head in one jump, until none
// is behind or one has landed beyond: the largest number k of skipped elements costs ceil(log2(k + 1)) cycles. What is
// skipped and where the jump lands must have come; so jumps of one element are two-finger steps cycle for cycle.
template <std::size_t N>
Task gallop(Unit& u, JoinPorts<N> p) {
  for (;;) {
    while (Channel* in = p.missing()) co_await u.token(in);
    auto keys = p.peek(u);
    const std::int64_t furthest = *std::max_element(keys.begin(), keys.end());
    const Time start = u.t;
    std::array<std::uint64_t, N> skipped{};
    while (*std::max_element(keys.begin(), keys.end()) == furthest && p.drop_behind(u)) {
      for (std::size_t i = 0; i < N; ++i) skipped[i] += keys[i] < furthest;
      while (Channel* in = p.missing()) co_await u.token(in);
      keys = p.peek(u);
    }
    if (const std::uint64_t most = *std::max_element(skipped.begin(), skipped.end())) {
      const Time end = start + Time(std::bit_width(most));
      u.end_turn(end > u.t ? end - u.t : 0);
      continue;
    }
    PUSH(p.out_crd, p.crd[0].head());
    for (std::size_t i = 0; i < N; ++i) {
      PUSH(p.out_ref[i], p.ref[i].head());
    }
    if (p.crd[0].head().is_done()) co_return;
    for (std::size_t i = 0; i < N; ++i) p.crd[i].drop(u), p.ref[i].drop(u);
    u.end_turn();
  }
}

// The smallest coordinate is passed on, with Empty for the sides that lack it. What was passed is popped at the start
// of the next turn, so its slots come free a cycle later.
template <std::size_t N>
Task unite(Unit& u, JoinPorts<N> p) {
  std::array<bool, N> taken{};
  for (;;) {
    p.drop(u, taken);
    while (Channel* in = p.missing()) co_await u.token(in);
    const auto keys = p.peek(u);
    const std::size_t least = std::size_t(std::min_element(keys.begin(), keys.end()) - keys.begin());
    for (std::size_t i = 0; i < N; ++i) taken[i] = keys[i] == keys[least];
    PUSH(p.out_crd, p.crd[least].head());
    for (std::size_t i = 0; i < N; ++i) {
      PUSH(p.out_ref[i], taken[i] ? p.ref[i].head() : Token::empty());
    }
    if (p.crd[least].head().is_done()) co_return;
    u.end_turn();
  }
}

// Aligned pairs pass, except a coordinate whose value is Empty.
inline Task drop_empty(Unit& u, In crd, In val, Out out_crd, Out out_val) {
  for (;;) {
    PEEK(c, crd);
    PEEK(v, val);
    if (c.is_val() ? v.is_stop() || v.is_done() : c != v) u.misaligned({{"crd", c}, {"val", v}});
    crd.drop(u);
    val.drop(u);
    if (!v.is_empty()) {
      PUSH(out_crd, c);
      PUSH(out_val, v);
    }
    if (c.is_done()) co_return;
    u.end_turn();
  }
}

}  // namespace hwsim
