#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// A module whose saved inputs the host may have, in the order in which a layer runs them.
/// Source: Megatron-LM d98e8a64, megatron/core/transformer/transformer_config.py, offload_modules.
enum class OffloadModule : std::uint8_t {
  attn_norm,   ///< attention's norm, if it is not part of the linear layer after it
  qkv_linear,  ///< projections of queries, keys and values, with a norm that is part of them
  core_attn,
  attn_proj,   ///< attention's output projection
  mlp_norm,    ///< the norm before experts
  expert_fc1,  ///< the experts' first linear layer
  moe_act,     ///< the experts' activation function
};

template <>
struct EnumNames<OffloadModule> {
  static constexpr std::array<std::pair<OffloadModule, std::string_view>, 7> all{
      {{OffloadModule::attn_norm, "attn_norm"},
       {OffloadModule::qkv_linear, "qkv_linear"},
       {OffloadModule::core_attn, "core_attn"},
       {OffloadModule::attn_proj, "attn_proj"},
       {OffloadModule::mlp_norm, "mlp_norm"},
       {OffloadModule::expert_fc1, "expert_fc1"},
       {OffloadModule::moe_act, "moe_act"}}};
};

/// A set of modules.
class OffloadModules {
 public:
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(OffloadModule module) const { return (bits_ & bit(module)) != 0; }
  constexpr void insert(OffloadModule module) { bits_ |= bit(module); }

  friend constexpr auto operator<=>(OffloadModules, OffloadModules) = default;

 private:
  static constexpr std::uint32_t bit(OffloadModule module) {
    return std::uint32_t{1} << static_cast<std::uint32_t>(module);
  }
  std::uint32_t bits_ = 0;
};

/// What layers keep for their backward that is in the memory of the node meanwhile. Key
/// `offload.activations`. `layers` is Transformer Engine's way, `modules` Megatron-LM's.
struct ActivationOffload {
  int layers = 0;  ///< the first ones of the model
  OffloadModules modules{};
  double fraction = 1;  ///< with modules: how many of a chunk's, from the first on

  friend constexpr bool operator==(ActivationOffload const&, ActivationOffload const&) = default;
};

/// What is in the memory of the node instead of the accelerator's. Key `offload`. The first three
/// are of the optimizer's state.
/// Source: Megatron-LM, megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py.
struct Offload {
  /// Fraction of a rank's elements of optimizer state that are there, and that the host updates.
  double optimizer = 0;
  bool overlap = false;       ///< whether copies to and from the host run beside its updates
  bool keeps_master = false;  ///< whether the accelerator keeps its master copies of them, too
  ActivationOffload activations{};

  friend constexpr bool operator==(Offload const&, Offload const&) = default;
};

}  // namespace stagecraft
