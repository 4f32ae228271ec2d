// Off-chip memory shared by all contexts, and the accounts of what moved.
#pragma once

#include <cmath>
#include <vector>

#include "token.hpp"

namespace hwsim {

// Channels interleaved by burst; each serves its requests in the order in which the engine hands them over.
class Dram {
 public:
  Dram() = default;  // no memory model: everything finishes at once
  Dram(int channels, double bytes_per_cycle, std::int64_t burst_bytes, Time latency)
      : burst_(burst_bytes), cycles_per_burst_(Time(std::ceil(double(burst_bytes) / bytes_per_cycle))),
        latency_(latency), free_(std::size_t(channels), 0) {}

  std::int64_t burst_bytes() const { return burst_; }
  std::int64_t bytes_moved() const { return bursts_ * burst_; }

  // The time at which `bytes` from `address` on, requested at `t`, are there (read) or handed over (write).
  Time serve(Time t, std::int64_t address, std::int64_t bytes, bool write) {
    if (free_.empty() || bytes == 0) return t;
    const std::int64_t first = address / burst_, count = (address + bytes - 1) / burst_ - first + 1;
    const std::int64_t channels = std::int64_t(free_.size());
    bursts_ += count;
    Time finish = t;
    for (std::int64_t k = 0; k < std::min(count, channels); ++k) {  // bursts first+k, first+k+C, ... share a channel
      Time& free = free_[std::size_t((first + k) % channels)];
      free = std::max(free, t) + Time((count - k + channels - 1) / channels) * cycles_per_burst_;
      finish = std::max(finish, free);
    }
    return write ? finish : finish + latency_;
  }

 private:
  std::int64_t burst_ = 0, bursts_ = 0;
  Time cycles_per_burst_ = 0, latency_ = 0;
  std::vector<Time> free_;
};

struct Account {
  std::int64_t values_bytes = 0, metadata_bytes = 0, requests = 0;

  void add(std::int64_t values, std::int64_t metadata) {
    values_bytes += values, metadata_bytes += metadata, ++requests;
  }
};

struct Traffic {
  Account read, write;
};

}  // namespace hwsim
