#include "libsim/plan/units/unit_passes.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace stagecraft {

std::vector<std::vector<UnitPasses>> unit_passes(UnitList const& list,
                                                 UnitPolicy const& policy,
                                                 int microbatches) {
  using Kind = UnitAction::Kind;
  using Source = UnitPass::Source;
  std::vector<std::vector<UnitPasses>> all;
  std::vector<Source> sources(static_cast<std::size_t>(list.units));
  UnitPass UnitPasses::*direction = &UnitPasses::forward;
  UnitPass* running = nullptr;  // the pass whose ops the host has issued last
  auto const pass_of = [&](int unit) -> UnitPass& {
    return all.back()[static_cast<std::size_t>(unit)].*direction;
  };
  auto const begin = [&](UnitPass UnitPasses::*of) {
    direction = of;
    running = list.has_root ? &pass_of(0) : nullptr;
  };
  for (UnitAction const& action : unit_actions(list, policy, std::min(microbatches, 3))) {
    auto const unit = static_cast<std::size_t>(action.number);
    switch (action.kind) {
      case Kind::microbatch:
        all.emplace_back(sources.size());
        begin(&UnitPasses::forward);
        break;
      case Kind::backward_begins:
        begin(&UnitPasses::backward);
        break;
      case Kind::gather:
      case Kind::gather_partly:
        if (running == nullptr || running == &pass_of(action.number)) {
          sources[unit] = Source::own;
        } else {
          sources[unit] = Source::handed;
          running->gathers_ahead = true;
        }
        if (list.has_root && unit == 0) pass_of(0).source = std::exchange(sources[0], Source::kept);
        break;
      case Kind::forward:
      case Kind::backward:
        running = &pass_of(action.number);
        running->source = std::exchange(sources[unit], Source::kept);
        break;
      case Kind::recompute:
        break;
      case Kind::reduce:
        pass_of(action.number).reduces = true;
        break;
      case Kind::free:
        pass_of(action.number).frees = true;
        break;
    }
  }
  for (std::size_t k = 1; k < all.size(); ++k) {
    for (std::size_t unit = 0; unit < all[k].size(); ++unit) {
      UnitPasses const& before = all[k - 1][unit];
      all[k][unit].has_reduced = before.backward.reduces;
      all[k][unit].adds_up = !before.backward.reduces;
    }
  }
  return all;
}

}  // namespace stagecraft
