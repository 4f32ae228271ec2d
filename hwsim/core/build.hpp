// From the records of a graph to the coroutines that run it.
#pragma once

#include <nanobind/nanobind.h>

#include "engine.hpp"

namespace hwsim {

// A context as Python describes it: ports hold channel numbers, -1 for an unconnected one.
struct Spec {
  std::string name, kind;
  std::vector<std::int64_t> inputs, outputs;
  nanobind::dict params, arrays;
};

// Gives unit `index` of the engine its ports and its coroutine. Parameters and port counts are checked by the caller;
// the arrays must outlive the engine. Throws Fault for a parameter or array of the wrong type.
void build(Engine& engine, std::size_t index, const Spec& spec);

// The kinds that a file of contexts declares by itself: kind, ports, parameters, arrays (see `Declaration`).
using DeclaredKind = std::tuple<std::string, std::string, std::string, std::string>;
std::vector<DeclaredKind> declared_kinds();

}  // namespace hwsim
