#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stagecraft {

/// Detects that something that is observed again and again is periodic. It keeps a digest of each
/// state. If the digest of an earlier look returns, it keeps that whole state, and reports the
/// period once the same state is seen again as many looks later.
class RepeatedState {
 public:
  using State = std::vector<std::int64_t>;

  /// The number of looks since the state was the same; nullopt if no such look is known.
  std::optional<std::int32_t> looks_since(State state) {
    ++looks_;
    if (kept_ && looks_ == due_) {
      if (*kept_ == state) return period_;
      kept_.reset();
    }
    auto const [last, is_new] = last_looks_.try_emplace(digest_of(state), looks_);
    if (!is_new && !kept_) {
      period_ = looks_ - last->second;
      due_ = looks_ + period_;
      kept_ = std::move(state);
    }
    last->second = looks_;
    return std::nullopt;
  }

 private:
  /// Two states with the same digest may differ: it only says when to keep one.
  static std::uint64_t digest_of(State const& state) {
    std::uint64_t digest = state.size();
    for (std::int64_t const value : state) {
      digest = (digest ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15U;
      digest ^= digest >> 29;
    }
    return digest;
  }

  std::int32_t looks_ = 0;
  std::unordered_map<std::uint64_t, std::int32_t> last_looks_;  ///< by digest
  std::optional<State> kept_;
  std::int32_t period_ = 0;  ///< in looks
  std::int32_t due_ = 0;     ///< the look at which `kept_` must come back
};

}  // namespace stagecraft
