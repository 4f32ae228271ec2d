// Sums (or largest values) by key, drained in key order: the host side of the sparse accumulator.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace hwsim {

// Keys below `dense_limit` index an array directly; larger key spaces use open addressing. A two-level bit map says
// which slots are in use, so that a drain costs its entries and not the key space.
class SumTable {
 public:
  explicit SumTable(std::int64_t keys, bool larger = false) : dense_(keys <= dense_limit), larger_(larger) { allocate(dense_ ? std::size_t(keys) : 64); }

  std::size_t entries() const { return count_; }

  // True if the key is new.
  bool add(std::int64_t key, double value) {
    const std::size_t at = dense_ ? std::size_t(key) : find(key);
    std::uint64_t& word = used_[at / 64];
    const std::uint64_t bit = std::uint64_t{1} << at % 64;
    if (word & bit) {
      if (!larger_) sums_[at] += value;
      else if (value > sums_[at] || value != value) sums_[at] = value;  // NaN if either is
      return false;
    }
    if (!dense_) keys_[at] = key;
    sums_[at] = value;
    word |= bit;
    groups_[at / 4096] |= std::uint64_t{1} << at / 64 % 64;
    ++count_;
    return true;
  }

  // Empties the table into (key, sum) pairs in key order; valid until the next `drain`.
  const std::vector<std::pair<std::int64_t, double>>& drain() {
    sorted_.clear();
    for (std::size_t g = 0; count_ > 0; ++g)
      for (; groups_[g]; groups_[g] &= groups_[g] - 1) {
        const std::size_t w = g * 64 + std::size_t(std::countr_zero(groups_[g]));
        for (; used_[w]; used_[w] &= used_[w] - 1, --count_) {
          const std::size_t at = w * 64 + std::size_t(std::countr_zero(used_[w]));
          sorted_.emplace_back(dense_ ? std::int64_t(at) : keys_[at], sums_[at]);
        }
      }
    if (!dense_) std::sort(sorted_.begin(), sorted_.end());
    return sorted_;
  }

 private:
  static constexpr std::int64_t dense_limit = std::int64_t{1} << 22;

  void allocate(std::size_t size) {
    size_ = std::max<std::size_t>(size, 1);
    sums_ = std::make_unique_for_overwrite<double[]>(size_);  // read only where `used_` says so
    if (!dense_) keys_ = std::make_unique_for_overwrite<std::int64_t[]>(size_);
    used_.assign((size_ + 63) / 64, 0);
    groups_.assign((size_ + 4095) / 4096, 0);
  }
  std::size_t find(std::int64_t key) {
    if (2 * count_ >= size_) grow();
    std::size_t at = std::size_t((std::uint64_t(key) * 0x9E3779B97F4A7C15ull) >> 20) & (size_ - 1);
    while ((used_[at / 64] >> at % 64 & 1) && keys_[at] != key) at = (at + 1) & (size_ - 1);
    return at;
  }
  void grow() {
    const auto entries = drain();
    allocate(2 * size_);
    for (const auto& [key, sum] : entries) add(key, sum);
  }

  bool dense_, larger_;
  std::size_t size_ = 0, count_ = 0;
  std::unique_ptr<double[]> sums_;
  std::unique_ptr<std::int64_t[]> keys_;
  std::vector<std::uint64_t> used_, groups_;  // a bit per slot, a bit per word of `used_`
  std::vector<std::pair<std::int64_t, double>> sorted_;
};

}  // namespace hwsim
