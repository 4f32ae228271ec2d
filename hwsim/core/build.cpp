#include "build.hpp"

#include <sstream>

#include "builder.hpp"
#include "contexts/accumulate.hpp"
#include "contexts/block.hpp"
#include "contexts/compute.hpp"
#include "contexts/direct.hpp"
#include "contexts/filter.hpp"
#include "contexts/join.hpp"
#include "contexts/lanes.hpp"
#include "contexts/lookup.hpp"
#include "contexts/python.hpp"
#include "contexts/repeat.hpp"
#include "contexts/scan.hpp"
#include "contexts/scan_stored.hpp"
#include "contexts/store.hpp"
#include "contexts/stream.hpp"
#include "contexts/tile.hpp"

namespace hwsim {
namespace {

constexpr const char* ordinal[] = {"crd_1", "crd_2", "crd_3", "crd_4", "crd_5", "crd_6", "crd_7", "crd_8"};

Task scan_task(const Builder& b) {
  if (b.has("storage") || b.has("tensor")) return scan_stored(b);
  Level level;
  level.compressed = b.spec.arrays.contains("crd");
  if (level.compressed) level.crd = b.values<std::int64_t>("crd");
  level.pos = b.fibers("pos", level.compressed ? std::int64_t(level.crd.size()) : Level{}.hi,
                       "'crd' (" + std::to_string(level.crd.size()) + " coordinates)");
  level.lo = std::max<std::int64_t>(b.param("lo", level.lo), 0);
  level.hi = std::max(b.param("hi", level.hi), level.lo);
  if (b.has("step")) return scan_walk(b, LevelWalk{.pos = level.pos, .crd = level.crd, .compressed = level.compressed});
  return scan(b.u, b.in(0), b.out(0), b.out(1), level);
}

std::vector<KeyStream> keys(const Builder& b, std::size_t first_port, const std::vector<std::int64_t>& levels,
                            std::int64_t depth) {
  std::vector<KeyStream> streams;
  for (std::size_t q = 0; q < levels.size(); ++q)
    streams.push_back({b.in(first_port + q), levels[q], depth, ordinal[std::min<std::size_t>(q, 7)]});
  return streams;
}

template <std::size_t N>
Task join(const Builder& b, bool intersection) {
  if (b.spec.inputs.size() != 2 * N) {
    if constexpr (N < 8) return join<N + 1>(b, intersection);
    b.u.fail("a join has 2 to 8 sides, this one has " + std::to_string(b.spec.inputs.size() / 2) + ".");
  }
  JoinPorts<N> p;
  p.out_crd = b.out(0);
  for (std::size_t i = 0; i < N; ++i) p.crd[i] = b.in(i), p.ref[i] = b.in(N + i), p.out_ref[i] = b.out(1 + i);
  if (!intersection) return unite<N>(b.u, p);
  switch (b.has("strategy") ? b.choice<int>("strategy", {"two_finger", "galloping", "leader_follower"}) : 0) {
    case 0: return intersect<N>(b.u, p);
    case 1: return gallop<N>(b.u, p);
    default: return follow(b);
  }
}

Task source_task(const Builder& b) {
  std::vector<Token> tokens;
  for (nb::handle item : b.param<nb::sequence>("tokens")) {
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
      b.u.fail(std::string("a token is ('val', x), ('stop', n), ('empty',) or ('done',), got ") +
               nb::repr(item).c_str());
  }
  return source(b.u, b.out(0), std::move(tokens), b.param("times", std::vector<Time>{}));
}

Task accumulate_task(const Builder& b, bool blocks) {
  const auto levels = b.param<std::vector<std::int64_t>>("levels");
  const std::size_t order = levels.size();
  AccumulatePlan plan{.sizes = b.param<std::vector<std::int64_t>>("sizes"),
                      .depth = b.param<std::int64_t>("depth"),
                      .drain_cycles_per_entry = b.param<Time>("drain_cycles_per_entry", 0),
                      .capacity_entries = b.param<std::int64_t>("capacity_entries", 0),
                      .larger = b.has("op") && b.choice<int>("op", {"sum", "max"}) == 1};
  if (order == 0 || b.spec.inputs.size() != order + 2 + std::size_t(blocks) || plan.sizes.size() != order || plan.depth < 2 ||
      levels.front() < 2 || levels.back() != plan.depth || !std::is_sorted(levels.begin(), levels.end()))
    b.u.fail("'levels' and 'sizes' must name every key, levels increasing from 2 or more to 'depth'.");
  double space = 1;
  for (const std::int64_t size : plan.sizes) space *= double(std::max<std::int64_t>(size, 1));
  if (space > 9e18)
    b.u.fail("the key extents in 'sizes' multiply to more than 63 bits hold; use fewer or smaller keys.");
  if (plan.capacity_entries) {
    plan.entry_value_bytes = b.param<std::int64_t>("entry_value_bytes");
    plan.entry_metadata_bytes = b.param<std::int64_t>("entry_metadata_bytes");
    plan.account = b.account("tensor");
  }
  auto tiles = blocks ? std::make_unique<TileSums>(block_plan(b, b.spec.arrays.contains("b"))) : nullptr;
  return accumulate(b.u, b.in(0), keys(b, 1, levels, plan.depth), b.in(order + 1), blocks ? b.in(order + 2) : In{},
                    b.outs(0, order), b.out(order), std::move(plan), std::move(tiles));
}

Task tile_load_task(const Builder& b) {
  TilePlan plan{.value_bytes = b.values<std::int64_t>("value_bytes"),
                .metadata_bytes = b.values<std::int64_t>("metadata_bytes"),
                .address = b.values<std::int64_t>("address"),
                .account = b.account("tensor"),
                .residency = b.choice<Residency>("residency", {"none", "lru", "keep", "overbooked"}),
                .capacity_bytes = b.param<std::int64_t>("capacity_bytes", 0),
                .streaming_bytes = b.param<std::int64_t>("streaming_bytes", 0),
                .fill_bytes_per_cycle = b.param("fill_bytes_per_cycle", 0.0)};
  if (plan.value_bytes.size() != plan.address.size() || plan.metadata_bytes.size() != plan.address.size())
    b.u.fail("arrays 'value_bytes', 'metadata_bytes' and 'address' must have one entry per tile each.");
  if (plan.streaming_bytes < 0 || plan.streaming_bytes > plan.capacity_bytes)
    b.u.fail("'streaming_bytes' must be between 0 and 'capacity_bytes', got " + std::to_string(plan.streaming_bytes) +
             " of " + std::to_string(plan.capacity_bytes) + ".");
  return tile_load(b.u, b.in(0), b.out(0), plan);
}

StoreLevel store_level(const Builder& b, const std::vector<std::string>& kinds, std::size_t q) {
  constexpr std::pair<const char*, LevelKind> known[] = {
      {"dense", LevelKind::dense},         {"compressed", LevelKind::compressed}, {"bitmask", LevelKind::bitmask},
      {"nonunique", LevelKind::repeated}, {"singleton", LevelKind::singleton}};
  StoreLevel level;
  for (const auto& [name, kind] : known)
    if (kinds[q] == name) {
      level.kind = kind;
      return level;
    }
  char by = 0;
  std::istringstream text(kinds[q]);
  const bool blocks = text >> level.rows >> by >> level.cols && by == 'x' && text.peek() == EOF;
  if (!blocks || level.rows < 1 || level.cols < 1 || q == 0 || q + 1 != kinds.size() || kinds[q - 1] != "dense")
    b.u.fail("level kind '" + kinds[q] + "' cannot be written; kinds are dense, compressed, bitmask, nonunique, " +
             "singleton, or blocks (4x4) as the last level, below a dense one.");
  level.kind = LevelKind::blocked;
  return level;
}

Task store_task(const Builder& b) {
  const std::size_t n = b.spec.inputs.size() - 1;
  StorePlan plan{.tile_levels = b.param<std::size_t>("tile_levels"),
                 .inner = {},
                 .value_bytes = b.param<std::int64_t>("value_bytes"),
                 .coordinate_bytes = b.param<std::int64_t>("coordinate_bytes"),
                 .pointer_bytes = b.param<std::int64_t>("pointer_bytes"),
                 .descriptor_bytes = b.param<std::int64_t>("descriptor_bytes"),
                 .account = b.account("tensor")};
  const auto kinds = b.param<std::vector<std::string>>("kinds");
  const auto dims = b.param<std::vector<std::int64_t>>("dims"), tiles = b.param<std::vector<std::int64_t>>("tiles"),
             homes = b.param<std::vector<std::int64_t>>("tile_level_of");
  if (plan.tile_levels > n || kinds.size() != n - plan.tile_levels || dims.size() != kinds.size() ||
      tiles.size() != kinds.size() || homes.size() != kinds.size())
    b.u.fail("'kinds', 'dims', 'tiles' and 'tile_level_of' must have one entry for each of the " + std::to_string(n) +
             " levels after the first 'tile_levels'.");
  for (std::size_t q = 0; q < kinds.size(); ++q) {
    if (homes[q] >= std::int64_t(plan.tile_levels))
      b.u.fail("'tile_level_of' names level " + std::to_string(homes[q]) + ", which is not a tile level.");
    plan.inner.push_back(store_level(b, kinds, q));
    plan.inner.back().dim = dims[q], plan.inner.back().tile = tiles[q], plan.inner.back().tile_level = homes[q];
  }
  if (b.has("rows") && kinds.size() > 1) {
    plan.inner[kinds.size() - 2].side = b.param<std::int64_t>("rows");
    plan.inner.back().side = b.param<std::int64_t>("cols");
  }
  std::vector<std::int64_t> levels(n);
  for (std::size_t q = 0; q < n; ++q) levels[q] = std::int64_t(q) + 1;
  return store(b.u, keys(b, 0, levels, std::int64_t(n)), b.in(n), std::move(plan));
}

const Maker built_in[] = {
    {"root", [](const Builder& b) { return root(b.u, b.out(0)); }},
    {"source", source_task},
    {"sink", [](const Builder& b) { return sink(b.u, b.in(0), b.param("times", std::vector<Time>{})); }},
    {"fork", [](const Builder& b) { return fork(b.u, b.in(0), b.outs(0, b.spec.outputs.size())); }},
    {"number", [](const Builder& b) { return number(b.u, b.in(0), b.out(0)); }},
    {"crd_write", [](const Builder& b) { return crd_write(b.u, b.in(0)); }},
    {"value_write", [](const Builder& b) { return value_write(b.u, b.in(0)); }},
    {"scan", scan_task},
    {"stream_scan",
     [](const Builder& b) {
       const auto never = std::numeric_limits<std::int64_t>::max();
       return stream_scan(b.u, b.in(0), RawLevel{b.in(1), b.in(2), b.in(3)}, b.out(0), b.out(1),
                          b.param<std::int64_t>("aligned", never));
     }},
    {"repeat_signal", [](const Builder& b) { return repeat_signal(b.u, b.in(0), b.out(0)); }},
    {"repeat", [](const Builder& b) { return repeat(b.u, b.in(0), b.in(1), b.out(0)); }},
    {"intersect", [](const Builder& b) { return join<2>(b, true); }},
    {"union", [](const Builder& b) { return join<2>(b, false); }},
    {"drop_empty", [](const Builder& b) { return drop_empty(b.u, b.in(0), b.in(1), b.out(0), b.out(1)); }},
    {"array", array_task},
    {"alu",
     [](const Builder& b) {
       return alu(b.u, b.in(0), b.in(1), b.out(0),
                  b.choice<AluOp>("op", {"mul", "add", "sub", "div", "max", "min"}));
     }},
    {"map",
     [](const Builder& b) {
       return map(b.u, b.in(0), b.out(0),
                  b.choice<MapOp>("op", {"relu", "exp", "tanh", "sigmoid", "gelu", "abs", "neg", "sqrt", "rsqrt",
                                         "square", "log", "scale", "shift", "one", "sparse_relu"}),
                  b.param("factor", 1.0));
     }},
    {"reduce",
     [](const Builder& b) {
       return reduce(b.u, b.in(0), b.in(1), b.out(0), b.choice<ReduceOp>("op", {"sum", "max"}),
                     b.choice<int>("empty", {"zero", "empty"}) == 0);
     }},
    {"accumulate", [](const Builder& b) { return accumulate_task(b, false); }},
    {"block_accumulate", [](const Builder& b) { return accumulate_task(b, true); }},
    {"tile_load", tile_load_task},
    {"store", store_task},
    {"block_store", store_task},
    {"convert", [](const Builder& b) {
       return convert(b.u, *b.account("tensor"), *b.account(b.has("result") ? "result" : "tensor"),
                      {b.param<std::int64_t>("read_value_bytes"), b.param<std::int64_t>("read_metadata_bytes")},
                      {b.param<std::int64_t>("write_value_bytes"), b.param<std::int64_t>("write_metadata_bytes")},
                      b.engine.dram.burst_bytes());
     }}};

}  // namespace

void build(Engine& engine, std::size_t index, const Spec& spec) {
  const Builder builder(engine, index, spec);
  const auto maker = makers().find(spec.kind);
  if (maker == makers().end()) builder.u.fail("this kind is not known.");
  engine.units[index]->handle = maker->second.make(builder).handle;
}

std::vector<DeclaredKind> declared_kinds() {
  std::vector<DeclaredKind> kinds;
  for (const auto& [kind, entry] : makers())
    if (const auto& [ports, params, arrays] = entry.declaration; ports) kinds.push_back({kind, ports, params, arrays});
  return kinds;
}

}  // namespace hwsim
