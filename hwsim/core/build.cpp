#include "build.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "contexts/accumulate.hpp"
#include "contexts/compute.hpp"
#include "contexts/join.hpp"
#include "contexts/repeat.hpp"
#include "contexts/scan.hpp"
#include "contexts/store.hpp"
#include "contexts/stream.hpp"
#include "contexts/tile.hpp"

namespace nb = nanobind;

namespace hwsim {
namespace {

constexpr const char* ordinal[] = {"crd_1", "crd_2", "crd_3", "crd_4", "crd_5", "crd_6", "crd_7", "crd_8"};

class Builder {
 public:
  Builder(Engine& engine, std::size_t index, const Spec& spec)
      : engine_(engine), u_(*engine.units[index]), spec_(spec) {
    u_.name = spec.name, u_.kind = spec.kind;
    for (std::size_t i = 0; i < spec.inputs.size(); ++i)
      if (Channel* c = in(i).channel) c->consumer = &u_, u_.ins.push_back(c);
    for (std::size_t i = 0; i < spec.outputs.size(); ++i)
      if (Channel* c = out(i).channel) c->producer = &u_, u_.outs.push_back(c);
  }

  Task make();

 private:
  In in(std::size_t port) const {
    const std::int64_t c = port < spec_.inputs.size() ? spec_.inputs[port] : -1;
    return {c < 0 ? nullptr : engine_.channels[std::size_t(c)].get()};
  }
  Out out(std::size_t port) const {
    const std::int64_t c = spec_.outputs[port];
    return {c < 0 ? nullptr : engine_.channels[std::size_t(c)].get()};
  }
  std::vector<Out> outs(std::size_t from, std::size_t to) const {
    std::vector<Out> ports;
    for (; from < to; ++from) ports.push_back(out(from));
    return ports;
  }

  bool has(const char* key) const { return spec_.params.contains(key); }
  template <class T>
  T param(const char* key) const {
    T value;
    if (!has(key) || !nb::try_cast<T>(spec_.params[key], value))
      u_.fail(std::string("parameter '") + key + "' is missing or of the wrong type.");
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
    u_.fail(std::string("parameter '") + key + "' has the unknown value '" + name + "'.");
  }
  Traffic* account(const char* key) const {
    return &engine_.traffic.at(std::size_t(param<std::int64_t>(key)));
  }

  template <class T>
  std::span<const T> values(const char* key) const {
    nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> array;
    if (!spec_.arrays.contains(key) || !nb::try_cast(spec_.arrays[key], array, false))
      u_.fail(std::string("array '") + key + "' must be one-dimensional, C-contiguous and " +
              (std::is_same_v<T, double> ? "float64." : "int64."));
    return {array.data(), array.size()};
  }

  Level level() const {
    Level level;
    level.pos = values<std::int64_t>("pos");
    level.compressed = spec_.arrays.contains("crd");
    if (level.pos.empty()) u_.fail("array 'pos' must hold one more entry than there are fibers, got none.");
    if (level.compressed) level.crd = values<std::int64_t>("crd");
    for (std::size_t r = 0; r + 1 < level.pos.size(); ++r)
      if (level.pos[r] > level.pos[r + 1]) u_.fail("array 'pos' must not decrease, fiber " + std::to_string(r) + ".");
    if (level.pos[0] < 0 || (level.compressed && level.pos.back() > std::int64_t(level.crd.size())))
      u_.fail("array 'pos' must point into 'crd' (" + std::to_string(level.crd.size()) + " coordinates), got " +
              std::to_string(level.pos[0]) + " to " + std::to_string(level.pos.back()) + ".");
    level.lo = std::max<std::int64_t>(param("lo", level.lo), 0);
    level.hi = std::max(param("hi", level.hi), level.lo);
    return level;
  }

  std::vector<KeyStream> keys(std::size_t first_port, const std::vector<std::int64_t>& levels, std::int64_t depth) {
    std::vector<KeyStream> streams;
    for (std::size_t q = 0; q < levels.size(); ++q)
      streams.push_back({in(first_port + q), levels[q], depth, ordinal[std::min<std::size_t>(q, 7)]});
    return streams;
  }

  template <std::size_t N>
  Task join() {
    if (spec_.inputs.size() != 2 * N) {
      if constexpr (N < 8) return join<N + 1>();
      u_.fail("a join has 2 to 8 sides, this one has " + std::to_string(spec_.inputs.size() / 2) + ".");
    }
    JoinPorts<N> ports;
    ports.out_crd = out(0);
    for (std::size_t i = 0; i < N; ++i) ports.crd[i] = in(i), ports.ref[i] = in(N + i), ports.out_ref[i] = out(1 + i);
    return spec_.kind == "intersect" ? intersect<N>(u_, ports) : unite<N>(u_, ports);
  }

  Task source_task();
  Task accumulate_task();
  Task tile_load_task();
  Task store_task();

  Engine& engine_;
  Unit& u_;
  const Spec& spec_;
};

Task Builder::source_task() {
  std::vector<Token> tokens;
  for (nb::handle item : param<nb::sequence>("tokens")) {
    std::string kind;
    std::int64_t number = 0;
    double value = 0;
    nb::tuple parts;
    const bool named = nb::try_cast(item, parts) && parts.size() > 0 && nb::try_cast(parts[0], kind);
    const bool has_number = parts.size() > 1 && nb::try_cast(parts[1], number);
    const bool has_value = parts.size() > 1 && nb::try_cast(parts[1], value);
    if (named && kind == "val" && has_number) tokens.push_back(Token::val(number));
    else if (named && kind == "val" && has_value) tokens.push_back(Token::val(value));
    else if (named && kind == "stop" && has_number && number >= 0) tokens.push_back(Token::stop(number));
    else if (named && kind == "empty") tokens.push_back(Token::empty());
    else if (named && kind == "done") tokens.push_back(Token::done());
    else
      u_.fail(std::string("a token is ('val', x), ('stop', n), ('empty',) or ('done',), got ") +
              nb::repr(item).c_str());
  }
  return source(u_, out(0), std::move(tokens), param("times", std::vector<Time>{}));
}

Task Builder::accumulate_task() {
  const auto levels = param<std::vector<std::int64_t>>("levels");
  const std::size_t order = levels.size();
  AccumulatePlan plan{.sizes = param<std::vector<std::int64_t>>("sizes"),
                      .depth = param<std::int64_t>("depth"),
                      .drain_cycles_per_entry = param<Time>("drain_cycles_per_entry", 0),
                      .capacity_entries = param<std::int64_t>("capacity_entries", 0)};
  if (order == 0 || spec_.inputs.size() != order + 2 || plan.sizes.size() != order || plan.depth < 2 ||
      levels.front() < 2 || levels.back() != plan.depth || !std::is_sorted(levels.begin(), levels.end()))
    u_.fail("'levels' and 'sizes' must name every key, levels increasing from 2 or more to 'depth'.");
  double space = 1;
  for (const std::int64_t size : plan.sizes) space *= double(std::max<std::int64_t>(size, 1));
  if (space > 9e18)
    u_.fail("the key extents in 'sizes' multiply to more than 63 bits hold; use fewer or smaller keys.");
  if (plan.capacity_entries) {
    plan.entry_value_bytes = param<std::int64_t>("entry_value_bytes");
    plan.entry_metadata_bytes = param<std::int64_t>("entry_metadata_bytes");
    plan.account = account("tensor");
  }
  return accumulate(u_, in(0), keys(1, levels, plan.depth), in(order + 1), outs(0, order), out(order), std::move(plan));
}

Task Builder::tile_load_task() {
  TilePlan plan{.value_bytes = values<std::int64_t>("value_bytes"),
                .metadata_bytes = values<std::int64_t>("metadata_bytes"),
                .address = values<std::int64_t>("address"),
                .account = account("tensor"),
                .keeps = choice<int>("residency", {"none", "lru"}) == 1,
                .capacity_bytes = param<std::int64_t>("capacity_bytes", 0)};
  if (plan.value_bytes.size() != plan.address.size() || plan.metadata_bytes.size() != plan.address.size())
    u_.fail("arrays 'value_bytes', 'metadata_bytes' and 'address' must have one entry per tile each.");
  return tile_load(u_, in(0), out(0), plan);
}

Task Builder::store_task() {
  const std::size_t n = spec_.inputs.size() - 1;
  StorePlan plan{.tile_levels = param<std::size_t>("tile_levels"),
                 .inner = {},
                 .value_bytes = param<std::int64_t>("value_bytes"),
                 .coordinate_bytes = param<std::int64_t>("coordinate_bytes"),
                 .pointer_bytes = param<std::int64_t>("pointer_bytes"),
                 .descriptor_bytes = param<std::int64_t>("descriptor_bytes"),
                 .account = account("tensor")};
  const auto kinds = param<std::vector<std::string>>("kinds");
  const auto dims = param<std::vector<std::int64_t>>("dims"), tiles = param<std::vector<std::int64_t>>("tiles"),
             homes = param<std::vector<std::int64_t>>("tile_level_of");
  if (plan.tile_levels > n || kinds.size() != n - plan.tile_levels || dims.size() != kinds.size() ||
      tiles.size() != kinds.size() || homes.size() != kinds.size())
    u_.fail("'kinds', 'dims', 'tiles' and 'tile_level_of' must have one entry for each of the " + std::to_string(n) +
            " levels after the first 'tile_levels'.");
  for (std::size_t q = 0; q < kinds.size(); ++q) {
    if (homes[q] >= std::int64_t(plan.tile_levels))
      u_.fail("'tile_level_of' names level " + std::to_string(homes[q]) + ", which is not a tile level.");
    plan.inner.push_back({kinds[q] == "compressed", dims[q], tiles[q], homes[q]});
  }
  std::vector<std::int64_t> levels(n);
  for (std::size_t q = 0; q < n; ++q) levels[q] = std::int64_t(q) + 1;
  return store(u_, keys(0, levels, std::int64_t(n)), in(n), std::move(plan));
}

Task Builder::make() {
  static const std::map<std::string, Task (*)(Builder&)> makers = {
      {"root", [](Builder& b) { return root(b.u_, b.out(0)); }},
      {"source", [](Builder& b) { return b.source_task(); }},
      {"sink", [](Builder& b) { return sink(b.u_, b.in(0), b.param("times", std::vector<Time>{})); }},
      {"fork", [](Builder& b) { return fork(b.u_, b.in(0), b.outs(0, b.spec_.outputs.size())); }},
      {"number", [](Builder& b) { return number(b.u_, b.in(0), b.out(0)); }},
      {"crd_write", [](Builder& b) { return crd_write(b.u_, b.in(0)); }},
      {"value_write", [](Builder& b) { return value_write(b.u_, b.in(0)); }},
      {"scan", [](Builder& b) { return scan(b.u_, b.in(0), b.out(0), b.out(1), b.level()); }},
      {"stream_scan",
       [](Builder& b) {
         return stream_scan(b.u_, b.in(0), RawLevel{b.in(1), b.in(2), b.in(3)}, b.out(0), b.out(1));
       }},
      {"repeat_signal", [](Builder& b) { return repeat_signal(b.u_, b.in(0), b.out(0)); }},
      {"repeat", [](Builder& b) { return repeat(b.u_, b.in(0), b.in(1), b.out(0)); }},
      {"intersect", [](Builder& b) { return b.join<2>(); }},
      {"union", [](Builder& b) { return b.join<2>(); }},
      {"drop_empty", [](Builder& b) { return drop_empty(b.u_, b.in(0), b.in(1), b.out(0), b.out(1)); }},
      {"array", [](Builder& b) { return array(b.u_, b.in(0), b.out(0), b.values<double>("values")); }},
      {"alu",
       [](Builder& b) {
         return alu(b.u_, b.in(0), b.in(1), b.out(0),
                    b.choice<AluOp>("op", {"mul", "add", "sub", "div", "max", "min"}));
       }},
      {"map",
       [](Builder& b) {
         return map(b.u_, b.in(0), b.out(0),
                    b.choice<MapOp>("op", {"relu", "exp", "tanh", "sigmoid", "gelu", "abs", "neg", "sqrt", "rsqrt",
                                           "square", "log", "scale"}),
                    b.param("factor", 1.0));
       }},
      {"reduce",
       [](Builder& b) {
         return reduce(b.u_, b.in(0), b.in(1), b.out(0), b.choice<ReduceOp>("op", {"sum", "max"}),
                       b.choice<int>("empty", {"zero", "empty"}) == 0);
       }},
      {"accumulate", [](Builder& b) { return b.accumulate_task(); }},
      {"tile_load", [](Builder& b) { return b.tile_load_task(); }},
      {"store", [](Builder& b) { return b.store_task(); }},
      {"convert", [](Builder& b) {
         return convert(b.u_, *b.account("tensor"),
                        {b.param<std::int64_t>("read_value_bytes"), b.param<std::int64_t>("read_metadata_bytes")},
                        {b.param<std::int64_t>("write_value_bytes"), b.param<std::int64_t>("write_metadata_bytes")},
                        b.engine_.dram.burst_bytes());
       }}};
  const auto maker = makers.find(spec_.kind);
  if (maker == makers.end()) u_.fail("this kind is not known.");
  return maker->second(*this);
}

}  // namespace

void build(Engine& engine, std::size_t index, const Spec& spec) {
  engine.units[index]->handle = Builder(engine, index, spec).make().handle;
}

}  // namespace hwsim
