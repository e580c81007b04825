#include "libsim/plan/units/sharded_units.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "libsim/plan/units/unit_passes.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/plan/units/unit_writer.hpp"

namespace stagecraft {
namespace {

constexpr std::int32_t no_unit = -1;

/// The units of a chunk, by the position of their block.
class ChunkUnits {
 public:
  ChunkUnits(std::vector<std::int32_t> const& blocks,
             std::vector<BlockProgram> const& programs,
             ShardingTraits const& kind)
      : blocks_{blocks}, programs_{programs}, units_(blocks.size(), no_unit) {
    has_root_ = kind.has_root || std::ranges::any_of(program(blocks.size() - 1).parameters,
                                                     &ParameterTraits::shared);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (!program(i).parameters.empty()) units_[i] = is_tail(i) ? 0 : list_.units++;
    }
    list_.has_root = has_root_;
  }
  UnitList const& list() const { return list_; }
  std::int32_t unit_at(std::size_t position) const { return units_[position]; }
  BlockProgram const& program(std::size_t position) const {
    return programs_[static_cast<std::size_t>(blocks_[position])];
  }
  /// The block beside a position, if it is a unit.
  std::int32_t block_beside(std::size_t position, int step) const {
    std::size_t const other = position + static_cast<std::size_t>(step);
    return other < units_.size() && units_[other] != no_unit ? blocks_[other] : no_unit;
  }
  /// The position of the other part of the root's unit, for the embedding and the head.
  std::optional<std::size_t> partner_of(std::size_t position) const {
    if (!has_root_ || units_[position] != 0) return std::nullopt;
    if (!is_tail(position)) return units_.size() - 1;
    return static_cast<std::size_t>(std::ranges::find(units_, 0) - units_.begin());
  }
  bool is_tail(std::size_t position) const { return has_root_ && position + 1 == blocks_.size(); }

 private:
  std::vector<std::int32_t> const& blocks_;
  std::vector<BlockProgram> const& programs_;
  std::vector<std::int32_t> units_;
  UnitList list_;
  bool has_root_ = false;  ///< embedding and head are one unit, which is the root
};

/// Copies blocks for the places and microbatches at which their units differ.
class UnitCopies {
 public:
  UnitCopies(TrainingPlan const& plan, Programs& programs)
      : programs_{programs},
        whole_{std::exchange(programs.blocks, {})},
        traits_{unit_traits(plan)} {}

  std::vector<BlockProgram> const& whole() const { return whole_; }

  /// To be called for each chunk, with its units, before its copies are made.
  void begin(ChunkProgram const& chunk, ChunkUnits const& units) {
    sizes_.assign(static_cast<std::size_t>(units.list().units), 0);
    for (std::size_t i = 0; i < chunk.blocks.size(); ++i) {
      if (units.unit_at(i) == no_unit) continue;
      sizes_[static_cast<std::size_t>(units.unit_at(i))] += elements_of(units.program(i), traits_);
    }
    std::int64_t const all = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
    bool const makes_anew = !traits_.gathers && !traits_.keeps_gradients;
    traits_.own_gradients = makes_anew ? all / traits_.all.ranks : 0;
  }

  /// How many of the last units DeepSpeed keeps after forward: those of which fewer than `distance`
  /// elements of others are used before their backward.
  /// Source: deepspeed/runtime/zero/partitioned_param_coordinator.py, __params_to_release().
  int kept_last(std::int64_t distance, bool recomputes) const {
    // Units behind are used in forward and backward, and once more if they are recomputed.
    std::int64_t const uses = recomputes ? 3 : 2;
    std::int64_t used = 0;
    int kept = 0;
    for (auto size = sizes_.rbegin(); size != sizes_.rend() && uses * used < distance; ++size) {
      ++kept;
      used += *size;
    }
    return kept;
  }

  ChunkProgram of(ChunkProgram const& chunk,
                  ChunkUnits const& units,
                  std::vector<UnitPasses> const& passes) {
    ChunkProgram made = chunk;
    for (std::size_t i = 0; i < chunk.blocks.size(); ++i) {
      Key key;
      key.block = chunk.blocks[i];
      if (std::int32_t const unit = units.unit_at(i); unit != no_unit) {
        key.before = units.block_beside(i, -1);
        key.behind = units.block_beside(i, 1);
        key.passes = passes[static_cast<std::size_t>(unit)];
        key.is_before_tail = i + 1 < chunk.blocks.size() && units.is_tail(i + 1);
        if (auto const partner = units.partner_of(i)) {
          key.partner = chunk.blocks[*partner];
          key.distance = static_cast<std::int32_t>(*partner) - static_cast<std::int32_t>(i);
        }
      }
      made.blocks[i] = copy(key);
    }
    return made;
  }

 private:
  struct Key {
    std::int32_t block = 0;
    std::int32_t before = no_unit;
    std::int32_t behind = no_unit;
    std::int32_t partner = no_unit;
    std::int32_t distance = 0;
    bool is_before_tail = false;  ///< the block behind is a part of the root's unit
    UnitPasses passes;

    friend auto operator<=>(Key const&, Key const&) = default;
  };

  BlockProgram const* program(std::int32_t block) const {
    return block == no_unit ? nullptr : &whole_[static_cast<std::size_t>(block)];
  }

  std::int32_t copy(Key const& key) {
    auto const [place, is_new] =
        known_.try_emplace(key, static_cast<std::int32_t>(programs_.blocks.size()));
    if (is_new) {
      BlockProgram made = *program(key.block);
      if (!made.parameters.empty()) {
        // All units of a microbatch reduce, or none.
        bool const is_first = key.behind == no_unit || key.is_before_tail;
        bool const reduces_behind = key.passes.backward.reduces && traits_.overlaps && !is_first;
        write_unit(made, traits_,
                   {.before = program(key.before),
                    .behind = program(key.behind),
                    .partner = program(key.partner),
                    .distance = key.distance,
                    .reduces_behind = reduces_behind,
                    .is_first_in_backward = is_first},
                   key.passes);
      }
      programs_.blocks.push_back(std::move(made));
    }
    return place->second;
  }

  Programs& programs_;
  std::vector<BlockProgram> whole_;
  UnitTraits traits_;
  std::vector<std::int64_t> sizes_;  ///< elements of the chunk's units
  std::map<Key, std::int32_t> known_;
};

/// Leaves of the passes of units what they have if their parameters stay whole.
void leave_out_gathers(std::vector<std::vector<UnitPasses>>& passes) {
  for (std::vector<UnitPasses>& of_microbatch : passes) {
    for (UnitPasses& unit : of_microbatch) {
      unit.forward = {};
      unit.backward = {.reduces = unit.backward.reduces};
    }
  }
}

}  // namespace

UnitTraits unit_traits(TrainingPlan const& plan) {
  Sharding const& sharding = plan.config.sharding;
  ShardingTraits const& kind = sharding.traits();
  UnitTraits traits{.all = {.ranks = plan.groups.members(*plan.roles.unit),
                            .group = *plan.roles.unit,
                            .copies = plan.roles.unit_copies},
                    .experts = {},
                    .types = unit_types(plan.config),
                    .gathers = sharding.shares_parameters(),
                    .is_flat = kind.is_flat,
                    .cuts_rows = kind.cuts_rows,
                    .all_reduces = kind.all_reduces,
                    .joins_rows = kind.joins_rows,
                    .fills_input = kind.fills_input,
                    .overlaps = sharding.overlap,
                    .bucket = sharding.bucket,
                    .keeps_gradients = kind.keeps_gradients};
  // stage_1_and_2.py, setup_buckets(); stage3.py has one for each type.
  if (traits.overlaps && !traits.keeps_gradients) traits.buckets = 2;
  if (kind.splits_experts && plan.roles.expert_gradients) {
    traits.experts = UnitGroup{.ranks = plan.groups.members(*plan.roles.expert_gradients),
                               .group = *plan.roles.expert_gradients,
                               .copies = {}};
  }
  return traits;
}

void shard_units(TrainingPlan const& plan, Programs& programs) {
  auto const microbatches = static_cast<int>(stagecraft::microbatches(plan.config));
  ShardingTraits const& kind = plan.config.sharding.traits();
  bool const recomputes = std::ranges::any_of(plan.config.recompute, [](auto const& policy) {
    return policy.granularity == RecomputeGranularity::full;
  });
  UnitCopies copies{plan, programs};
  std::vector<ChunkProgram> const chunks = std::exchange(programs.chunks, {});
  // Forced counts may make each microbatch differ: then there are chunks for each of them.
  bool const differ = plan.forced && plan.forced->depends_on_microbatch();
  std::size_t const of_microbatch =
      differ ? chunks.size() / static_cast<std::size_t>(microbatches) : chunks.size();
  auto const role_of = [&](std::size_t k) {
    if (std::cmp_equal(k + 1, microbatches))
      return static_cast<std::size_t>(std::min(microbatches, 3) - 1);
    return std::min<std::size_t>(k, 1);
  };
  std::vector<std::vector<ChunkProgram>> by_role;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    ChunkProgram const& chunk = chunks[i];
    ChunkUnits const units{chunk.blocks, copies.whole(), kind};
    copies.begin(chunk, units);
    UnitPolicy policy = unit_policy(plan.config.sharding);
    policy.kept_last = copies.kept_last(plan.config.sharding.reuse_distance, recomputes);
    auto passes = unit_passes(units.list(), policy, microbatches);
    if (!plan.config.sharding.shares_parameters()) leave_out_gathers(passes);
    std::vector<ChunkProgram>& made = by_role.emplace_back(passes.size());
    for (std::size_t role = 0; role < passes.size(); ++role) {
      bool const is_needed = !differ || role == role_of(i / of_microbatch);
      if (is_needed) made[role] = copies.of(chunk, units, passes[role]);
    }
  }
  for (std::size_t k = 0; std::cmp_less(k, microbatches); ++k) {
    for (std::size_t i = 0; i < of_microbatch; ++i) {
      std::size_t const chunk = differ ? k * of_microbatch + i : i;
      programs.chunks.push_back(by_role[chunk][role_of(k)]);
    }
  }
}

}  // namespace stagecraft
