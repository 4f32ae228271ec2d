// Contexts as coroutines, and the engine that runs them until all are blocked.
#pragma once

#include <array>
#include <coroutine>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "channel.hpp"
#include "memory.hpp"

namespace hwsim {

class Engine;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Wait { ready, token, room, memory, done };

// What a context leaves behind besides time: recorded results and operation counts.
struct Record {
  std::vector<std::vector<std::int64_t>> coords;
  std::vector<double> values;
  std::vector<Token> tokens;
  std::vector<Time> times;
  std::int64_t multiplies = 0, additions = 0, comparisons = 0, spilled = 0, hits = 0, misses = 0;

  std::uint64_t host_bytes() const {
    std::uint64_t bytes = values.capacity() * 8 + tokens.capacity() * sizeof(Token) + times.capacity() * 8;
    for (const auto& level : coords) bytes += level.capacity() * 8;
    return bytes;
  }
};

// One context: its clock `t`, which its coroutine alone moves, and what it waits for.
struct Unit {
  Time t = 0;
  std::uint64_t turns = 0;
  std::int64_t surplus = 0;  // own cost beyond a cycle per turn
  Time memory = 0;  // cycles spent waiting for off-chip memory
  Time starved = 0; // cycles spent waiting for a time set by the caller (source, sink)
  Wait wait = Wait::ready;
  Channel* on = nullptr;
  Request request;
  Time finish = 0;  // of the last request
  std::uint32_t index = 0, rank = 0;  // place in the graph and along the flow
  std::coroutine_handle<> handle;
  std::vector<Channel*> ins, outs;  // connected ones
  Record record;
  std::string name, kind;
  std::priority_queue<Time, std::vector<Time>, std::greater<>> in_flight;  // finish of bursts, if their number is limited
  bool loads = false;  // whoever waits for its tokens waits for off-chip memory
  Timeline* timeline = nullptr;  // watched build only

  HWSIM_INLINE void end_turn() { ++t, ++turns; }
  void end_turn(Time cycles) { t += cycles, surplus += std::int64_t(cycles) - 1, ++turns; }
  void end_free_turn() { --surplus, ++turns; }
  void spend(Time cycles) { t += cycles, surplus += std::int64_t(cycles); }  // within a turn
  Time busy() const { return turns + Time(surplus); }
  void wait_until(Time time) {
    if (time <= t) return;
    if constexpr (watched) saw_wait(*this, State::starved, t, time);
    starved += time - t, t = time;
  }
  void reach(Time time) {  // waits for off-chip memory
    if (time <= t) return;
    if constexpr (watched) saw_wait(*this, State::memory, t, time);
    memory += time - t, t = time;
  }

  struct Suspend {
    Unit& unit;
    Wait wait;
    Channel* on;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept { unit.wait = wait, unit.on = on; }
    void await_resume() const noexcept {}
  };
  struct SuspendForRoom {
    Unit& unit;
    Channel* on;
    bool await_ready() { return (room = on->extend()) == Channel::Room::now; }
    void await_suspend(std::coroutine_handle<>) const noexcept {
      unit.wait = room == Channel::Room::none ? Wait::room : Wait::ready;
      unit.on = on, on->stuffed = room == Channel::Room::none;
    }
    void await_resume() const noexcept {}
    Channel::Room room = Channel::Room::none;
  };
  struct SuspendForMemory {
    Unit& unit;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept { unit.wait = Wait::memory; }
    Time await_resume() const noexcept { return unit.finish; }
  };

  Suspend token(Channel* in) {
    in->starving = true;
    return {*this, Wait::token, in};
  }
  SuspendForRoom room(Channel* out) { return {*this, out}; }
  // A request issued at `t`; the result is its finish time. Moves the clock only where the number of bursts in flight
  // is limited: to the time at which the last one could be issued.
  SuspendForMemory access(const Traffic* tensor, std::int64_t address, std::int64_t bytes, bool write) {
    request = {tensor, address, bytes, write, t}, finish = t;
    return {*this};
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Fault("context '" + name + "' (" + kind + ") at cycle " + std::to_string(t) + ": " + what);
  }
  [[noreturn]] void misaligned(std::initializer_list<std::pair<const char*, Token>> heads) const {
    std::string text = "misaligned streams:";
    for (const auto& [port, token] : heads) text += std::string(" port ") + port + " has " + token.text() + ",";
    text.back() = '.';
    fail(text);
  }
};

inline void saw_wait(Unit& unit, State state, Time from, Time to) {
  if (unit.timeline) unit.timeline->wait(unit.index, state, from, to);
}
inline void saw_late_token(const Channel& in, Time from, Time to) {
  saw_wait(*in.consumer, in.producer->loads ? State::memory : State::starved, from, to);
}
inline void saw_not_finite(const Channel& channel, Token token, Time t) {
  throw NotFinite{&channel, token.number(), t};
}

// Ports. An unconnected output swallows tokens for free.
struct In {
  Channel* channel = nullptr;
  bool connected() const { return channel; }
  // Whether references to tiles come in: their slots are the tile's buffers, freed only once the tile was walked.
  bool holds_tiles() const { return channel->producer->kind == "tile_load"; }
  HWSIM_INLINE bool starved() const { return channel->empty(); }
  HWSIM_INLINE Token head() const { return channel->front(); }
  HWSIM_INLINE Token peek(Unit& u) const { return channel->peek(u.t); }
  HWSIM_INLINE void drop(Unit& u) const { channel->drop(u.t); }
  HWSIM_INLINE void drop_if(bool taken, Unit& u) const { channel->drop_if(taken, u.t); }
  HWSIM_INLINE Token pop(Unit& u) const { return channel->pop(u.t); }
};

struct Out {
  Channel* channel = nullptr;
  HWSIM_INLINE bool full() const { return channel && channel->tail == channel->limit; }
  HWSIM_INLINE void push(Unit& u, Token x) const {
    if (channel) channel->push(u.t, x);
  }
};

// An output that may make tokens available later than the latency of its channel says.
struct LateOut {
  LateOut(Out out) : channel(out.channel) {
    if (channel) channel->keep_push_times();
  }
  Channel* channel;
  bool full() const { return Out{channel}.full(); }
  Time latency() const { return channel ? channel->latency : 0; }
  void wait_slot(Unit& u) const {
    if (channel) channel->wait_slot(u.t);
  }
  void push(Unit& u, Token x, Time available = 0) const {
    if (!channel) return;
    channel->wait_slot(u.t);
    channel->note_push(u.t);
    channel->push(u.t, x, available);
  }
};

// The four moves of a context. Each first waits on the host until the move is possible and then lets the port move
// the clock; the wait is a loop because a wake-up only says that something changed.
#define AWAIT_TOKEN(in) while ((in).starved()) co_await u.token((in).channel)
#define AWAIT_ROOM(out) while ((out).full()) co_await u.room((out).channel)
#define PEEK(name, in) AWAIT_TOKEN(in); const Token name = (in).peek(u)
#define POP(name, in) AWAIT_TOKEN(in); const Token name = (in).pop(u)
#define PUSH(out, token) AWAIT_ROOM(out); (out).push(u, token)

struct Task {
  struct promise_type {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() { throw; }
  };
  std::coroutine_handle<promise_type> handle;
};

struct Limits {
  std::uint64_t cycles, tokens, host_bytes;
  double wall_seconds;
};

class Engine {
 public:
  static constexpr std::uint64_t batch_tokens = 256;  // on the host a producer runs ahead of its consumer by this much

  Engine(std::size_t contexts, std::size_t channels, std::size_t tensors, Dram dram);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // "done", "deadlock" or "limit:<which>". `interrupted` is asked now and then whether to give up (by throwing).
  std::string run(const Limits& limits, std::optional<std::uint64_t> shuffle_seed,
                  const std::function<void()>& interrupted);

  Time elapsed() const;
  std::uint64_t tokens() const;

  std::vector<std::unique_ptr<Unit>> units;
  std::vector<std::unique_ptr<Channel>> channels;
  std::vector<Traffic> traffic;
  Dram dram;
  std::uint64_t host_bytes = 0;
  std::unique_ptr<Timeline> timeline;  // watched build only, where it is asked for

 private:
  void rank_by_flow();
  std::vector<std::size_t> connected_parts() const;
  enum Urgency { now, later };

  void make_ready(Unit& unit, Urgency urgency);
  Unit* next_ready();
  Unit* first_in_sweep();
  bool serve_memory();
  bool send(Unit& unit);
  void wake_neighbours(Unit& unit);
  const char* exceeded(const Limits& limits) const;

  std::array<std::vector<std::uint64_t>, 2> ready_;  // by urgency, a bit per rank
  std::vector<Unit*> by_rank_;        // sources first
  std::vector<Unit*> pending_;        // with a memory request
  std::size_t sweep_ = 0;             // rank where the sweep stands
  std::optional<std::mt19937_64> shuffle_;
};

}  // namespace hwsim
