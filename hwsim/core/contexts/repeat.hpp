// Broadcasts a token over the elements of a fiber: repeat_signal turns a stream into a signal, repeat follows it.
#pragma once

#include "../engine.hpp"

namespace hwsim {

inline Task repeat_signal(Unit& u, In in, Out signal) {
  for (;;) {
    POP(x, in);
    PUSH(signal, x.is_val() || x.is_empty() ? Token::val(std::int64_t{0}) : x);
    if (x.is_done()) co_return;
    u.end_turn();
  }
}

// The head of `ref` is pushed once per signal and goes at the signal's Stop, which waits for the next head: a Stop
// there is folded in. A Stop at the head itself is an empty outer fiber, over which nothing was repeated.
inline Task repeat(Unit& u, In ref, In signal, Out out) {
  for (;;) {
    PEEK(r, ref);
    POP(s, signal);
    if (s.is_val()) {
      if (r.is_stop() || r.is_done()) u.misaligned({{"ref", r}, {"signal", s}});
      PUSH(out, r);
    } else if (s.is_stop()) {
      std::int64_t closing = 0;
      if (r.is_done()) u.misaligned({{"ref", r}, {"signal", s}});
      ref.drop(u);
      if (r.is_stop()) {
        closing = r.bits + 1;
      } else {
        PEEK(next, ref);
        if (next.is_stop()) ref.drop(u), closing = next.bits + 1;
      }
      if (s.bits != closing) u.misaligned({{"ref", Token::stop(closing - 1)}, {"signal", s}});
      PUSH(out, s);
    } else {
      if (!r.is_done()) u.misaligned({{"ref", r}, {"signal", s}});
      PUSH(out, s);
      co_return;
    }
    u.end_turn();
  }
}

}  // namespace hwsim
