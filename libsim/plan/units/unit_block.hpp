#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libsim/plan/units/unit_passes.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// The buffers that units leave to each other.
namespace handed {
inline constexpr std::string_view flat = "flat";                    // of the unit that takes it
inline constexpr std::string_view parameters = "parameters";        // the unit's own
inline constexpr std::string_view gradients = "gradients";          // its own, not reduced
inline constexpr std::string_view reduce_input = "reduce_input";    // of the unit that leaves it
inline constexpr std::string_view bucket = "bucket";                // of the unit that takes it
inline constexpr std::string_view own_gradients = "own_gradients";  // the same
inline constexpr std::string_view gradient_shard =
    "gradient_shard";  // of that whose gradients it has
}  // namespace handed

/// The names by which an executor knows what ops of units move.
namespace unit_names {
inline constexpr std::string_view module = "unit";       // of all these ops
inline constexpr std::string_view gathered = "unit";     // owner of what a forward gathers
inline constexpr std::string_view again = "unit_again";  // of what a backward gathers
inline constexpr std::string_view ahead = "unit_ahead";  // of the unit that runs next in a forward
inline constexpr std::string_view before = "unit_before";  // of that which runs next in a backward
inline constexpr std::string_view gradients = "unit_gradients";  // of the unit's own
inline constexpr std::string_view shard = "shard";               // a rank's part of any of these
inline constexpr std::string_view copy_in = "copy_in";           // to what is gathered, or reduced
inline constexpr std::string_view add_up = "add_up";             // to the sum over microbatches
inline constexpr std::string_view add = "add";      // to the shard of earlier reductions
inline constexpr std::string_view widen = "widen";  // from what was reduced to the shard
inline constexpr std::string_view zero = "zero";    // of a gradient to which kernels add
}  // namespace unit_names

/// What a head leaves to the embedding of its unit: the gradients of its parameters, in order.
inline constexpr std::array<std::string_view, 4> gradients_of_head{"gradient_0", "gradient_1",
                                                                   "gradient_2", "gradient_3"};

/// Ranks that share parameters.
struct UnitGroup {
  int ranks = 1;
  GroupId group{};
  std::optional<GroupId>
      copies{};  ///< the ranks with the same shards, over which gradients are summed
};

/// What the collectives of all units have in common.
struct UnitTraits {
  UnitGroup all;
  /// Those that share the parameters of experts, if these are a part of each unit of their own.
  std::optional<UnitGroup> experts{};
  UnitTypes types;
  bool gathers = true;       ///< whether ranks share parameters, too
  bool is_flat = false;      ///< ShardingTraits::is_flat
  bool cuts_rows = false;    ///< ShardingTraits::cuts_rows
  bool all_reduces = false;  ///< ShardingTraits::all_reduces
  bool joins_rows = false;   ///< ShardingTraits::joins_rows
  bool fills_input = false;  ///< ShardingTraits::fills_input
  bool overlaps = true;      ///< whether reductions run beside the backward of the unit before
  /// Elements of the buffer that collects gradients; 0: there is none.
  std::int64_t bucket = 0;
  int buckets = 1;               ///< how many there are, which take turns
  bool keeps_gradients = false;  ///< ShardingTraits::keeps_gradients
  /// The rank's elements of all gradients, if units reduce into one buffer of a backward.
  std::int64_t own_gradients = 0;
};

/// The blocks that a unit depends on; null: there is none.
struct Neighbours {
  BlockProgram const* before = nullptr;  ///< the unit that runs before it in model order
  BlockProgram const* behind = nullptr;  ///< the unit that runs after it
  /// If the head has the embedding's table, both are one unit: of the embedding, the head; of the
  /// head, the embedding.
  BlockProgram const* partner = nullptr;
  std::int32_t distance = 0;  ///< from the block to its partner, in the chunk
  /// Whether the unit behind leaves it gradients to be reduced.
  bool reduces_behind = false;
  bool is_first_in_backward = false;  ///< whether no other unit's backward ends before its own
};

/// Elements of a parameter, with its own padding.
std::int64_t elements_of(Shape const& shape, UnitTraits const& traits);

/// The elements of a block's own parameters, padded.
std::int64_t elements_of(BlockProgram const& block, UnitTraits const& traits);

/// Consecutive elements of a unit that the same ranks share.
struct UnitPart {
  std::int64_t first = 0;
  std::int64_t elements = 0;
  std::int64_t low = 0;  ///< those of weights that are gathered quantised, a byte each
  bool is_of_experts = false;

  UnitGroup const& group(UnitTraits const& traits) const {
    return is_of_experts ? *traits.experts : traits.all;
  }
  std::int64_t shard(UnitTraits const& traits) const { return elements / group(traits).ranks; }
  /// The type of the buffers into which it is gathered, and how many elements they have: bytes of
  /// both types, if it has two. Pre: one of traits.types.low has one byte.
  ElementType gathered_type(UnitTraits const& traits) const {
    return low == 0 ? traits.types.gathered : traits.types.low;
  }
  std::int64_t gathered(UnitTraits const& traits) const {
    return low == 0 ? elements : high_bytes(traits) + low;
  }
  /// Bytes of what comes before the quantised weights.
  std::int64_t high_bytes(UnitTraits const& traits) const {
    return (elements - low) * element_size(traits.types.gathered);
  }
  /// One of two literals.
  std::string_view name(std::string_view of_all, std::string_view of_experts) const {
    return is_of_experts ? of_experts : of_all;
  }
};

/// The parts of a block's unit in their order; `tail`: elements of the head of the same unit.
std::vector<UnitPart> parts_of(BlockProgram const& block,
                               UnitTraits const& traits,
                               std::int64_t tail = 0);

/// Whether its unit gathers a weight quantised.
bool is_gathered_low(BlockProgram const& block, Parameter const& parameter);

/// A block to which the ops of its unit are added.
struct UnitBlock {
  using Ops = std::vector<Op>;

  UnitBlock(BlockProgram& block,
            UnitTraits const& traits,
            Neighbours const& beside,
            UnitPasses const& passes);

  bool is_head() const { return block.kind == BlockProgram::Kind::head; }
  /// Whether the unit has a head besides, or the block is that head.
  bool has_tail() const { return beside.partner != nullptr && !is_head(); }
  bool is_tail() const { return beside.partner != nullptr && is_head(); }

  TensorId make(Name name, std::int64_t count, ElementType type, Category category);
  /// A part of another buffer, from its beginning or from `first`.
  TensorId make_part(Name name, std::int64_t count, TensorId whole, std::int64_t first = 0);
  TensorId make_gathered(Name name, std::int64_t count, ElementType type) {
    return make(name, count, type, Category::gathered);
  }
  /// A buffer for the parameters of all parts, in the types in which they are gathered.
  TensorId make_parameters(Name name, std::vector<UnitPart> const& of);
  TensorId make_parameters(Name name) { return make_parameters(name, parts); }

  void take(Pass pass, std::string_view what, std::int32_t of, TensorId tensor);
  void leave(Pass pass, std::string_view what, std::int32_t to, TensorId tensor);
  void lend(Pass pass, std::string_view what, TensorId tensor);
  void pass_on(Pass pass, std::string_view what, std::int32_t of, TensorId tensor);

  Op& append(Ops& ops, OpKind kind, Name name, TensorList const& reads, TensorList const& writes);
  Op& append_collective(
      Ops& ops, OpKind kind, Name name, TensorId from, TensorId to, GroupId group);
  /// The buffer stays at least until here.
  void hold(Ops& ops, Name name, TensorId buffer) {
    append(ops, OpKind::hold, name, {buffer}, {}).traffic = {};
  }

  BlockProgram& block;
  UnitTraits const& traits;
  Neighbours const& beside;
  UnitPasses const& passes;
  std::vector<UnitPart> parts;  ///< of the unit
  std::int64_t elements;        ///< of the unit
};

}  // namespace stagecraft
