#include "libsim/schedule/unit_order.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft {
namespace {

/// Appends the actions of all units, microbatch by microbatch. `states_` says of each unit whether
/// its parameters are gathered after the last action; unit 0 is the root, if there is one.
class UnitPlayer {
 public:
  UnitPlayer(UnitList const& list, UnitPolicy const& policy)
      : policy_{policy},
        first_{list.has_root ? 1 : 0},
        units_{list.units},
        states_(static_cast<std::size_t>(list.units), State::shared) {}

  void run(int microbatch, bool is_last) {
    append(Kind::microbatch, microbatch);
    forward();
    append(Kind::backward_begins, microbatch);
    backward(is_last);
  }

  std::vector<UnitAction> take() { return std::move(actions_); }

 private:
  using Kind = UnitAction::Kind;
  enum class State : std::uint8_t { shared, kept_partly, gathered };

  void append(Kind kind, int number) { actions_.push_back({kind, number}); }
  State& state(int unit) { return states_[static_cast<std::size_t>(unit)]; }
  bool has_root() const { return first_ == 1; }

  void gather(int unit) {
    if (state(unit) == State::gathered) return;
    append(state(unit) == State::shared ? Kind::gather : Kind::gather_partly, unit);
    state(unit) = State::gathered;
  }
  void free(int unit, State left) {
    append(Kind::free, unit);
    state(unit) = left;
  }

  bool frees_after_forward(int unit) const {
    using After = UnitPolicy::AfterForward;
    bool const is_root = has_root() && unit == 0;
    int const kept = std::max(policy_.kept_last, has_root() ? 0 : 1);
    bool const is_kept_last = unit >= units_ - kept;
    return policy_.after_forward == After::free ||
           (policy_.after_forward == After::free_most && !is_root && !is_kept_last);
  }
  void end_forward(int unit) {
    if (!frees_after_forward(unit)) return;
    free(unit, policy_.kept_among > 0 ? State::kept_partly : State::shared);
  }

  void forward() {
    if (has_root()) gather(0);
    for (int unit = first_; unit < units_; ++unit) {
      gather(unit);
      int const end = std::min(units_, unit + policy_.prefetch + 1);
      for (int ahead = unit + 1; ahead < end; ++ahead) gather(ahead);
      append(Kind::forward, unit);
      end_forward(unit);
    }
    if (has_root()) end_forward(0);
  }

  void backward(bool is_last) {
    if (has_root()) {
      gather(0);
      gather(units_ - 1);  // the unit before the root's end, which the root gathers ahead
    }
    int const ahead = std::max(1, policy_.prefetch);
    for (int unit = units_ - 1; unit >= first_; --unit) {
      gather(unit);
      append(Kind::backward, unit);
      for (int i = unit - 1; i >= std::max(first_, unit - ahead); --i) gather(i);
      if (policy_.recomputes) append(Kind::recompute, unit);
      end_backward(unit, is_last);
    }
    if (has_root()) end_backward(0, is_last);
  }
  void end_backward(int unit, bool is_last) {
    bool const is_kept = policy_.keeps_root && has_root() && unit == 0;
    if (is_last || (policy_.frees_after_backward && !is_kept)) free(unit, State::shared);
    if (is_last || policy_.reduces_every) append(Kind::reduce, unit);
  }

  UnitPolicy const& policy_;
  int first_;  ///< the first unit that is not the root
  int units_;
  std::vector<State> states_;
  std::vector<UnitAction> actions_;
};

}  // namespace

std::vector<UnitAction> unit_actions(UnitList const& list,
                                     UnitPolicy const& policy,
                                     int microbatches) {
  UnitPlayer player{list, policy};
  for (int k = 0; k < microbatches; ++k) player.run(k, k + 1 == microbatches);
  return player.take();
}

}  // namespace stagecraft
