// Tokens of a stream and simulated time.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>

#if defined(__GNUC__)
#define HWSIM_INLINE [[gnu::always_inline]] inline  // for what runs once per token
#else
#define HWSIM_INLINE inline
#endif

namespace hwsim {

using Time = std::uint64_t;  // cycles

enum class Kind : std::uint64_t { Val = 0, Stop = 1, Empty = 2, Done = 3 };

// `bits` is a coordinate, reference or IEEE double for Val, the level for Stop, 0 otherwise.
struct Token {
  std::int64_t bits;
  Kind kind;

  static constexpr Token val(std::int64_t x) { return {x, Kind::Val}; }
  static constexpr Token val(double x) { return {std::bit_cast<std::int64_t>(x), Kind::Val}; }
  static constexpr Token stop(std::int64_t level) { return {level, Kind::Stop}; }
  static constexpr Token empty() { return {0, Kind::Empty}; }
  static constexpr Token done() { return {0, Kind::Done}; }

  constexpr bool is_val() const { return kind == Kind::Val; }
  constexpr bool is_stop() const { return kind == Kind::Stop; }
  constexpr bool is_empty() const { return kind == Kind::Empty; }
  constexpr bool is_done() const { return kind == Kind::Done; }
  constexpr double number() const { return is_val() ? std::bit_cast<double>(bits) : 0.0; }  // Empty counts as 0
  constexpr bool operator==(const Token&) const = default;

  // Which of the two a Val is, its stream knows; here its size tells: no coordinate or reference reaches 2^52, and no
  // double from the smallest normal one on has bits below.
  std::string text() const {
    constexpr std::int64_t least_double = std::int64_t{1} << 52;
    switch (kind) {
      case Kind::Val: {
        if (bits > -least_double && bits < least_double) return "Val " + std::to_string(bits);
        char digits[32];
        std::snprintf(digits, sizeof digits, "Val %.17g", number());
        return digits;
      }
      case Kind::Stop: return "Stop " + std::to_string(bits);
      case Kind::Empty: return "Empty";
      case Kind::Done: break;
    }
    return "Done";
  }
};

}  // namespace hwsim
