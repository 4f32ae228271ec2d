// Several coordinate streams of increasing depth that describe one nest of loops.
#pragma once

#include "../engine.hpp"

namespace hwsim {

// The coordinates of loop `level` (1-based) of a nest of `depth` loops, read along with a stream of full depth. While
// deeper fibers stream by, its head is the current coordinate.
struct KeyStream {
  In in;
  std::int64_t level, depth;
  const char* port = "crd";
  bool popped_value = false;

  // Takes what Stop s of the full-depth stream ends here: the fiber of the current coordinate (none in a group
  // without fibers), and the group itself if it ends too. False: a token is missing; call again when it is there.
  bool close(Unit& u, std::int64_t s) {
    const std::int64_t above = depth - level;  // Stop `above` and higher ones end a group of this stream
    if (above > 0 && !popped_value && s + 1 >= above) {
      if (in.starved()) return false;
      const Token head = in.peek(u);
      popped_value = head.is_val();
      if (popped_value) in.drop(u);
      else if (s < above) u.misaligned({{port, head}, {"val", Token::stop(s)}});
    }
    if (s >= above) {
      if (in.starved()) return false;
      const Token head = in.peek(u);
      if (head != Token::stop(s - above)) u.misaligned({{port, head}, {"val", Token::stop(s)}});
      in.drop(u);
    }
    popped_value = false;
    return true;
  }
};

#define CLOSE(key, s) while (!(key).close(u, s)) co_await u.token((key).in.channel)

}  // namespace hwsim
