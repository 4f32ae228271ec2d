// What the watched build (module _hwsim_core_watched) does beside simulating: it keeps a timeline of every context and
// stops at values that are not finite. The plain build compiles none of it, so it costs nothing there.
#pragma once

#include <array>
#include <numeric>
#include <vector>

#include "token.hpp"

namespace hwsim {

struct Unit;
struct Channel;

#ifdef HWSIM_WATCHED
inline constexpr bool watched = true;
#else
inline constexpr bool watched = false;
#endif

enum class State { busy, starved, blocked, memory };

void saw_wait(Unit& unit, State state, Time from, Time to);
void saw_late_token(const Channel& channel, Time from, Time to);
[[noreturn]] void saw_not_finite(const Channel& channel, Token token, Time t);

// A value that is not finite left a unit: what it took last at every input is in its channels.
struct NotFinite {
  const Channel* channel;
  double value;
  Time t;
};

// The slices of all contexts, and the bytes that off-chip memory moved. At most `most` slices and as many samples are
// kept (at least one slice per context): when there are more, slices that begin in the same `grain` cycles become one,
// which still knows its cycles by state; the grain doubles until they fit.
class Timeline {
 public:
  // Consecutive time of one context: `cycles` by state, in one piece.
  struct Slice {
    Time begin = 0;
    std::array<Time, 4> cycles{};

    Time end() const { return std::accumulate(cycles.begin(), cycles.end(), begin); }
    bool only(State state) const { return cycles[std::size_t(state)] == end() - begin; }
    void add(const Slice& next) {
      for (std::size_t s = 0; s < cycles.size(); ++s) cycles[s] += next.cycles[s];
    }
  };

  Timeline(std::size_t contexts, std::size_t most) : tracks(contexts), most_(most) {}

  void wait(std::size_t context, State state, Time from, Time to) {
    advance(context, from);
    extend(context, state, to);
  }
  // The context was busy until `t`.
  void advance(std::size_t context, Time t) { extend(context, State::busy, t); }

  void moved(Time t, std::int64_t bytes) {
    if (bytes == 0) return;
    while (t / sample_cycles >= most_) {
      sample_cycles *= 2;
      for (std::size_t k = 0; k < samples.size(); ++k) {
        const std::int64_t both = samples[k];
        samples[k] = 0, samples[k / 2] += both;
      }
      samples.resize((samples.size() + 1) / 2);
    }
    samples.resize(std::max<std::size_t>(samples.size(), t / sample_cycles + 1));
    samples[t / sample_cycles] += bytes;
  }

  std::vector<std::vector<Slice>> tracks;
  Time grain = 1;
  std::vector<std::int64_t> samples;  // bytes in every `sample_cycles` cycles
  Time sample_cycles = 1;

 private:
  void extend(std::size_t context, State state, Time to) {
    auto& track = tracks[context];
    Slice next{track.empty() ? 0 : track.back().end(), {}};
    if (to <= next.begin) return;
    next.cycles[std::size_t(state)] = to - next.begin;
    if (!joins(track, next, state)) track.push_back(next), ++count_;
    else track.back().add(next);
    while (count_ > most_ && count_ > tracks.size()) coarsen();
  }
  bool joins(const std::vector<Slice>& track, const Slice& next, State state) const {
    return !track.empty() && (track.back().begin / grain == next.begin / grain || track.back().only(state));
  }
  void coarsen() {
    grain *= 2;
    count_ = 0;
    for (auto& track : tracks) {
      std::size_t kept = 0;
      for (const Slice& slice : track)
        if (kept && track[kept - 1].begin / grain == slice.begin / grain) track[kept - 1].add(slice);
        else track[kept++] = slice;
      track.resize(kept);
      count_ += kept;
    }
  }
  std::size_t most_, count_ = 0;
};

}  // namespace hwsim
