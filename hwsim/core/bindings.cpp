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

std::size_t number_of(const Engine& engine, const Channel* channel) {
  std::size_t number = 0;
  while (engine.channels[number].get() != channel) ++number;
  return number;
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
    chain.append(nb::make_tuple(unit->index, other->index, other->wait == Wait::done, number_of(engine, unit->on),
                                unit->wait == Wait::token, unit->on->tail - unit->on->head, unit->t));
    unit = other;
  }
  return chain;
}

// Grain, columns (context, begin, cycles by state) of all slices; sample length, samples.
nb::tuple timeline(Engine& engine) {
  std::vector<std::int64_t> contexts;
  std::vector<Time> begins, cycles;
  for (auto& unit : engine.units) engine.timeline->advance(unit->index, unit->t);  // may merge the slices of others
  for (auto& unit : engine.units) {
    for (const Timeline::Slice& slice : engine.timeline->tracks[unit->index]) {
      contexts.push_back(unit->index), begins.push_back(slice.begin);
      cycles.insert(cycles.end(), slice.cycles.begin(), slice.cycles.end());
    }
  }
  const std::size_t n = begins.size(), samples = engine.timeline->samples.size();
  return nb::make_tuple(engine.timeline->grain, owned(std::move(contexts), {n}), owned(std::move(begins), {n}),
                        owned(std::move(cycles), {n, 4}), engine.timeline->sample_cycles,
                        owned(std::move(engine.timeline->samples), {samples}));
}

// Context, channel, value, time, and what the context took last at its inputs: channel, kind, bits.
nb::tuple not_finite(const Engine& engine, const NotFinite& found) {
  nb::list taken;
  for (const Channel* in : found.channel->producer->ins)
    if (!in->last_taken.is_done())
      taken.append(nb::make_tuple(number_of(engine, in), int(in->last_taken.kind), in->last_taken.bits));
  return nb::make_tuple(found.channel->producer->index, number_of(engine, found.channel), found.value, found.t, taken);
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
    if (unit->kind == "sink" || unit->kind == "store" || unit->kind == "block_store" ||
        unit->kind == "crd_write" || unit->kind == "value_write")
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
  all["timeline"] = engine.timeline ? nb::object(timeline(engine)) : nb::none();
  all["waits"] = status == "deadlock" ? waits(engine) : nb::list();
  return all;
}

// Name, kind, inputs, outputs, parameters, arrays.
using ContextSpec =
    std::tuple<std::string, std::string, std::vector<std::int64_t>, std::vector<std::int64_t>, nb::dict, nb::dict>;
using ChannelSpec = std::tuple<std::int64_t, Time, Time>;  // capacity (-1: unbounded), latency, response latency
using WatchSpec = std::tuple<std::size_t, std::vector<std::size_t>>;  // slices (0: none), channels of finite values
// In the order of DramShape: channels, bytes per cycle, burst, latency, interleave, row, start-up, hit, miss, in flight.
using DramSpec = std::tuple<std::int64_t, double, std::int64_t, Time, std::int64_t, std::int64_t, Time, Time, Time,
                            std::int64_t>;

nb::dict run(const std::vector<ContextSpec>& contexts, const std::vector<ChannelSpec>& channels, std::size_t tensors,
             const std::optional<DramSpec>& dram,
             const std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, double>& limits,
             std::optional<std::uint64_t> shuffle_seed, const WatchSpec& watch) {
  const auto& [slices, finite] = watch;
  if (!watched && (slices || !finite.empty())) throw Fault("only the watched build keeps a timeline or checks values.");
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
  for (const std::size_t channel : finite) engine.channels.at(channel)->must_be_finite = true;
  if (slices) {
    engine.timeline = std::make_unique<Timeline>(contexts.size(), slices);
    for (auto& unit : engine.units) unit->timeline = engine.timeline.get();
  }
  const auto [cycles, tokens, host_bytes, wall_seconds] = limits;
  std::string status;
  try {
    nb::gil_scoped_release release;
    status = engine.run({cycles, tokens, host_bytes, wall_seconds}, shuffle_seed, [] {
      nb::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  } catch (const NotFinite& found) {
    nb::dict all;
    all["not_finite"] = not_finite(engine, found);
    return all;
  }
  return result(engine, status);
}

}  // namespace
}  // namespace hwsim

#ifdef HWSIM_WATCHED
NB_MODULE(_hwsim_core_watched, m) {
#else
NB_MODULE(_hwsim_core, m) {
#endif
  m.doc() = "Token engine of the dataflow simulator; use hwsim.simulate.";
  nb::exception<hwsim::Fault>(m, "Fault");
  m.def("run", &hwsim::run, nb::arg("contexts"), nb::arg("channels"), nb::arg("tensors"), nb::arg("dram").none(),
        nb::arg("limits"), nb::arg("shuffle_seed").none(), nb::arg("watch"));
  m.def("kinds", &hwsim::declared_kinds);
}
