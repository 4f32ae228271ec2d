// What a kind of context is built from: its ports, parameters and arrays; and the table of kinds.
#pragma once

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <span>

#include "build.hpp"

namespace hwsim {

namespace nb = nanobind;

struct Builder {
  Builder(Engine& engine_, std::size_t index, const Spec& spec_)
      : engine(engine_), u(*engine_.units[index]), spec(spec_) {
    u.name = spec.name, u.kind = spec.kind;
    for (std::size_t i = 0; i < spec.inputs.size(); ++i)
      if (Channel* c = in(i).channel) c->consumer = &u, u.ins.push_back(c);
    for (std::size_t i = 0; i < spec.outputs.size(); ++i)
      if (Channel* c = out(i).channel) c->producer = &u, u.outs.push_back(c);
  }

  In in(std::size_t port) const {
    const std::int64_t c = port < spec.inputs.size() ? spec.inputs[port] : -1;
    return {c < 0 ? nullptr : engine.channels[std::size_t(c)].get()};
  }
  Out out(std::size_t port) const {
    const std::int64_t c = spec.outputs[port];
    return {c < 0 ? nullptr : engine.channels[std::size_t(c)].get()};
  }
  std::vector<Out> outs(std::size_t from, std::size_t to) const {
    std::vector<Out> ports;
    for (; from < to; ++from) ports.push_back(out(from));
    return ports;
  }

  bool has(const char* key) const { return spec.params.contains(key); }
  template <class T>
  T param(const char* key) const {
    T value;
    if (!has(key) || !nb::try_cast<T>(spec.params[key], value))
      u.fail(std::string("parameter '") + key + "' is missing or of the wrong type.");
    return value;
  }
  template <class T>
  T param(const char* key, T otherwise) const {
    return has(key) ? param<T>(key) : otherwise;
  }
  // The place of a name in `names`; the names are checked by the caller of `build`.
  template <class E>
  E choice(const char* key, std::initializer_list<const char*> names) const {
    const auto name = param<std::string>(key);
    int place = 0;
    for (const char* candidate : names) {
      if (name == candidate) return E(place);
      ++place;
    }
    u.fail(std::string("parameter '") + key + "' has the unknown value '" + name + "'.");
  }
  Traffic* account(const char* key) const {
    return &engine.traffic.at(std::size_t(param<std::int64_t>(key)));
  }

  template <class T>
  std::span<const T> values(const char* key) const {
    nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> array;
    if (!spec.arrays.contains(key) || !nb::try_cast(spec.arrays[key], array, false))
      u.fail(std::string("array '") + key + "' must be one-dimensional, C-contiguous and " +
              (std::is_same_v<T, double> ? "float64." : "int64."));
    return {array.data(), array.size()};
  }

  // An array that the context writes to.
  std::span<double> writable(const char* key) const {
    nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> array;
    if (!spec.arrays.contains(key) || !nb::try_cast(spec.arrays[key], array, false))
      u.fail(std::string("array '") + key + "' must be one-dimensional, C-contiguous, writable and float64.");
    return {array.data(), array.size()};
  }

  // The places of fibers in a level: pos[r] .. pos[r+1], below `end`.
  std::span<const std::int64_t> fibers(const char* key, std::int64_t end, const std::string& what) const {
    const auto pos = values<std::int64_t>(key);
    const std::string array = std::string("array '") + key + "'";
    if (pos.empty()) u.fail(array + " must hold one more entry than there are fibers, got none.");
    for (std::size_t r = 0; r + 1 < pos.size(); ++r)
      if (pos[r] > pos[r + 1]) u.fail(array + " must not decrease, fiber " + std::to_string(r) + ".");
    if (pos[0] < 0 || pos.back() > end)
      u.fail(array + " must point into " + what + ", got " + std::to_string(pos[0]) + " to " +
             std::to_string(pos.back()) + ".");
    return pos;
  }

  Engine& engine;
  Unit& u;
  const Spec& spec;
};

using MakeTask = Task (*)(const Builder&);

// What Python's tables say of a kind, for a kind that they do not have: ports in the notation of mapper/graph.py, as in
// "crd val -> crd val"; names of parameters and arrays, as in "least scale?" where `?` may be left out.
struct Declaration {
  const char *ports = nullptr, *params = "", *arrays = "";
};

struct KindEntry {
  MakeTask make;
  Declaration declaration;
};

// The kinds that are built: a file of contexts adds its own with a `Maker` at file scope.
inline std::map<std::string, KindEntry>& makers() {
  static std::map<std::string, KindEntry> table;
  return table;
}

struct Maker {
  Maker(const char* kind, MakeTask make) : Maker(kind, {}, make) {}
  Maker(const char* kind, Declaration declaration, MakeTask make) {
    if (!makers().emplace(kind, KindEntry{make, declaration}).second)
      throw std::logic_error(std::string("two files make contexts of kind '") + kind + "'");
  }
};

}  // namespace hwsim
