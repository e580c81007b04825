#include "libsim/plan/offload/module_offload.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/model/recompute_regions.hpp"
#include "libsim/plan/offload/offload_ops.hpp"
#include "libsim/program/liveness.hpp"

namespace stagecraft {
namespace {

/// Tensors of fewer elements stay on the device (min_offloaded_tensor_size).
constexpr std::int64_t least_in_group = std::int64_t{1024} * 1024;

using enum OffloadModule;
/// The order in which groups are brought back: the reverse of that in which they were copied.
constexpr std::array back_order{mlp_norm,  moe_act,   expert_fc1, attn_norm,
                                attn_proj, core_attn, qkv_linear};
/// The order in which the backwards of groups end.
constexpr std::array end_order{moe_act,   expert_fc1, mlp_norm, attn_proj,
                               core_attn, qkv_linear, attn_norm};

/// What leaves of a group, and who reads it in the backward.
struct Group {
  std::vector<std::size_t> readers;  ///< ops of the backward
  std::vector<TensorId> tensors;     ///< buffers, and views that are copied by themselves
  Bytes bytes{};
};

/// The groups of a layer's block, by module.
class LayerGroups {
 public:
  /// `block` may have waits, which read nothing, or only the lives that it had with them.
  LayerGroups(BlockProgram const& block, ModelConfig const& model)
      : block_{block},
        has_experts_{std::ranges::any_of(
            block.forward, [](Op const& op) { return op.name.owner == "experts.up"; })},
        // Transformer Engine joins attention's norm to the linear layer, if there is one alone.
        joins_norm_{!has_latents(model)} {
    if (block.policy.granularity == RecomputeGranularity::selective) {
      for (std::string const& name : block.policy.modules) {
        RecomputeRegion const& region = *find_region(name);
        if (region.kind != RecomputeRegion::Kind::checkpoint) continue;
        checkpointed_.insert(checkpointed_.end(), region.modules.begin(), region.modules.end());
      }
    }
    for (std::size_t i = 0; i < block.backward.size(); ++i) {
      if (auto const module = module_of(block.backward[i])) {
        groups_[static_cast<std::size_t>(*module)].readers.push_back(i);
      }
    }
    for (Group& group : groups_) choose_tensors(group);
  }

  Group const& of(OffloadModule module) const { return groups_[static_cast<std::size_t>(module)]; }

  /// The buffers that only groups that leave read in the backward.
  std::vector<TensorId> leaving(OffloadModules moved) const {
    std::map<TensorId, std::vector<std::size_t>> readers;  // in groups that leave, by buffer
    for (auto const& [module, name] : EnumNames<OffloadModule>::all) {
      if (!moved.has(module)) continue;
      for (TensorId const tensor : of(module).tensors) {
        std::vector<std::size_t>& all = readers[block_.tensor(tensor).buffer];
        all.insert(all.end(), of(module).readers.begin(), of(module).readers.end());
      }
    }
    std::vector<TensorId> buffers;
    for (auto const& [buffer, of_groups] : readers) {
      bool is_read_elsewhere = false;
      for (std::size_t i = 0; i < block_.backward.size(); ++i) {
        is_read_elsewhere =
            is_read_elsewhere || (uses(block_.backward[i], buffer) &&
                                  std::ranges::find(of_groups, i) == of_groups.end());
      }
      if (!is_read_elsewhere) buffers.push_back(buffer);
    }
    return buffers;
  }

 private:
  std::optional<OffloadModule> module_of(Op const& op) const {
    if (std::ranges::find(checkpointed_, op.module) != checkpointed_.end()) return std::nullopt;
    if (op.module == "attention_norm") return joins_norm_ ? qkv_linear : attn_norm;
    if (op.module == "attention_input" || op.module == "mla_up_projection") return qkv_linear;
    if (op.module == "core_attention") return core_attn;
    if (op.name.owner == "attention.projection") return attn_proj;
    if (!has_experts_) return std::nullopt;
    if (op.module == "mlp_norm") return mlp_norm;
    if (op.name.owner == "experts.up") return expert_fc1;
    if (op.name.owner == "experts.activation") return moe_act;
    return std::nullopt;
  }

  void choose_tensors(Group& group) const {
    for (std::size_t const reader : group.readers) {
      for (TensorId const id : block_.backward[reader].reads) {
        Tensor const& tensor = block_.tensor(id);
        if (tensor.shape.elements() < least_in_group || !is_saved(tensor.buffer)) continue;
        Tensor const& buffer = block_.tensor(tensor.buffer);
        bool const is_part = 2 * tensor.shape.elements() < buffer.shape.elements();
        if (has(group, tensor)) continue;
        group.tensors.push_back(is_part ? id : tensor.buffer);
        group.bytes += is_part ? tensor.bytes() : buffer.bytes();
      }
    }
  }

  /// Whether the group has the tensor's buffer, or the same part of it.
  bool has(Group const& group, Tensor const& tensor) const {
    return std::ranges::any_of(group.tensors, [&](TensorId id) {
      Tensor const& other = block_.tensor(id);
      return other.buffer == tensor.buffer &&
             (id == tensor.buffer || other.offset == tensor.offset);
    });
  }

  bool uses(Op const& op, TensorId buffer) const {
    auto const is_it = [&](TensorId id) { return block_.tensor(id).buffer == buffer; };
    return std::ranges::any_of(op.reads, is_it) || std::ranges::any_of(op.writes, is_it);
  }

  bool is_saved(TensorId buffer) const {
    auto const life = std::ranges::find(block_.lives, buffer, &BufferLife::buffer);
    return life != block_.lives.end() && may_leave(block_, *life);
  }

  BlockProgram const& block_;
  bool has_experts_;
  bool joins_norm_;
  std::vector<std::string_view> checkpointed_;  ///< modules
  std::array<Group, EnumNames<OffloadModule>::all.size()> groups_;
};

Bytes moved_bytes(LayerGroups const& groups, OffloadModules moved) {
  Bytes sum;
  for (auto const& [module, name] : EnumNames<OffloadModule>::all) {
    if (moved.has(module)) sum += groups.of(module).bytes;
  }
  return sum;
}

/// What a layer's block copies. A block number is -1 if there is no such layer.
struct ModuleRole {
  std::int32_t block = 0;
  OffloadModules moved{};        ///< the groups of the layer that leave
  std::int32_t below = -1;       ///< the block of the layer that comes before, or of a chunk's last
  OffloadModules below_moved{};  ///< the groups of that which leave
  bool begins_chunk = false;     ///< whether `below` is the chunk's last, of another microbatch
  bool ends_chunk = false;       ///< whether it allocates its own
  bool waits_for_host = false;   ///< whether its forward waits for copies to the host

  friend auto operator<=>(ModuleRole const&, ModuleRole const&) = default;
};

using ModuleBlocks = RoleBlocks<ModuleRole>;

class ModuleWriter {
 public:
  ModuleWriter(BlockProgram& block, TrainingConfig const& config, BlockProgram const* below)
      : block_{block}, config_{config}, below_{below} {
    remove_waits(block_);
  }

  void write(ModuleRole const& role) {
    LayerGroups const own{block_, config_.model};
    std::map<std::size_t, std::vector<Op>> behind;  // by op of the backward
    std::vector<Op> forward;
    std::vector<Op> backward;
    if (below_ != nullptr) {
      LayerGroups const below{*below_, config_.model};
      Bytes const bytes = moved_bytes(below, role.below_moved);
      append_link_copy(forward, Stream::to_host, bytes);
      append_link_copy(backward, Stream::from_host, bytes);
      if (!role.begins_chunk) allocate_below(own, below, role.below_moved, behind);
    }
    std::vector<TensorId> released;
    if (below_ != nullptr && !role.begins_chunk) released = take_left(role.below_moved);
    std::vector<TensorId> const leaving = own.leaving(role.moved);
    std::vector<TensorId> const returned = exchange(role, own);
    if (role.ends_chunk) {
      append_hold(backward, "reloaded", returned);
      released.insert(released.end(), leaving.begin(), leaving.end());
    } else {
      leave(leaving);
    }
    prepend(block_.forward, std::move(forward));
    append_hold(block_.forward, "released", released);
    insert(std::move(backward), behind);
    insert_waits(block_);
    if (!role.waits_for_host) erase_waits_for_host();
    derive_liveness(block_);
  }

 private:
  /// Lets the groups of the layer read what comes back, which is returned.
  std::vector<TensorId> exchange(ModuleRole const& role, LayerGroups const& own) {
    std::vector<TensorId> returned;
    for (auto const& [module, name] : EnumNames<OffloadModule>::all) {
      if (!role.moved.has(module)) continue;
      Group const& group = own.of(module);
      for (TensorId const tensor : group.tensors) {
        TensorId const copy = read_returned(block_, tensor, group.readers);
        if (!role.ends_chunk) {
          block_.handovers.push_back(
              {.pass = Pass::backward, .what = name_of_saved(returned.size()), .taken = copy});
        }
        returned.push_back(copy);
      }
    }
    return returned;
  }

  /// Leaves the buffers to the next layer, which releases them.
  void leave(std::vector<TensorId> const& buffers) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      block_.handovers.push_back(
          {.pass = Pass::forward, .what = name_of_saved(i), .left = buffers[i]});
    }
  }

  /// The buffers that the layer below has left.
  std::vector<TensorId> take_left(OffloadModules moved) {
    LayerGroups const below{*below_, config_.model};
    std::vector<TensorId> made;
    for (TensorId const buffer : below.leaving(moved)) {
      std::string_view const what = name_of_saved(made.size());
      Tensor left = below_->tensor(buffer);
      left.name = {"released", what};
      made.push_back(append_returned(block_, left));
      block_.handovers.push_back(
          {.pass = Pass::forward, .what = what, .position = -1, .taken = made.back()});
    }
    return made;
  }

  /// Behind each group whose backward is over, allocates one of the layer below.
  void allocate_below(LayerGroups const& own,
                      LayerGroups const& below,
                      OffloadModules moved,
                      std::map<std::size_t, std::vector<Op>>& behind) {
    std::vector<std::size_t> ends;
    for (OffloadModule const module : end_order) {
      bool const is_named = config_.offload.activations.modules.has(module);
      if (is_named && !own.of(module).readers.empty()) {
        ends.push_back(own.of(module).readers.back() + 1);
      }
    }
    std::size_t next = 0;
    for (OffloadModule const module : back_order) {
      if (!moved.has(module)) continue;
      std::size_t const position = ends.empty() ? 0 : ends[std::min(next++, ends.size() - 1)];
      append_hold(behind[position], "reloaded", take(below, moved, module));
    }
  }

  /// The tensors of a group of the layer below, which are left to it.
  std::vector<TensorId> take(LayerGroups const& below, OffloadModules moved, OffloadModule module) {
    std::size_t number = 0;
    for (auto const& [other, name] : EnumNames<OffloadModule>::all) {
      if (other == module) break;
      if (moved.has(other)) number += below.of(other).tensors.size();
    }
    std::vector<TensorId> made;
    for (TensorId const tensor : below.of(module).tensors) {
      std::string_view const what = name_of_saved(number++);
      Tensor copy = below_->tensor(tensor);
      copy.name = {"reloaded", what};
      copy.strides = {};
      copy.offset = 0;
      made.push_back(append_returned(block_, copy));
      block_.handovers.push_back(
          {.pass = Pass::backward, .what = what, .position = -1, .left = made.back()});
    }
    return made;
  }

  void insert(std::vector<Op> begin, std::map<std::size_t, std::vector<Op>> const& behind) {
    std::vector<Op> made = std::move(begin);
    for (std::size_t i = 0; i <= block_.backward.size(); ++i) {
      if (auto const ops = behind.find(i); ops != behind.end()) {
        made.insert(made.end(), ops->second.begin(), ops->second.end());
      }
      if (i < block_.backward.size()) made.push_back(block_.backward[i]);
    }
    block_.backward = std::move(made);
  }

  /// Pre: the waits for copies to the host come after all that is waited for.
  void erase_waits_for_host() {
    std::erase_if(block_.forward, [&](Op const& op) {
      return op.kind == OpKind::wait &&
             block_.forward[static_cast<std::size_t>(op.waits_for)].stream == Stream::to_host;
    });
  }

  BlockProgram& block_;
  TrainingConfig const& config_;
  BlockProgram const* below_;
};

/// The groups of each of a chunk's layers that leave.
std::vector<OffloadModules> moved_groups(TrainingConfig const& config,
                                         ModuleBlocks const& blocks,
                                         ChunkProgram const& chunk,
                                         std::vector<std::int32_t> const& layers) {
  ActivationOffload const& offload = config.offload.activations;
  struct Place {
    std::size_t layer = 0;
    OffloadModule module{};
  };
  std::vector<LayerGroups> groups;
  groups.reserve(layers.size());
  for (std::int32_t const layer : layers) groups.emplace_back(blocks.before(layer), config.model);
  std::vector<Place> eligible;
  std::map<OffloadModule, std::size_t> last;  // layer by module
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (auto const& [module, name] : EnumNames<OffloadModule>::all) {
      Group const& group = groups[i].of(module);
      if (!offload.modules.has(module) || group.readers.empty()) continue;
      last[module] = i;
      if (!group.tensors.empty()) eligible.push_back({i, module});
    }
  }
  auto const count = static_cast<double>(eligible.size());
  auto const staying = static_cast<std::size_t>(count * (1 - offload.fraction));
  eligible.resize(eligible.size() - staying);
  // The last groups of all are those of multi-token prediction, if there is any.
  bool const keeps_last = chunk.has_head && config.model.predicted_tokens == 0;
  std::vector<OffloadModules> moved(layers.size());
  for (Place const& place : eligible) {
    if (keeps_last && last.at(place.module) == place.layer) continue;
    moved[place.layer].insert(place.module);
  }
  return moved;
}

}  // namespace

void offload_modules(TrainingConfig const& config, Programs& programs) {
  ModuleBlocks blocks{programs};
  for (ChunkProgram& chunk : programs.chunks) {
    std::vector<std::int32_t> const layers = blocks.layers_of(chunk);
    std::vector<OffloadModules> const moved = moved_groups(config, blocks, chunk, layers);
    std::vector<ModuleRole> roles(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::size_t const below = i == 0 ? layers.size() - 1 : i - 1;
      ModuleRole& role = roles[i];
      role.block = layers[i];
      role.moved = moved[i];
      chunk.offloaded += moved_bytes(LayerGroups{blocks.before(layers[i]), config.model}, moved[i]);
      role.ends_chunk = i + 1 == layers.size() && !moved[i].empty();
      if (moved[below].empty()) continue;
      role.below = layers[below];
      role.below_moved = moved[below];
      role.begins_chunk = i == 0;
      role.waits_for_host = chunk.has_head;
    }
    blocks.assign(chunk, roles, [&](BlockProgram& block, ModuleRole const& role) {
      BlockProgram const* const below = role.below < 0 ? nullptr : &blocks.before(role.below);
      ModuleWriter{block, config, below}.write(role);
    });
  }
}

}  // namespace stagecraft
