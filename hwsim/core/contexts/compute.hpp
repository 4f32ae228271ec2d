// Values: array (load), alu (two operands), map (one), reduce (along the innermost loop).
#pragma once

#include <cmath>
#include <numbers>
#include <span>

#include "../engine.hpp"

namespace hwsim {

HWSIM_INLINE Token value_at(const Unit& u, Token r, std::span<const double> values) {
  if (r.is_val() && std::uint64_t(r.bits) >= values.size())
    u.fail("port ref has reference " + std::to_string(r.bits) + ", the array has " + std::to_string(values.size()) +
           " values.");
  return r.is_val() ? Token::val(values[std::size_t(r.bits)]) : r.is_empty() ? Token::val(0.0) : r;
}

inline Task array(Unit& u, In ref, Out val, std::span<const double> values) {
  for (;;) {
    POP(r, ref);
    const Token found = value_at(u, r, values);
    PUSH(val, found);
    if (r.is_done()) co_return;
    u.end_turn();
  }
}

// The larger one; NaN if either is.
inline double larger(double a, double b) { return a > b || std::isnan(a) ? a : b; }

enum class AluOp { mul, add, sub, div, max, min };

inline double apply(AluOp op, double a, double b) {
  switch (op) {
    case AluOp::mul: return a * b;
    case AluOp::add: return a + b;
    case AluOp::sub: return a - b;
    case AluOp::div: return a / b;
    case AluOp::max: return larger(a, b);
    case AluOp::min: break;
  }
  return -larger(-a, -b);
}

// Empty counts as 0. Done is an ordinary token and costs its cycle.
inline Task alu(Unit& u, In a, In b, Out val, AluOp op) {
  for (;;) {
    PEEK(x, a);
    PEEK(y, b);
    const bool values = (x.is_val() || x.is_empty()) && (y.is_val() || y.is_empty());
    if (!values && x != y) u.misaligned({{"a", x}, {"b", y}});
    a.drop(u);
    b.drop(u);
    PUSH(val, values ? Token::val(apply(op, x.number(), y.number())) : x);
    if (values && op == AluOp::mul) u.record.multiplies += x.number() != 0.0 && y.number() != 0.0;
    if (values && (op == AluOp::add || op == AluOp::sub)) ++u.record.additions;
    u.end_turn();
    if (x.is_done()) co_return;
  }
}

enum class MapOp { relu, exp, tanh, sigmoid, gelu, abs, neg, sqrt, rsqrt, square, log, scale, shift, one, sparse_relu };

inline double apply(MapOp op, double factor, double v) {
  switch (op) {
    case MapOp::relu: return larger(v, 0.0);
    case MapOp::exp: return std::exp(v);
    case MapOp::tanh: return std::tanh(v);
    case MapOp::sigmoid: return 1.0 / (1.0 + std::exp(-v));
    case MapOp::gelu: return 0.5 * v * (1.0 + std::erf(v / std::numbers::sqrt2));
    case MapOp::abs: return std::fabs(v);
    case MapOp::neg: return -v;
    case MapOp::sqrt: return std::sqrt(v);
    case MapOp::rsqrt: return 1.0 / std::sqrt(v);
    case MapOp::square: return v * v;
    case MapOp::log: return std::log(v);
    case MapOp::shift: return factor + v;
    case MapOp::one: return 1.0;
    case MapOp::sparse_relu: return larger(v, 0.0);
    case MapOp::scale: break;
  }
  return factor * v;
}

// Empty counts as 0. Done costs its cycle, as in alu. sparse_relu gives Empty for what is not positive.
inline Task map(Unit& u, In in, Out val, MapOp op, double factor) {
  for (;;) {
    POP(x, in);
    Token y = x;
    if (x.is_val() || x.is_empty()) y = Token::val(apply(op, factor, x.number()));
    PUSH(val, op == MapOp::sparse_relu && y.is_val() && y.number() <= 0.0 ? Token::empty() : y);
    u.end_turn();
    if (x.is_done()) co_return;
  }
}

enum class ReduceOp { sum, max };

// One result per innermost fiber. Without `outer` every Stop closes one, which cannot tell a group of no fibers from a
// group of one empty fiber; `outer`, the coordinates one level above, can: its values are the fibers.
inline Task reduce(Unit& u, In val, In outer, Out out, ReduceOp op, bool zero_if_empty) {
  double result = 0.0;
  bool any = false;
  for (;;) {
    POP(x, val);
    if (x.is_empty()) {
      u.end_free_turn();
      continue;
    }
    if (x.is_val()) {
      if (any) ++u.record.additions;
      result = !any ? x.number() : op == ReduceOp::sum ? result + x.number() : larger(result, x.number());
      any = true;
      u.end_turn();
      continue;
    }
    bool fiber = x.is_stop();
    if (outer.connected()) {
      PEEK(o, outer);
      fiber = x.is_stop() && (o.is_val() || o.is_empty());
      const Token close = x.is_done() ? x : Token::stop(x.bits - 1);
      if (fiber) outer.drop(u);
      else if (o != close) u.misaligned({{"val", x}, {"outer", o}});
      if (fiber && x.bits > 0) {
        PEEK(end, outer);
        if (end != close) u.misaligned({{"val", x}, {"outer", end}});
      }
      if (x.is_stop() && x.bits > 0) outer.drop(u);
    }
    if (fiber) {
      PUSH(out, any ? Token::val(result) : zero_if_empty ? Token::val(0.0) : Token::empty());
    } else if (any) {
      u.fail("port val has values in a group for which port outer has none.");
    }
    result = 0.0, any = false;
    if (x.is_done()) break;
    if (x.bits > 0) {
      PUSH(out, Token::stop(x.bits - 1));
    }
    u.end_turn();
  }
  PUSH(out, Token::done());
}

}  // namespace hwsim
