#include "engine.hpp"

#include <chrono>
#include <deque>

namespace hwsim {

Engine::Engine(std::size_t contexts, std::size_t channel_count, std::size_t tensors, Dram memory)
    : traffic(tensors), dram(std::move(memory)) {
  for (std::size_t i = 0; i < contexts; ++i) {
    units.push_back(std::make_unique<Unit>());
    units.back()->index = std::uint32_t(i);
  }
  for (std::size_t i = 0; i < channel_count; ++i) channels.push_back(std::make_unique<Channel>());
}

Engine::~Engine() {
  for (auto& unit : units)
    if (unit->handle) unit->handle.destroy();
}

Time Engine::elapsed() const {
  Time last = 0;
  for (const auto& unit : units) last = std::max(last, unit->t);
  return last;
}

std::uint64_t Engine::tokens() const {
  std::uint64_t sum = 0;
  for (const auto& channel : channels) sum += channel->tail;
  return sum;
}

// Connected parts one after the other, so that the channels of one stay in the cache while it runs; within a part the
// longest distance from a source decides, contexts on a cycle come last.
void Engine::rank_by_flow() {
  const std::size_t last = units.size();
  std::vector<std::size_t> depth(units.size(), 0), missing(units.size());
  std::deque<Unit*> open;
  for (auto& unit : units) {
    missing[unit->index] = unit->ins.size();
    if (unit->ins.empty()) open.push_back(unit.get());
  }
  for (; !open.empty(); open.pop_front())
    for (Channel* out : open.front()->outs) {
      const std::size_t to = out->consumer->index;
      depth[to] = std::max(depth[to], depth[open.front()->index] + 1);
      if (--missing[to] == 0) open.push_back(out->consumer);
    }
  for (auto& unit : units) {
    if (missing[unit->index]) depth[unit->index] = last;
    by_rank_.push_back(unit.get());
  }
  const std::vector<std::size_t> part = connected_parts();
  std::stable_sort(by_rank_.begin(), by_rank_.end(), [&](Unit* a, Unit* b) {
    return std::pair(part[a->index], depth[a->index]) < std::pair(part[b->index], depth[b->index]);
  });
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) by_rank_[rank]->rank = std::uint32_t(rank);
}

// For every context the smallest index in the part of the graph that channels join it to.
std::vector<std::size_t> Engine::connected_parts() const {
  constexpr std::size_t unseen = ~std::size_t{0};
  std::vector<std::size_t> part(units.size(), unseen);
  std::vector<const Unit*> open;
  for (const auto& first : units) {
    if (part[first->index] != unseen) continue;
    part[first->index] = first->index;
    for (open.push_back(first.get()); !open.empty();) {
      const Unit* unit = open.back();
      open.pop_back();
      const auto join = [&](const Unit* other) {
        if (part[other->index] == unseen) part[other->index] = first->index, open.push_back(other);
      };
      for (const Channel* in : unit->ins) join(in->producer);
      for (const Channel* out : unit->outs) join(out->consumer);
    }
  }
  return part;
}

void Engine::make_ready(Unit& unit, Urgency urgency) {
  unit.wait = Wait::ready;
  ready_[urgency][unit.rank / 64] |= std::uint64_t{1} << unit.rank % 64;
}

// Sweeps along the flow, so that a context runs when all its producers have done what they can. Contexts that had
// better wait (`later`: little to take, little room, or a consumer that lags behind) come when nothing else is ready,
// the most downstream first, so that unbounded channels stay short in memory.
Unit* Engine::next_ready() {
  Unit* next = nullptr;
  if (shuffle_) {
    std::vector<Unit*> all;
    for (auto& unit : units)
      if (unit->wait == Wait::ready) all.push_back(unit.get());
    if (!all.empty()) next = all[(*shuffle_)() % all.size()];
  } else {
    next = first_in_sweep();
    for (std::size_t word = ready_[later].size(); !next && word-- > 0;)
      if (const std::uint64_t bits = ready_[later][word])
        next = by_rank_[word * 64 + 63 - std::size_t(std::countl_zero(bits))];
  }
  if (!next) return nullptr;
  for (auto& bits : ready_) bits[next->rank / 64] &= ~(std::uint64_t{1} << next->rank % 64);
  if (next->on) (next->on->consumer == next ? next->on->starving : next->on->stuffed) = false, next->on = nullptr;
  sweep_ = next->rank + 1;
  return next;
}

Unit* Engine::first_in_sweep() {
  const auto& words = ready_[now];
  std::uint64_t visible = ~std::uint64_t{0} << sweep_ % 64;  // of the word where the sweep stands
  std::size_t word = sweep_ / 64;
  for (std::size_t n = 0; n <= words.size(); ++n, visible = ~std::uint64_t{0}) {
    if (const std::uint64_t bits = words[word] & visible)
      return by_rank_[word * 64 + std::size_t(std::countr_zero(bits))];
    word = word + 1 == words.size() ? 0 : word + 1;
  }
  return nullptr;
}

void Engine::wake_neighbours(Unit& unit) {
  for (Channel* out : unit.outs)
    if (out->starving && !out->empty()) make_ready(*out->consumer, out->tail - out->head >= out->lot ? now : later);
  for (Channel* in : unit.ins)
    if (in->stuffed && in->has_room())
      make_ready(*in->producer, in->capacity - (in->tail - in->head) >= in->lot ? now : later);
}

// All contexts are blocked: serve the earliest pending request (ties by place in the graph), and only that one.
// No later event can issue an earlier request: every blocked context waits, directly or through others, on a pending
// request at T or later (or on nothing that can happen, a deadlock). Its context goes on at T or later, so the token
// it pushes is available at T + L or later and the slot it frees at T + R or later, with L, R >= 1; by induction
// every context woken through it has a clock beyond T when it issues its own request. So requests are served in one
// global order of (time, place) that depends on the graph alone, not on the order in which contexts were run.
// Where bursts in flight are limited, a request is served in parts: what remains of it is pending at the time at which
// the context's next burst may go, which is later than T, and the context goes on only when nothing remains, at the
// time of the last part. So the order is one of bursts instead of requests, and the argument the same.
// Whatever else decides a finish time (channels, their open rows) changes only when a request is served.
bool Engine::serve_memory() {
  const auto first = std::min_element(pending_.begin(), pending_.end(), [](const Unit* a, const Unit* b) {
    return std::pair(a->request.at, a->index) < std::pair(b->request.at, b->index);
  });
  if (first == pending_.end()) return false;
  Unit& unit = **first;
  const std::int64_t moved = dram.bytes_moved();
  const Time at = unit.request.at;
  const bool whole = send(unit);
  if (timeline) timeline->moved(at, dram.bytes_moved() - moved);
  if (!whole) return true;
  pending_.erase(first);
  make_ready(unit, now);
  return true;
}

// Serves the request of `unit`, or as many of its bursts as may go at `request.at`. False if some remain: `request` is
// then those, at the time when a burst in flight ends.
bool Engine::send(Unit& unit) {
  Request& request = unit.request;
  if (!dram.outstanding()) {
    unit.finish = dram.serve(request);
    return true;
  }
  while (request.bytes) {
    if (unit.in_flight.size() == dram.outstanding()) {
      if (unit.in_flight.top() > request.at) {
        request.at = unit.in_flight.top();
        return false;
      }
      unit.in_flight.pop();
    }
    const Time there = dram.serve(dram.take_burst(request));
    unit.in_flight.push(there);
    unit.finish = std::max(unit.finish, there);
  }
  unit.reach(request.at);
  return true;
}

const char* Engine::exceeded(const Limits& limits) const {
  if (elapsed() > limits.cycles) return "limit:cycles";
  if (tokens() > limits.tokens) return "limit:tokens";
  std::uint64_t bytes = host_bytes;
  for (const auto& unit : units) bytes += unit->record.host_bytes();
  return bytes > limits.host_bytes ? "limit:host_bytes" : nullptr;
}

std::string Engine::run(const Limits& limits, std::optional<std::uint64_t> shuffle_seed,
                        const std::function<void()>& interrupted) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t switches_between_checks = std::max<std::uint64_t>(1024, 8 * units.size());  // one looks at all
  if (shuffle_seed) shuffle_.emplace(*shuffle_seed);
  rank_by_flow();
  ready_.fill(std::vector<std::uint64_t>(units.size() / 64 + 1, 0));
  for (auto& unit : units) make_ready(*unit, now);
  const auto start = Clock::now();
  double next_signal_check = 0.1;
  for (std::uint64_t switches = 0;;) {
    Unit* unit = next_ready();
    if (!unit) {
      if (serve_memory()) continue;
      break;
    }
    unit->handle.resume();
    wake_neighbours(*unit);
    if (unit->handle.done()) unit->wait = Wait::done;
    else if (unit->wait == Wait::ready) make_ready(*unit, later);
    else if (unit->wait == Wait::memory) pending_.push_back(unit);
    if (++switches % switches_between_checks == 0) {
      if (const char* which = exceeded(limits)) return which;
      const double now = std::chrono::duration<double>(Clock::now() - start).count();
      if (now > limits.wall_seconds) return "limit:wall_seconds";
      if (now > next_signal_check) interrupted(), next_signal_check = now + 0.1;
    }
  }
  if (const char* which = exceeded(limits)) return which;
  for (const auto& unit : units)
    if (unit->wait != Wait::done) return "deadlock";
  return "done";
}

}  // namespace hwsim
