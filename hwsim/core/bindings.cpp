// The Python module _hwsim_core: `run` takes a checked graph and gives back plain results.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "build.hpp"

namespace nb = nanobind;

namespace hwsim {
namespace {

template <class T>
nb::object owned(std::vector<T> data, std::initializer_list<std::size_t> shape) {
  auto* kept = new std::vector<T>(std::move(data));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

nb::object recorded(Record& record, const std::string& kind) {
  if (kind == "sink") {
    std::vector<std::int64_t> kinds, bits;
    for (const Token& x : record.tokens) kinds.push_back(std::int64_t(x.kind)), bits.push_back(x.bits);
    const std::size_t n = bits.size();
    return nb::make_tuple(owned(std::move(kinds), {n}), owned(std::move(bits), {n}),
                          owned(std::move(record.times), {n}));
  }
  const std::size_t levels = record.coords.size();
  const std::size_t entries = levels ? record.coords[0].size() : record.values.size();
  std::vector<std::int64_t> coords;
  coords.reserve(levels * entries);
  for (auto& level : record.coords) {
    coords.insert(coords.end(), level.begin(), level.end());
    level = {};
  }
  const std::size_t values = record.values.size();
  return nb::make_tuple(owned(std::move(coords), {levels, entries}), owned(std::move(record.values), {values}));
}

// The chain of waits that starts at the first unfinished context and ends where it meets itself or a finished one.
nb::list waits(Engine& engine) {
  nb::list chain;
  std::vector<bool> seen(engine.units.size(), false);
  Unit* unit = nullptr;
  for (auto& candidate : engine.units)
    if (!unit && candidate->wait != Wait::done) unit = candidate.get();
  while (unit && unit->wait != Wait::done && !seen[unit->index]) {
    seen[unit->index] = true;
    Unit* other = unit->wait == Wait::token ? unit->on->producer : unit->on->consumer;
    std::size_t channel = 0;
    while (engine.channels[channel].get() != unit->on) ++channel;
    chain.append(nb::make_tuple(unit->index, other->index, other->wait == Wait::done, channel,
                                unit->wait == Wait::token, unit->on->tail - unit->on->head, unit->t));
    unit = other;
  }
  return chain;
}

nb::dict result(Engine& engine, const std::string& status) {
  nb::list units, channels, traffic;
  nb::dict outputs;
  const Time elapsed = engine.elapsed();
  for (auto& unit : engine.units) {
    Time starved = unit->starved, memory = unit->memory, blocked = 0;
    for (const Channel* in : unit->ins) (in->producer->loads ? memory : starved) += in->waited;
    for (const Channel* out : unit->outs) blocked += out->blocked;
    Record& r = unit->record;
    if (unit->kind == "intersect" || unit->kind == "union") r.comparisons = std::int64_t(unit->busy());
    units.append(nb::make_tuple(unit->busy(), starved, blocked, memory, elapsed - unit->t, unit->turns,
                                nb::make_tuple(r.multiplies, r.additions, r.comparisons, r.spilled, r.hits, r.misses)));
    if (unit->kind == "sink" || unit->kind == "store" || unit->kind == "crd_write" || unit->kind == "value_write")
      outputs[unit->name.c_str()] = recorded(unit->record, unit->kind);
  }
  for (auto& channel : engine.channels)
    channels.append(nb::make_tuple(channel->tail, channel->most_held()));
  for (const Traffic& t : engine.traffic)
    traffic.append(nb::make_tuple(t.read.values_bytes, t.read.metadata_bytes, t.read.requests, t.write.values_bytes,
                                  t.write.metadata_bytes, t.write.requests));
  nb::dict all;
  all["status"] = status, all["cycles"] = elapsed, all["tokens"] = engine.tokens();
  all["units"] = units, all["channels"] = channels, all["traffic"] = traffic;
  all["burst_bytes"] = engine.dram.bytes_moved(), all["row_misses"] = engine.dram.row_misses();
  all["outputs"] = outputs;
  all["waits"] = status == "deadlock" ? waits(engine) : nb::list();
  return all;
}

// Name, kind, inputs, outputs, parameters, arrays.
using ContextSpec =
    std::tuple<std::string, std::string, std::vector<std::int64_t>, std::vector<std::int64_t>, nb::dict, nb::dict>;
using ChannelSpec = std::tuple<std::int64_t, Time, Time>;  // capacity (-1: unbounded), latency, response latency
// In the order of DramShape: channels, bytes per cycle, burst, latency, interleave, row, start-up, hit, miss, in flight.
using DramSpec = std::tuple<std::int64_t, double, std::int64_t, Time, std::int64_t, std::int64_t, Time, Time, Time,
                            std::int64_t>;

nb::dict run(const std::vector<ContextSpec>& contexts, const std::vector<ChannelSpec>& channels, std::size_t tensors,
             const std::optional<DramSpec>& dram,
             const std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, double>& limits,
             std::optional<std::uint64_t> shuffle_seed) {
  Engine engine(contexts.size(), channels.size(), tensors,
                Dram(dram ? std::apply([](auto... field) { return DramShape{field...}; }, *dram) : DramShape{}));
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const auto [capacity, latency, response] = channels[i];
    engine.channels[i]->open(capacity < 0 ? Channel::unbounded : std::uint64_t(capacity), latency, response,
                             shuffle_seed ? 5 : Engine::batch_tokens, &engine.host_bytes);
  }
  for (std::size_t i = 0; i < contexts.size(); ++i) {
    const auto& [name, kind, inputs, outputs, params, arrays] = contexts[i];
    build(engine, i, {name, kind, inputs, outputs, params, arrays});
  }
  const auto [cycles, tokens, host_bytes, wall_seconds] = limits;
  std::string status;
  {
    nb::gil_scoped_release release;
    status = engine.run({cycles, tokens, host_bytes, wall_seconds}, shuffle_seed, [] {
      nb::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  return result(engine, status);
}

}  // namespace
}  // namespace hwsim

NB_MODULE(_hwsim_core, m) {
  m.doc() = "Token engine of the dataflow simulator; use hwsim.simulate.";
  nb::exception<hwsim::Fault>(m, "Fault");
  m.def("run", &hwsim::run, nb::arg("contexts"), nb::arg("channels"), nb::arg("tensors"), nb::arg("dram").none(),
        nb::arg("limits"), nb::arg("shuffle_seed").none());
}
