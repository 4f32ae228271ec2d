// A context whose moves a Python generator asks for.
#pragma once

#include <functional>
#include <memory>

#include "../builder.hpp"

namespace hwsim {

struct Move {
  enum Kind { pop, peek, push, advance, end } kind = end;
  std::size_t port = 0;
  Token token = Token::empty();
  Time cycles = 0;  // of `advance`; more than the channel's latency for `push`
};

// Told the outcome of the last move (a token; the clock), says the next one.
using NextMove = std::function<Move(Token, Time)>;

inline Task python_context(Unit& u, std::vector<In> ins, std::vector<LateOut> outs, NextMove next) {
  Token outcome = Token::empty();
  for (;;) {
    const Move move = next(outcome, u.t);
    switch (move.kind) {
      case Move::pop:
      case Move::peek: {
        PEEK(x, ins[move.port]);
        if (move.kind == Move::pop) ins[move.port].drop(u);
        outcome = x;
        break;
      }
      case Move::push: {
        const LateOut out = outs[move.port];
        AWAIT_ROOM(out);
        out.wait_slot(u);
        out.push(u, move.token, u.t + out.latency() + move.cycles);
        break;
      }
      case Move::advance: u.end_turn(move.cycles); break;
      case Move::end: co_return;
    }
  }
}

// The Python object is called, and let go, with the GIL held; the engine runs without it.
inline NextMove held(nb::object driver) {
  auto* kept = new nb::object(std::move(driver));
  const std::shared_ptr<nb::object> shared(kept, [](nb::object* object) {
    nb::gil_scoped_acquire acquire;
    delete object;
  });
  return [shared](Token outcome, Time now) {
    nb::gil_scoped_acquire acquire;
    const nb::object answer = (*shared)(int(outcome.kind), outcome.bits, now);
    const auto [kind, port, token_kind, bits, cycles] =
        nb::cast<std::tuple<int, std::size_t, int, std::int64_t, Time>>(answer);
    return Move{Move::Kind(kind), port, Token{bits, Kind(token_kind)}, cycles};
  };
}

inline const Maker python_maker("python", [](const Builder& b) {
  std::vector<In> ins;
  for (std::size_t k = 0; k < b.spec.inputs.size(); ++k) ins.push_back(b.in(k));
  const std::vector<Out> outs = b.outs(0, b.spec.outputs.size());
  return python_context(b.u, std::move(ins), {outs.begin(), outs.end()}, held(b.param<nb::object>("driver")));
});

}  // namespace hwsim
