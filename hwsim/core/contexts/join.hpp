// Joins of coordinate streams: intersect, union; and drop_empty, which removes what a union left without a value.
#pragma once

#include <array>

#include "../engine.hpp"

namespace hwsim {

template <std::size_t N>
struct JoinPorts {
  std::array<In, N> crd, ref;
  Out out_crd;
  std::array<Out, N> out_ref;
};

// Heads of all sides. Only Val and Stop and Done may meet, and Stops and Dones only their like.
template <std::size_t N>
struct Heads {
  std::array<Token, N> crd, ref;

  HWSIM_INLINE void check(const Unit& u) const {
    const Token* control = nullptr;  // Stops must agree, and a Done meets nothing but Dones
    bool values = false;
    for (std::size_t i = 0; i < N; ++i) {
      if (crd[i].is_empty()) fail(u);
      if (crd[i].is_val() ? ref[i].is_stop() || ref[i].is_done() : ref[i] != crd[i]) fail(u);
      if (crd[i].is_val()) {
        values = true;
      } else {
        if (control && *control != crd[i]) fail(u);
        control = &crd[i];
      }
    }
    if (control && control->is_done() && values) fail(u);
  }
  [[noreturn]] void fail(const Unit& u) const {
    std::string text = "misaligned streams:";
    for (std::size_t i = 0; i < N; ++i)
      text += " side " + std::to_string(i + 1) + " has crd " + crd[i].text() + ", ref " + ref[i].text() + ";";
    text.back() = '.';
    u.fail(text);
  }
};

// Equal heads are passed on; otherwise every side that is behind loses its head: the sides below the largest
// coordinate, or, where some side has ended its fiber, all sides that have not. One such step per cycle.
template <std::size_t N>
Task intersect(Unit& u, JoinPorts<N> p) {
  Heads<N> h;
  for (;;) {
    for (std::size_t i = 0; i < N; ++i) {
      AWAIT_TOKEN(p.crd[i]);
      h.crd[i] = p.crd[i].peek(u);
    }
    for (std::size_t i = 0; i < N; ++i) {
      AWAIT_TOKEN(p.ref[i]);
      h.ref[i] = p.ref[i].peek(u);
    }
    h.check(u);
    bool equal = true, stopped = false;
    std::int64_t largest = std::numeric_limits<std::int64_t>::min();
    for (const Token& x : h.crd) {
      equal = equal && x == h.crd[0];
      if (x.is_val()) largest = std::max(largest, x.bits);
      else stopped = true;
    }
    if (equal) {
      PUSH(p.out_crd, h.crd[0]);
      for (std::size_t i = 0; i < N; ++i) {
        PUSH(p.out_ref[i], h.ref[i]);
      }
      if (h.crd[0].is_done()) co_return;
    }
    for (std::size_t i = 0; i < N; ++i)
      if (equal || (h.crd[i].is_val() && (stopped || h.crd[i].bits < largest))) p.crd[i].drop(u), p.ref[i].drop(u);
    ++u.record.comparisons;
    u.end_turn();
  }
}

// The smallest coordinate is passed on, with Empty for the sides that lack it. What was passed is popped at the start
// of the next turn, so its slots come free a cycle later.
template <std::size_t N>
Task unite(Unit& u, JoinPorts<N> p) {
  Heads<N> h;
  std::array<bool, N> taken{};
  for (;;) {
    for (std::size_t i = 0; i < N; ++i)
      if (taken[i]) p.crd[i].drop(u), p.ref[i].drop(u);
    for (std::size_t i = 0; i < N; ++i) {
      AWAIT_TOKEN(p.ref[i]);
      h.ref[i] = p.ref[i].peek(u);
    }
    for (std::size_t i = 0; i < N; ++i) {
      AWAIT_TOKEN(p.crd[i]);
      h.crd[i] = p.crd[i].peek(u);
    }
    h.check(u);
    Token least = h.crd[0];
    for (const Token& x : h.crd)
      if (x.is_val() && (!least.is_val() || x.bits < least.bits)) least = x;
    PUSH(p.out_crd, least);
    for (std::size_t i = 0; i < N; ++i) {
      taken[i] = h.crd[i] == least;
      PUSH(p.out_ref[i], taken[i] ? h.ref[i] : Token::empty());
    }
    if (least.is_done()) co_return;
    ++u.record.comparisons;
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
