// Random access to stored levels: locate (dense), and the leader-follower intersect (compressed followers).
#pragma once

#include <algorithm>

#include "../builder.hpp"

namespace hwsim {

// The reference of coordinate `crd` in fiber `ref` of a dense level: pos[ref] + crd; Empty for Empty.
inline Task locate(Unit& u, In crd, In ref, Out out, std::span<const std::int64_t> pos) {
  for (;;) {
    PEEK(c, crd);
    PEEK(r, ref);
    const bool values = (c.is_val() || c.is_empty()) && (r.is_val() || r.is_empty());
    if (!values && c != r) u.misaligned({{"crd", c}, {"ref", r}});
    Token found = values ? Token::empty() : c;
    if (c.is_val() && r.is_val()) {
      if (r.bits < 0 || r.bits + 1 >= std::int64_t(pos.size()))
        u.fail("port ref has reference " + std::to_string(r.bits) + ", the level has " +
               std::to_string(pos.size() - 1) + " fibers.");
      const std::int64_t begin = pos[std::size_t(r.bits)], extent = pos[std::size_t(r.bits) + 1] - begin;
      if (c.bits < 0 || c.bits >= extent)
        u.fail("port crd has coordinate " + std::to_string(c.bits) + ", fiber " + std::to_string(r.bits) +
               " of the level has extent " + std::to_string(extent) + ".");
      found = Token::val(begin + c.bits);
    }
    crd.drop(u);
    ref.drop(u);
    PUSH(out, found);
    if (c.is_done()) co_return;
    u.end_turn();
  }
}

inline const Maker locate_maker("locate", [](const Builder& b) {
  return locate(b.u, b.in(0), b.in(1), b.out(0), b.fibers("pos", std::numeric_limits<std::int64_t>::max(), "memory"));
});

// A compressed level in which a leader's coordinates are looked up. `ref` is the stream that a scan of it would take.
struct Follower {
  In ref;
  Out out;
  std::span<const std::int64_t> pos, crd;
  std::string port;  // name of `ref`

  // The position of coordinate c in fiber r (-1: absent), and the steps of a binary search in n elements:
  // ceil(log2(n + 1)), at least one.
  std::pair<std::int64_t, Time> find(const Unit& u, Token r, std::int64_t c) const {
    if (r.is_empty()) return {-1, 1};
    if (r.bits < 0 || r.bits + 1 >= std::int64_t(pos.size()))
      u.fail("port " + port + " has reference " + std::to_string(r.bits) + ", its level has " +
             std::to_string(pos.size() - 1) + " fibers.");
    const auto begin = crd.begin() + pos[std::size_t(r.bits)], end = crd.begin() + pos[std::size_t(r.bits) + 1];
    const auto at = std::lower_bound(begin, end, c);
    const Time steps = Time(std::bit_width(std::uint64_t(end - begin)));
    return {at != end && *at == c ? at - crd.begin() : -1, std::max<Time>(steps, 1)};
  }
};

// Every element of the leader is looked up in all followers at once, which takes as long as the longest search; it is
// passed on, when the search is over, if all have it. A follower's reference stays while the leader's fiber streams by.
inline Task lead(Unit& u, In crd, In ref, Out out_crd, Out out_ref, std::vector<Follower> followers) {
  std::vector<Token> found(followers.size());
  for (;;) {
    PEEK(c, crd);
    PEEK(r, ref);
    if (c.is_val() ? !r.is_val() && !r.is_empty() : c != r || c.is_empty()) u.misaligned({{"crd_1", c}, {"ref_1", r}});
    Time steps = 1;
    bool all = true;
    for (std::size_t k = 0; k < followers.size(); ++k) {
      const Follower& f = followers[k];
      PEEK(parent, f.ref);
      found[k] = c;
      const bool fiber = parent.is_val() || parent.is_empty();
      const Token above = c.is_stop() && c.bits > 0 ? Token::stop(c.bits - 1) : c;
      if (c.is_val() ? !fiber : !(fiber && c.is_stop()) && parent != above)
        u.misaligned({{"crd_1", c}, {f.port.c_str(), parent}});
      if (c.is_val()) {
        const auto [position, taken] = f.find(u, parent, c.bits);
        all = all && position >= 0;
        found[k] = Token::val(position), steps = std::max(steps, taken);
      } else if (c.is_stop()) {
        f.ref.drop(u);
        if (fiber && c.bits > 0) {
          PEEK(end, f.ref);
          if (end != above) u.misaligned({{"crd_1", c}, {f.port.c_str(), end}});
          f.ref.drop(u);
        }
      }
    }
    crd.drop(u);
    ref.drop(u);
    u.spend(steps - 1);
    if (all) {
      PUSH(out_crd, c);
      PUSH(out_ref, r);
      for (std::size_t k = 0; k < followers.size(); ++k) {
        PUSH(followers[k].out, found[k]);
      }
    }
    if (c.is_done()) co_return;
    u.end_turn();
  }
}

inline Task follow(const Builder& b) {
  const std::size_t sides = b.spec.inputs.size() / 2;
  std::vector<Follower> followers;
  for (std::size_t k = 1; k < sides; ++k) {
    const std::string number = std::to_string(k + 1);
    if (b.in(k).connected()) b.u.fail("port crd_" + number + " must be open: its level is looked up, not streamed.");
    Follower f{b.in(sides + k), b.out(1 + k), {}, b.values<std::int64_t>(("crd_" + number).c_str()), "ref_" + number};
    f.pos = b.fibers(("pos_" + number).c_str(), std::int64_t(f.crd.size()), "'crd_" + number + "'");
    followers.push_back(f);
  }
  return lead(b.u, b.in(0), b.in(sides), b.out(0), b.out(1), std::move(followers));
}

}  // namespace hwsim
