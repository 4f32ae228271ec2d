// prune: drops elements whose value is smaller than a threshold, so that later units need not see them.
#include <cmath>

#include "../builder.hpp"

namespace hwsim {

// Elements with |value| < `least` go, and those without a value. One token per cycle.
static Task prune(Unit& u, In crd, In val, Out out_crd, Out out_val, double least) {
  for (;;) {
    PEEK(c, crd);
    PEEK(v, val);
    if (c.is_val() ? v.is_stop() || v.is_done() : c != v) u.misaligned({{"crd", c}, {"val", v}});
    crd.drop(u);
    val.drop(u);
    if (!c.is_val() || (v.is_val() && !(std::fabs(v.number()) < least))) {
      PUSH(out_crd, c);
      PUSH(out_val, v);
    }
    if (c.is_done()) co_return;
    u.end_turn();
  }
}

static const Maker maker("prune", {.ports = "crd val -> crd val", .params = "least"}, [](const Builder& b) {
  const auto least = b.param<double>("least");
  if (!(least >= 0)) b.u.fail("'least' must be 0 or more, got " + std::to_string(least) + ".");
  return prune(b.u, b.in(0), b.in(1), b.out(0), b.out(1), least);
});

}  // namespace hwsim
