// Sources, sinks and plumbing: root, source, sink, fork, number, crd_write, value_write.
#pragma once

#include "../engine.hpp"

namespace hwsim {

// The stream that starts every walk: reference 0, Done.
inline Task root(Unit& u, Out ref) {
  PUSH(ref, Token::val(std::int64_t{0}));
  u.end_turn();
  PUSH(ref, Token::done());
  u.end_turn();
}

// Plays tokens, one per cycle, each not before its time (waiting for it counts as starved).
inline Task source(Unit& u, Out out, std::vector<Token> tokens, std::vector<Time> times) {
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    if (k < times.size()) u.wait_until(times[k]);
    PUSH(out, tokens[k]);
    if (tokens[k].is_done()) co_return;
    u.end_turn();
  }
}

// Records every token and the time of its pop, which is not before the token's time; takes no cycles of its own.
inline Task sink(Unit& u, In in, std::vector<Time> times) {
  for (std::size_t k = 0;; ++k) {
    if (k < times.size()) u.wait_until(times[k]);
    POP(x, in);
    u.record.tokens.push_back(x);
    u.record.times.push_back(u.t);
    u.end_free_turn();
    if (x.is_done()) co_return;
  }
}

// Waits for a slot in every output, then pushes to all at once; no cycle of its own.
inline Task fork(Unit& u, In in, std::vector<Out> outs) {
  for (;;) {
    POP(x, in);
    for (const Out& out : outs) {
      AWAIT_ROOM(out);
      if (out.channel) out.channel->wait_slot(u.t);
    }
    for (const Out& out : outs) out.push(u, x);
    u.end_free_turn();
    if (x.is_done()) co_return;
  }
}

// The k-th value of the stream becomes k.
inline Task number(Unit& u, In crd, Out ref) {
  for (std::int64_t next = 0;;) {
    POP(x, crd);
    PUSH(ref, x.is_val() ? Token::val(next++) : x);
    if (x.is_done()) co_return;
    u.end_turn();
  }
}

// Writes a coordinate stream: a value costs a cycle, the first Stop after a value too, the rest nothing.
inline Task crd_write(Unit& u, In crd) {
  auto& written = u.record.coords.emplace_back();
  for (bool open = false;;) {
    POP(x, crd);
    if (x.is_done()) co_return;
    if (x.is_val()) written.push_back(x.bits);
    if (x.is_val() || (x.is_stop() && open)) u.end_turn();
    else u.end_free_turn();
    if (!x.is_empty()) open = x.is_val();
  }
}

// Writes a value stream: a value costs a cycle, control tokens nothing, the end one.
inline Task value_write(Unit& u, In val) {
  for (;;) {
    POP(x, val);
    if (x.is_val()) u.record.values.push_back(x.number());
    if (x.is_val() || x.is_done()) u.end_turn();
    else u.end_free_turn();
    if (x.is_done()) co_return;
  }
}

}  // namespace hwsim
