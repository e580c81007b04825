#pragma once

#include <cstdint>

namespace stagecraft {

/// Versions of Megatron-LM, as far as their flags differ.
///
/// of_2022: attention is unfused, transfers between stages block and are cut over the tensor group,
/// layers are cut evenly. Source: NVIDIA/Megatron-LM at e1c334b0 (21 December 2022),
/// megatron/arguments.py.
/// current: attention is fused, transfers of an interleaved schedule overlap and are whole. Source:
/// NVIDIA/Megatron-LM at 000c4ac2, megatron/training/arguments.py and
/// megatron/core/transformer/transformer_config.py.
enum class MegatronVersion : std::uint8_t { of_2022, current };

}  // namespace stagecraft
