#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/schedule/unit_order.hpp"

namespace stagecraft {

/// What a pass of a unit has besides the unit's computation.
struct UnitPass {
  /// How the unit gets its parameters.
  enum class Source : std::uint8_t {
    kept,    ///< it has not freed them since an earlier pass
    own,     ///< it gathers them, and waits
    handed,  ///< the unit that ran before it in the pass has gathered them
  };
  Source source = Source::kept;
  bool frees = false;    ///< the parameters, at the end
  bool reduces = false;  ///< backward only: the unit's gradients
  /// Whether it gathers those of the unit that runs after it in the pass. A forward does so at its
  /// end, a backward before its computation.
  bool gathers_ahead = false;

  friend constexpr auto operator<=>(UnitPass const&, UnitPass const&) = default;
};

/// Both passes of a unit, for a microbatch.
struct UnitPasses {
  UnitPass forward;
  UnitPass backward;
  bool adds_up = false;  ///< whether earlier microbatches have left gradients that are not reduced
  bool has_reduced = false;  ///< whether earlier microbatches have reduced gradients

  friend constexpr auto operator<=>(UnitPasses const&, UnitPasses const&) = default;
};

/// Returns the passes by microbatch and unit. If there are more than three microbatches, the result
/// has three: the first, one for all between, and the last. A root's passes begin the forward and
/// the backward of a microbatch.
/// Pre: no unit gathers more than the next one ahead, and the root keeps its parameters until
/// backward.
std::vector<std::vector<UnitPasses>> unit_passes(UnitList const& list,
                                                 UnitPolicy const& policy,
                                                 int microbatches);

}  // namespace stagecraft
