// Off-chip memory shared by all contexts, and the accounts of what moved.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "token.hpp"

namespace hwsim {

struct Account {
  std::int64_t values_bytes = 0, metadata_bytes = 0, requests = 0;

  void add(std::int64_t values, std::int64_t metadata) {
    values_bytes += values, metadata_bytes += metadata, ++requests;
  }
};

struct Traffic {
  Account read, write;
};

// What a context asks for: bytes of a tensor, whose addresses are its own, from `at` on.
struct Request {
  const Traffic* tensor = nullptr;
  std::int64_t address = 0, bytes = 0;
  bool write = false;
  Time at = 0;

  const Account* owner() const { return write ? &tensor->write : &tensor->read; }
};

struct DramShape {
  std::int64_t channels = 0;  // 0: no memory model, everything finishes at once
  double bytes_per_cycle = 1;
  std::int64_t burst_bytes = 0;
  Time latency = 0;
  std::int64_t interleave_bytes = 0;  // both are multiples of burst_bytes
  std::int64_t row_bytes = 0;         // 0: no row buffers
  Time startup = 0, row_hit = 0, row_miss = 0;
  std::int64_t outstanding = 0;  // bursts in flight per context, 0: unlimited
};

// Channels interleaved by chunks of bursts, closed until start-up is over; each serves bursts in the order in which the
// engine hands them over and keeps one row open, that of its last burst. Tensors never share a row, nor do what is read
// and what is written of one: a conversion's source and result have the same name.
class Dram {
 public:
  Dram(const DramShape& shape)
      : shape_(shape), cycles_per_burst_(Time(std::ceil(double(shape.burst_bytes) / shape.bytes_per_cycle))),
        channels_(std::size_t(shape.channels), Channel{.free = shape.startup}) {
    if (shape.channels) chunk_ = shape.interleave_bytes / shape.burst_bytes, row_ = shape.row_bytes / shape.burst_bytes;
  }

  std::int64_t burst_bytes() const { return shape_.burst_bytes; }
  std::int64_t bytes_moved() const { return bursts_ * shape_.burst_bytes; }
  std::int64_t row_misses() const { return row_misses_; }
  std::size_t outstanding() const { return std::size_t(shape_.outstanding); }

  // The time at which the bytes of `r` are there (read) or handed over (write).
  Time serve(const Request& r) {
    if (channels_.empty() || r.bytes == 0) return r.at;
    const std::int64_t first = r.address / shape_.burst_bytes, end = (r.address + r.bytes - 1) / shape_.burst_bytes + 1;
    const std::int64_t chunks = (end - 1) / chunk_ - first / chunk_ + 1;
    bursts_ += end - first;
    Time finish = r.at;
    for (std::int64_t k = 0; k < std::min(chunks, shape_.channels); ++k) {
      const std::int64_t number = (first / chunk_ + k) % shape_.channels;
      Channel& channel = channels_[std::size_t(number)];
      const Time busy = occupied(channel, r.owner(), before(first, number), before(end, number));
      channel.free = std::max(channel.free, r.at) + busy;
      finish = std::max(finish, channel.free);
    }
    return r.write ? finish : finish + shape_.latency;
  }

  // The part of `r` that lies in its first burst, which is taken off `r`.
  Request take_burst(Request& r) const {
    Request burst = r;
    burst.bytes = std::min(r.bytes, shape_.burst_bytes - r.address % shape_.burst_bytes);
    r.address += burst.bytes, r.bytes -= burst.bytes;
    return burst;
  }

 private:
  struct Channel {
    Time free;
    const Account* owner = nullptr;  // of the open row
    std::int64_t row = -1;
  };

  // How many of the bursts below `burst` belong to a channel. They are consecutive in it, so this numbers them, too.
  std::int64_t before(std::int64_t burst, std::int64_t channel) const {
    const std::int64_t round = chunk_ * shape_.channels;
    return burst / round * chunk_ + std::clamp<std::int64_t>(burst % round - channel * chunk_, 0, chunk_);
  }

  // Cycles that a channel takes for its bursts from `from` to `end`: each for its bytes and for its row.
  Time occupied(Channel& channel, const Account* owner, std::int64_t from, std::int64_t end) {
    const Time bursts = Time(end - from);
    if (!row_) return bursts * cycles_per_burst_;
    const std::int64_t first = from / row_, last = (end - 1) / row_;
    const Time misses = Time(last - first) + (channel.owner != owner || channel.row != first);
    channel.owner = owner, channel.row = last, row_misses_ += std::int64_t(misses);
    return bursts * cycles_per_burst_ + misses * shape_.row_miss + (bursts - misses) * shape_.row_hit;
  }

  DramShape shape_;
  std::int64_t chunk_ = 1, row_ = 0;  // in bursts
  std::int64_t bursts_ = 0, row_misses_ = 0;
  Time cycles_per_burst_;
  std::vector<Channel> channels_;
};

}  // namespace hwsim
