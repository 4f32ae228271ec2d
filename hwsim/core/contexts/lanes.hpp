// One stream over several lanes and back: scatter, gather, combine.
#pragma once

#include "../builder.hpp"

namespace hwsim {

enum class Deal { element, fiber };

// Deals a stream to lanes in turn. By element: one element per lane, control tokens to all. By fiber: all tokens up to
// and with a Stop of any level to one lane, Done to all. A token for all waits for a slot in every lane.
inline Task scatter(Unit& u, In in, std::vector<Out> lanes, Deal deal) {
  for (std::size_t lane = 0;;) {
    POP(x, in);
    const bool element = x.is_val() || x.is_empty();
    if (x.is_done() || (x.is_stop() && deal == Deal::element)) {
      for (const Out& out : lanes) {
        AWAIT_ROOM(out);
        if (out.channel) out.channel->wait_slot(u.t);
      }
      for (const Out& out : lanes) out.push(u, x);
    } else {
      PUSH(lanes[lane], x);
    }
    if (element == (deal == Deal::element) && !x.is_done()) lane = (lane + 1) % lanes.size();
    if (x.is_done()) co_return;
    u.end_turn();
  }
}

inline std::string numbered(const char* port, std::size_t lane) { return port + std::to_string(lane + 1); }

// Undoes `scatter`: takes from the lanes in the same order; control tokens that went to all must come from all.
inline Task gather(Unit& u, std::vector<In> lanes, Out out, Deal deal) {
  for (std::size_t lane = 0;;) {
    PEEK(x, lanes[lane]);
    const bool element = x.is_val() || x.is_empty();
    if (x.is_done() || (x.is_stop() && deal == Deal::element)) {
      for (std::size_t k = 0; k < lanes.size(); ++k) {
        PEEK(y, lanes[k]);
        if (y != x) u.misaligned({{numbered("in_", lane).c_str(), x}, {numbered("in_", k).c_str(), y}});
      }
      for (const In& in : lanes) in.drop(u);
    } else {
      lanes[lane].drop(u);
    }
    if (element == (deal == Deal::element) && !x.is_done()) lane = (lane + 1) % lanes.size();
    PUSH(out, x);
    if (x.is_done()) co_return;
    u.end_turn();
  }
}

// The sum of the elements at the same place in all lanes, in port order; Empty counts as 0, nothing but Empty is Empty.
inline Task combine(Unit& u, std::vector<In> lanes, Out out) {
  for (;;) {
    bool elements = false, any = false;
    double sum = 0.0;
    Token control = Token::empty();
    for (std::size_t k = 0; k < lanes.size(); ++k) {
      PEEK(x, lanes[k]);
      const bool element = x.is_val() || x.is_empty();
      if (k == 0) elements = element, control = x;
      else if (element != elements || (!element && x != control))
        u.misaligned({{"val_1", control}, {numbered("val_", k).c_str(), x}});
      if (x.is_val()) {
        u.record.additions += any;
        sum = any ? sum + x.number() : x.number();
        any = true;
      }
    }
    for (const In& in : lanes) in.drop(u);
    PUSH(out, !elements ? control : any ? Token::val(sum) : Token::empty());
    u.end_turn();
    if (control.is_done()) co_return;
  }
}

inline std::vector<In> lanes_of(const Builder& b) {
  std::vector<In> lanes;
  for (std::size_t k = 0; k < b.spec.inputs.size(); ++k) lanes.push_back(b.in(k));
  if (lanes.empty()) b.u.fail("there must be at least one lane.");
  return lanes;
}

inline const Maker lane_makers[] = {
    {"scatter",
     [](const Builder& b) {
       if (b.spec.outputs.empty()) b.u.fail("there must be at least one lane.");
       return scatter(b.u, b.in(0), b.outs(0, b.spec.outputs.size()), b.choice<Deal>("by", {"element", "fiber"}));
     }},
    {"gather",
     [](const Builder& b) {
       return gather(b.u, lanes_of(b), b.out(0), b.choice<Deal>("by", {"element", "fiber"}));
     }},
    {"combine", [](const Builder& b) { return combine(b.u, lanes_of(b), b.out(0)); }},
};

}  // namespace hwsim
