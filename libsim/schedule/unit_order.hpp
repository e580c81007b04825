#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft {

/// When the ranks that share the parameters of a unit gather and free them, and reduce its
/// gradients. A unit is a set of parameters that are gathered together: those of a block.
struct UnitPolicy {
  /// Whether a unit frees its parameters after forward, so that backward gathers them again.
  enum class AfterForward : std::uint8_t {
    free,       ///< every unit
    free_most,  ///< every unit but the root's or the last one, and `kept_last`
    keep,       ///< none
  };
  AfterForward after_forward = AfterForward::free_most;
  int kept_last = 0;  ///< free_most: how many of the last units are kept as well as the root
  /// free: the number of ranks that then hold all parameters together; 0: all that share them.
  int kept_among = 0;
  bool frees_after_backward = true;  ///< false: after the last backward of an iteration alone
  bool keeps_root = false;           ///< the same of the root alone: true
  int prefetch = 0;                  ///< units that a unit gathers ahead; 0: the next in backward
  bool reduces_every = false;        ///< whether every microbatch reduces; else the last one
  bool recomputes = false;           ///< whether backward runs the forward of each unit again

  friend constexpr auto operator<=>(UnitPolicy const&, UnitPolicy const&) = default;
};

/// Units in the order in which forward first uses them. A root has the parameters of no other unit;
/// it is gathered first, and reduced last.
struct UnitList {
  int units = 0;
  bool has_root = false;  ///< whether the first of them is the root
};

/// What the host of a rank issues.
struct UnitAction {
  enum class Kind : std::uint8_t {
    microbatch,       ///< the forward of a microbatch begins
    backward_begins,  ///< of the microbatch
    gather,           ///< the unit's parameters, from all ranks that share them
    gather_partly,    ///< the same, from the ranks among which they were kept
    forward,          ///< the unit's computation
    backward,
    recompute,
    reduce,  ///< the unit's gradients
    free,    ///< the unit's parameters
  };
  Kind kind = Kind::microbatch;
  int number = 0;  ///< of the unit; of the microbatch, if one begins

  friend bool operator==(UnitAction const&, UnitAction const&) = default;
};

/// All that the host issues in an iteration, in its order. A backward follows the unit's own gather
/// and comes before what the unit gathers ahead.
/// Source: PyTorch 2.15, torch/distributed/fsdp/_fully_shard (_fsdp_state.py and
/// _fsdp_param_group.py): the hooks of a unit.
std::vector<UnitAction> unit_actions(UnitList const& list,
                                     UnitPolicy const& policy,
                                     int microbatches);

}  // namespace stagecraft
