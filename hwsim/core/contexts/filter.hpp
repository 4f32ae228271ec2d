// What keeps, drops or holds elements: mask, hold, drop_fiber.
#pragma once

#include "../builder.hpp"

namespace hwsim {

// Elements whose mask is Empty or 0 go.
inline Task mask(Unit& u, In crd, In val, In keep, Out out_crd, Out out_val) {
  for (;;) {
    PEEK(c, crd);
    PEEK(v, val);
    PEEK(m, keep);
    const auto fits = [c](Token x) { return c.is_val() ? x.is_val() || x.is_empty() : x == c; };
    if (!fits(v) || !fits(m)) u.misaligned({{"crd", c}, {"val", v}, {"mask", m}});
    crd.drop(u);
    val.drop(u);
    keep.drop(u);
    if (!c.is_val() || m.number() != 0.0) {
      PUSH(out_crd, c);
      PUSH(out_val, v);
    }
    if (c.is_done()) co_return;
    u.end_turn();
  }
}

// The head of `outer` once per element of the fiber of `in` that it stands for: repeat without a signal.
inline Task hold(Unit& u, In outer, In in, Out out) {
  for (;;) {
    PEEK(o, outer);
    PEEK(x, in);
    const bool fiber = o.is_val() || o.is_empty(), element = x.is_val() || x.is_empty();
    const Token above = x.is_stop() && x.bits > 0 ? Token::stop(x.bits - 1) : x;
    if (element ? !fiber : !(fiber && x.is_stop()) && o != above) u.misaligned({{"outer", o}, {"in", x}});
    in.drop(u);
    if (x.is_stop()) {
      outer.drop(u);
      if (fiber && x.bits > 0) {
        PEEK(end, outer);
        if (end != above) u.misaligned({{"outer", end}, {"in", x}});
        outer.drop(u);
      }
    }
    PUSH(out, element ? o : x);
    if (x.is_done()) co_return;
    u.end_turn();
  }
}

// Coordinates of `outer` whose fiber in `crd` is empty go, with their fibers. A fiber's Stop 0 leaves when the next
// element or group end comes: only then is it known whether it is the last fiber that stays.
inline Task drop_fiber(Unit& u, In outer, In crd, Out out_outer, Out out_crd) {
  bool elements = false, pending = false;  // in this fiber; a Stop 0 has not left yet
  for (;;) {
    PEEK(x, crd);
    PEEK(o, outer);
    const Token above = x.is_stop() && x.bits > 0 ? Token::stop(x.bits - 1) : x;
    if (x.is_empty() || (x.is_val() ? !o.is_val() : !(o.is_val() && x.is_stop()) && o != above) ||
        (elements && !o.is_val()))
      u.misaligned({{"outer", o}, {"crd", x}});
    if (x.is_val() && !elements) {
      if (pending) {
        PUSH(out_crd, Token::stop(0));
      }
      PUSH(out_outer, o);
      elements = true, pending = false;
    }
    if (x == Token::stop(0)) {
      if (!o.is_val()) u.misaligned({{"outer", o}, {"crd", x}});
      pending = pending || elements, elements = false;
      outer.drop(u);
    } else {
      if (x.is_stop()) {
        if (o.is_val()) {
          outer.drop(u);
          PEEK(end, outer);
          if (end != above) u.misaligned({{"outer", end}, {"crd", x}});
        }
        outer.drop(u);
        PUSH(out_outer, above);
        elements = pending = false;
      } else if (x.is_done()) {
        if (pending) {
          PUSH(out_crd, Token::stop(0));
        }
        PUSH(out_outer, x);
      }
      PUSH(out_crd, x);
    }
    if (x.is_done()) co_return;
    crd.drop(u);
    u.end_turn();
  }
}

inline const Maker filter_makers[] = {
    {"mask", [](const Builder& b) { return mask(b.u, b.in(0), b.in(1), b.in(2), b.out(0), b.out(1)); }},
    {"hold", [](const Builder& b) { return hold(b.u, b.in(0), b.in(1), b.out(0)); }},
    {"drop_fiber", [](const Builder& b) { return drop_fiber(b.u, b.in(0), b.in(1), b.out(0), b.out(1)); }},
};

}  // namespace hwsim
